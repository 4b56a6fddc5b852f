"""Checks that a queue manager sends only messages that it may send: by default, its own.

The UID of a message states the queue manager that created it. Duplicates are detected by UID, so a
queue manager that could invent the UIDs of another one could make the messages of the other vanish.
A hub forwards messages of other queue managers, and needs the right to forward for each of them.
"""

from collections.abc import Sequence

from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from qmgr_protocol.need import Right
from qmgrd.core.puts.report_right import Check


def refusal(check: Check, batch: Sequence[bytes], peer: str) -> RequestError | None:
    """Returns NOT_AUTHORIZED if *peer* may not send a message of *batch*, or None.

    Args:
        check: Raises the error if the user of the link lacks a right.
        batch: Records with UIDs.
        peer: The queue manager that sends them.
    """
    at, uid = records.ORIGIN_LENGTH_AT, records.TIMESTAMP_AT
    origins = {record[uid - record[at] : uid] for record in batch}
    origins.discard(peer.encode())
    for origin in sorted(origins):
        try:
            check(Right.FORWARD, origin.decode(errors="replace"))
        except RequestError as error:
            return error
    return None
