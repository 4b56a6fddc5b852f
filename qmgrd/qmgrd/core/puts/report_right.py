"""Checks that a user may have a report put on the reply queue of its message.

A report is put when the message expires, which may be much later, and it does not matter then who
put the message. Therefore, the user needs the right to put on ``reply_to`` when it puts a message
that requests a report.
"""

from collections.abc import Callable
from typing import TypeAlias

from qmgr_protocol import name as names
from qmgr_protocol import record as records
from qmgr_protocol import topic as topics
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Right

# Raises RequestError if the user has not the right on the queue or topic of this name.
Check: TypeAlias = Callable[[Right, str], None]


def refusals(check: Check | None, batch: list[bytes]) -> dict[int, RequestError]:
    """Returns the errors of the records whose reports the user may not put, by their index."""
    if check is None:
        return {}
    flags_at, wanted = records.FLAGS_AT, records.FLAG_REPORT_EXPIRY
    verdicts: dict[str, RequestError | None] = {}
    return {
        index: error
        for index, record in enumerate(batch)
        # Nearly all messages request no report, so the flag is looked at first.
        if len(record) > flags_at
        and record[flags_at] & wanted
        and (reply_to := _reply_to(record))
        and (error := _verdict(check, reply_to, verdicts)) is not None
    }


def _verdict(
    check: Check, reply_to: str, verdicts: dict[str, RequestError | None]
) -> RequestError | None:
    """Returns the refusal of reports to *reply_to*, which is checked once for each batch."""
    if reply_to not in verdicts:
        verdicts[reply_to] = _refusal(check, reply_to)
    return verdicts[reply_to]


def _refusal(check: Check, reply_to: str) -> RequestError | None:
    """Returns NOT_AUTHORIZED if the user may not put a report on *reply_to*, or None.

    The error is the same whether or not the reply queue exists.
    """
    try:
        check(Right.PUT, reply_to)
    except RequestError:
        return RequestError(
            ErrorCode.NOT_AUTHORIZED,
            "the message requests a report, which requires the right to put on its reply_to "
            f"{reply_to[:200]}",
        )
    return None


def without_refused(check: Check, batch: list[bytes], peer: str) -> list[bytes]:
    """Returns *batch*, in which no record requests a report that the user of a link may not put.

    The messages themselves must arrive. A report may always be put on a queue of *peer*, the queue
    manager that sent the messages.
    """

    def check_others(right: Right, name: str) -> None:
        if topics.is_topic(name) or names.split(name)[1] != peer:
            check(right, name)

    found = refusals(check_others, batch)
    return [
        records.without_report(record) if index in found else record
        for index, record in enumerate(batch)
    ]


def _reply_to(record: bytes) -> str:
    """Returns where the report of *record* would be put. "" if it requests none or is invalid."""
    if len(record) < records.HEAD_BYTES:
        return ""
    if not record[records.FLAGS_AT] & records.FLAG_REPORT_EXPIRY:
        return ""
    try:
        reply_to = records.decode(record).envelope.get(records.REPLY_TO)
    except RequestError:
        return ""  # The put is refused, or the report has no place.
    return reply_to if type(reply_to) is str else ""
