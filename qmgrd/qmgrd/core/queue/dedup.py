"""Duplicate detection in constant time: a table per queue, origin -> highest timestamp.

A message whose timestamp is above its origin's entry cannot be on the queue: it is appended with
no look at any message (fast path). Only a timestamp at or below the entry asks the stored UID
index (slow path), which is O(log n). (IPCOM000015189D; the index in place of a scan is our design.)

The rule that makes it correct: for every message of origin o and timestamp t on the queue, in any
state, entry[o] >= t. Entries are therefore never lowered; that of an origin of which nothing is on
the queue is removed in time (origin_eviction.py). They are written in the turn that raised them,
beside the messages.

A queue may remember the UIDs of what was consumed (``dedup_retention_ms``). Such a UID stays in the
index, in a lane of its own, and the schedule forgets it in time.

A row of the index counts only if the message at its position has that UID still. One whose UID
rots leaves its row behind, as nothing else names it; the next message of that UID takes it over.
A row of the table that rots becomes the highest there can be: from then on the index is asked.
"""

from enum import Enum

from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction

ORIGINS_CACHED_MAX = 10_000
TIMESTAMP_MAX = 2**64 - 1


class Verdict(Enum):
    """What the table says of a UID."""

    FAST = "fast"  # cannot be there
    SLOW = "slow"  # might have been there; the index says it is not
    DUPLICATE = "duplicate"  # is there


class OriginTable:
    """The table of one queue: a cache of its stored rows."""

    def __init__(self, queue_id: int) -> None:
        self._has_targets = queue_id != keys.PUBLICATIONS_ID  # What is published is there once.
        self._prefix = keys.of_queue(keys.SPACE_ORIGIN, queue_id)
        self._index_prefix = keys.of_queue(keys.SPACE_UID, queue_id)
        self._message_prefix = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
        self.born = 0  # what is not persistent and arrived before is gone
        self._highest: dict[bytes, int] = {}
        self._raised: dict[bytes, None] = {}

    def index_prefix(self, target: bytes = b"") -> bytes:
        """Return what stands before the encoded UID in a key of the UID index.

        On a transmission queue a message is bound for a *target*, and may be there once for each.
        """
        if not target or not self._has_targets:
            return self._index_prefix
        return self._index_prefix + bytes([len(target)]) + target

    def index_key(self, trailer: bytes, target: bytes = b"") -> bytes:
        """Return the key of the UID index for the encoded UID *trailer*."""
        return self.index_prefix(target) + trailer

    def judge(self, tx: Transaction, trailer: bytes, target: bytes = b"") -> Verdict:
        """Return whether a message of the encoded UID *trailer* may be put."""
        origin, timestamp = trailer[:-8], int.from_bytes(trailer[-8:], "big")
        highest = self._highest.get(origin)
        if highest is None:
            highest = self._load(tx, origin)
        if timestamp > highest:
            return Verdict.FAST
        return Verdict.DUPLICATE if self._is_there(tx, trailer, target) else Verdict.SLOW

    def _is_there(self, tx: Transaction, trailer: bytes, target: bytes) -> bool:
        position = tx.get(self.index_key(trailer, target))
        if position is None:
            return False
        if position[0] == keys.LANE_REMEMBERED:
            return True
        value = tx.get(self._message_prefix + position)
        return (
            value is not None
            and entries.uid_trailer(entries.decode(value)) == trailer
            and not self.is_lost(value, position)
        )

    def is_lost(self, value: bytes, position: bytes) -> bool:
        """Return whether the message at *position* is gone with a restart, though not swept yet."""
        arrival = int.from_bytes(position[2:], "big")
        return arrival < self.born and entries.decode(value).volatile

    def place(self, tx: Transaction, trailer: bytes, target: bytes = b"") -> bytes | None:
        """Return lane, 9 - priority and arrival of the message of that encoded UID, or None."""
        position = tx.get(self.index_key(trailer, target))
        if position is None or len(position) != keys.POSITION.size:
            return None
        return None if position[0] == keys.LANE_REMEMBERED else position

    def raise_to(self, tx: Transaction, origin: bytes, timestamp: int) -> None:
        """Raise the entry of *origin* for messages that were put, of up to that *timestamp*."""
        highest = self._highest.get(origin)
        if highest is None:
            highest = self._load(tx, origin)
        if timestamp > highest:
            self._highest[origin] = timestamp
            self._raised[origin] = None

    def flush(self, tx: Transaction) -> None:
        """Write the entries that were raised in this turn."""
        for origin in self._raised:
            rows.put(tx, self._prefix + origin, self._highest[origin].to_bytes(8, "big"))
        self._raised.clear()
        if len(self._highest) > ORIGINS_CACHED_MAX:
            self._highest.clear()

    def evict(self, tx: Transaction, origin: bytes) -> bool:
        """Forget *origin*, of which nothing is on the queue; return whether that was possible.

        One that was raised in this turn stays: it is written at its end.
        """
        if origin in self._raised:
            return False
        self._highest.pop(origin, None)
        tx.delete(self._prefix + origin)
        return True

    def entries(self, tx: Transaction, after: str, limit: int) -> tuple[dict[str, int], str | None]:
        """Return up to *limit* entries behind the origin *after*: origin to highest timestamp.

        Also the last of them if more follow.
        """
        found: dict[str, int] = {}
        start = self._prefix + after.encode() + b"\0" if after else self._prefix
        for key, value in tx.scan(start, keys.after(self._prefix)):
            if len(found) == limit:
                return found, next(reversed(found))
            found[key[len(self._prefix) :].decode()] = timestamp_of(key, value)
        return found, None

    def _load(self, tx: Transaction, origin: bytes) -> int:
        key = self._prefix + origin
        value = tx.get(key)
        highest = -1 if value is None else timestamp_of(key, value)
        if highest == TIMESTAMP_MAX:
            self._raised[origin] = None  # It may have rotted: written, it is sound again.
        self._highest[origin] = highest
        return highest


def timestamp_of(key: bytes, value: bytes) -> int:
    """Return what a row of the table holds, or, if it is damaged, what is never too low."""
    try:
        return int.from_bytes(rows.unseal(key, value), "big")
    except rows.RowDamaged:
        return TIMESTAMP_MAX
