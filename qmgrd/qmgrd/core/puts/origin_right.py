"""Checks that a client or a link sends only messages that it may send.

The UID of a message states the queue manager that created it. Duplicates are detected by UID, so a
sender that could invent the UIDs of a queue manager could make the messages of this queue manager
vanish. A hub forwards messages of other queue managers, and needs the right to forward for each of
them. A client needs the same right to put messages with UIDs.

A UID with the timestamp 0 is a key that an application chose (PROTOCOL.md, section 14). No queue
manager creates such a UID, so it needs no right.
"""

from collections.abc import Sequence

from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from qmgr_protocol.need import Right
from qmgrd.core.puts.report_right import Check

_OF_KEY = records.TIMESTAMP.pack(0)


def refusal(check: Check, batch: Sequence[bytes], sender: str = "") -> RequestError | None:
    """Returns NOT_AUTHORIZED if *sender* may not send a message of *batch*, or None.

    Args:
        check: Raises the error if the user of the sender lacks a right.
        batch: Records, with or without UIDs.
        sender: The queue manager that sends them, or "" if a client does.
    """
    at, uid = records.ORIGIN_LENGTH_AT, records.TIMESTAMP_AT
    origins = {
        record[uid - record[at] : uid] for record in batch if record[at] and record[uid:] != _OF_KEY
    }
    origins.discard(sender.encode())
    for origin in sorted(origins):
        try:
            check(Right.FORWARD, origin.decode(errors="replace"))
        except RequestError as error:
            return error
    return None
