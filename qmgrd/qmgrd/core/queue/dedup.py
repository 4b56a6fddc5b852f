"""Detects duplicates in constant time with a table per queue: origin to highest timestamp.

A message whose timestamp is above the entry of its origin cannot be on the queue. The daemon
appends such a message without any lookup (fast path). A timestamp at or below the entry requires a
lookup (slow path), which takes O(log n). (IPCOM000015189D describes the method with a scan.) The
lookup reads the stored UID index, and then searches the messages that need no row in the index,
because they are in the order of their UIDs (ordered.py).

Invariant: entry[o] >= t for every message on the queue, where o is its origin and t its timestamp.
Therefore, entries are never lowered. A job removes the entry of an origin that has no message on
the queue (origin_eviction.py). The turn that raises an entry writes the entry together with the
message.

A queue may remember the UIDs of consumed messages (``dedup_retention_ms``). Such a UID stays in the
index, under a separate lane, until the schedule removes it.

A row of the index counts only if the message at its position still has that UID. If the UID of a
message is damaged, its index row remains until the next message with that UID overwrites the row.
A damaged row of the table counts as the highest possible timestamp, so every put of its origin then
takes the slow path.
"""

from enum import Enum

from qmgr_protocol import record as records
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction
from qmgrd.core.queue.ordered import OrderedMessages

ORIGINS_CACHED_MAX = 10_000
TIMESTAMP_MAX = 2**64 - 1


class UidVerdict(Enum):
    """The result of checking whether a UID is new."""

    FAST = "fast"  # a new UID, as the table shows
    SLOW = "slow"  # a new UID, as a lookup shows
    DUPLICATE = "duplicate"  # a UID that exists or is remembered


class OriginTable:
    """The table of origins of one queue, as a cache of its stored rows."""

    def __init__(self, queue_id: int, ordered: OrderedMessages | None = None) -> None:
        """Reads the table of a queue.

        Args:
            queue_id: The id of the queue.
            ordered: The messages without a row in the UID index. They are required for lookups.
        """
        self._ordered = ordered
        self._has_targets = queue_id != keys.PUBLICATIONS_ID  # A publication has only one copy.
        self._prefix = keys.of_queue(keys.SPACE_ORIGIN, queue_id)
        self._index_prefix = keys.of_queue(keys.SPACE_UID, queue_id)
        self._message_prefix = keys.of_queue(keys.SPACE_MESSAGE, queue_id)
        # The arrival number before which a restart lost the messages that are not persistent.
        self.born = 0
        self._highest: dict[bytes, int] = {}
        self._raised: dict[bytes, None] = {}

    def index_prefix(self, target: bytes = b"") -> bytes:
        """Returns the prefix of the keys of the UID index before the encoded UID.

        A message may exist once per *target* on a transmission queue.
        """
        if not target or not self._has_targets:
            return self._index_prefix
        return self._index_prefix + bytes([len(target)]) + target

    def index_key(self, trailer: bytes, target: bytes = b"") -> bytes:
        """Returns the key of the UID index for the encoded UID *trailer*."""
        return self.index_prefix(target) + trailer

    def check_uid(self, tx: Transaction, trailer: bytes, target: bytes = b"") -> UidVerdict:
        """Returns the verdict on a put of a message with the encoded UID *trailer*."""
        if self.is_above(tx, trailer):
            return UidVerdict.FAST
        return UidVerdict.DUPLICATE if self.exists(tx, trailer, target) else UidVerdict.SLOW

    def is_above(self, tx: Transaction, trailer: bytes) -> bool:
        """Returns whether the encoded UID *trailer* is above all earlier UIDs of its origin."""
        origin, timestamp = (
            trailer[records.UID_ORIGIN],
            int.from_bytes(trailer[records.UID_TIMESTAMP], "big"),
        )
        return timestamp > self.highest(tx, origin)

    def highest(self, tx: Transaction, origin: bytes) -> int:
        """Returns the entry of *origin*, or -1 if it has none."""
        highest = self._highest.get(origin)
        return self._load(tx, origin) if highest is None else highest

    def exists(self, tx: Transaction, trailer: bytes, target: bytes) -> bool:
        """Returns whether a message with the encoded UID *trailer* exists or is remembered.

        Requires that the UID is not above the entry of its origin.
        """
        position = self._position(tx, trailer, target)
        if position is None:
            return False
        if position[keys.LANE_AT] == keys.LANE_REMEMBERED:
            return True
        value = tx.get(self._message_prefix + position)
        return (
            value is not None
            and entries.uid_trailer(entries.decode(value)) == trailer
            and not self.is_lost(value, position)
        )

    def _position(self, tx: Transaction, trailer: bytes, target: bytes) -> bytes | None:
        """Returns the position of the message, or the value of another row with its UID."""
        position = tx.get(self.index_key(trailer, target))
        if position is None and self._ordered is not None:
            return self._ordered.position(tx, trailer, target if self._has_targets else b"")
        return position

    def is_lost(self, value: bytes, position: bytes) -> bool:
        """Returns whether a restart lost the message at *position*.

        A job will remove this message.
        """
        arrival = int.from_bytes(position[keys.ARRIVAL], "big")
        return arrival < self.born and entries.decode(value).volatile

    def place(self, tx: Transaction, trailer: bytes, target: bytes = b"") -> bytes | None:
        """Returns the position of the message with the given encoded UID, or None."""
        position = self._position(tx, trailer, target)
        if position is None or len(position) != keys.POSITION.size:
            return None
        return None if position[keys.LANE_AT] == keys.LANE_REMEMBERED else position

    def raise_to(self, tx: Transaction, origin: bytes, timestamp: int) -> None:
        """Raises the entry of *origin* to *timestamp* after a put."""
        if timestamp > self.highest(tx, origin):
            self._highest[origin] = timestamp
            self._raised[origin] = None

    def flush(self, tx: Transaction) -> None:
        """Writes the entries that were raised in this turn."""
        for origin in self._raised:
            rows.put(tx, self._prefix + origin, self._highest[origin].to_bytes(8, "big"))
        self._raised.clear()
        if len(self._highest) > ORIGINS_CACHED_MAX:
            self._highest.clear()

    def evict(self, tx: Transaction, origin: bytes) -> bool:
        """Removes the entry of *origin*, which has no messages here. Returns False if it must stay.

        An entry that was raised in this turn must stay, because the turn writes it at its end. So
        must the entry of this queue manager while it has messages without a row in the UID index.
        """
        if origin in self._raised or (self._ordered is not None and self._ordered.has(origin)):
            return False
        self._highest.pop(origin, None)
        tx.delete(self._prefix + origin)
        return True

    def entries(self, tx: Transaction, after: str, limit: int) -> tuple[dict[str, int], str | None]:
        """Returns up to *limit* entries after the origin *after*.

        Returns:
            The highest timestamps by origin, and the last of these origins if more follow.
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
            self._raised[origin] = None  # The row may be damaged. A new write repairs it.
        self._highest[origin] = highest
        return highest


def timestamp_of(key: bytes, value: bytes) -> int:
    """Returns the timestamp in a row of the table, or TIMESTAMP_MAX if the row is damaged."""
    try:
        return int.from_bytes(rows.unseal(key, value), "big")
    except rows.RowDamaged:
        return TIMESTAMP_MAX
