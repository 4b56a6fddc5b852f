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


def once(check: Check) -> Check:
    """Returns a check that checks each right only once, for all records of a batch.

    A refusal is also recorded only once.
    """
    verdicts: dict[tuple[Right, str], RequestError | None] = {}

    def checked(right: Right, name: str) -> None:
        if (right, name) not in verdicts:
            verdicts[right, name] = None
            try:
                check(right, name)
            except RequestError as error:
                verdicts[right, name] = error
        found = verdicts[right, name]
        if found is not None:
            # Many records may share the error, whose traceback would grow with each of them.
            raise found.with_traceback(None)

    return checked


def refusal(check: Check, record: bytes) -> RequestError | None:
    """Returns NOT_AUTHORIZED if *record* requests a report that the user may not put, or None.

    The error is the same whether or not the reply queue exists.
    """
    reply_to = _reply_to(record)
    if not reply_to:
        return None
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

    flags_at, wanted = records.FLAGS_AT, records.FLAG_REPORT_EXPIRY
    return [
        records.without_report(record)
        # Nearly all messages request no report, so the flag is looked at first.
        if record[flags_at] & wanted and refusal(check_others, record) is not None
        else record
        for record in batch
    ]


def _reply_to(record: bytes) -> str:
    """Returns where the report of *record* would be put. "" if it requests none or is invalid."""
    if len(record) < records.HEAD_BYTES:
        return ""
    if not record[records.FLAGS_AT] & records.FLAG_REPORT_EXPIRY:
        return ""
    try:
        return records.envelope_text(record, records.REPLY_TO) or ""
    except RequestError:
        return ""  # The put is refused, or the report has no place.
