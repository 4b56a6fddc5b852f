"""Checks the records that a client puts for what needs more than the right to put on the queue."""

from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from qmgrd.core.puts import origin_right, report_right
from qmgrd.core.puts.report_right import Check


def refusals(check: Check | None, batch: list[bytes]) -> dict[int, RequestError]:
    """Returns the errors of the records that the user may not put, by their index.

    A record with a UID needs the right to forward, and one that requests a report the right to put
    the report.

    Args:
        check: Raises the error if the user lacks a right. None if the user has all rights.
        batch: The records, valid or not.
    """
    if check is None:
        return {}
    checked = report_right.once(check)
    flags_at, uid_at, wanted = (
        records.FLAGS_AT,
        records.ORIGIN_LENGTH_AT,
        records.FLAG_REPORT_EXPIRY,
    )
    return {
        index: error
        for index, record in enumerate(batch)
        # Nearly all records have neither, so this is looked at first.
        if len(record) > flags_at
        and (record[uid_at] or record[flags_at] & wanted)
        and (
            error := origin_right.refusal(checked, (record,))
            or report_right.refusal(checked, record)
        )
        is not None
    }
