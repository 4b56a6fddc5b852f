"""Finds messages without a row in the UID index, which are in the order of their UIDs.

    arrival      unindexed_from                      unindexed_until
    ─────────────────┼─────────────────────────────────────┼──────────────▶
     row in the      │  UIDs of this queue manager, in the │  row in the
     UID index       │  order of arrival, without a row    │  UID index

A new message of this queue manager gets its timestamp and its arrival number at the same time, and
both only rise. Therefore, the arrival number of a message follows from its timestamp by a binary
search. All other messages are outside of this range (``Counters.exclude``): messages with a UID of
a client or a peer, moved messages, and dead letters. ADR 25 has the rules.

The keys of entries are in the order of arrival only within one lane and priority, so the search
takes each of them. They share one order. Therefore, each search narrows the range for the next one.

A damaged entry could mislead the search. Therefore, a probe counts only if the checksum of its
record is correct.
"""

from qmgr_protocol import record as records
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.counters import Counters
from qmgrd.core.layout.kv import Transaction


class OrderedMessages:
    """The messages of one queue that have no row in the UID index."""

    __slots__ = ("_counters", "_origin", "_queue_id")

    def __init__(self, queue_id: int, counters: Counters, origin: bytes) -> None:
        """Reads the messages of a queue.

        Args:
            queue_id: The id of the queue.
            counters: The counters of the queue.
            origin: The name of this queue manager, or b"" to search for UIDs of any origin.
        """
        self._queue_id, self._counters, self._origin = queue_id, counters, origin

    def has(self, origin: bytes) -> bool:
        """Returns whether messages with this *origin* may exist."""
        return self._counters.unindexed > 0 and self._origin in (origin, b"")

    def position(self, tx: Transaction, trailer: bytes, target: bytes = b"") -> bytes | None:
        """Returns the position of the message with the encoded UID *trailer*, or None."""
        if not self.has(trailer[records.UID_ORIGIN]):
            return None
        counters = self._counters
        until = min(counters.unindexed_until, counters.next_arrival)
        search = _Search(tx, trailer, target, counters.unindexed_from, until)
        for lane in keys.LANES_OF_UIDS:
            prefix = keys.lane(self._queue_id, lane)
            start, stop = (
                keys.entry_prefix(self._queue_id, keys.PRIORITY_TOP, lane),
                keys.after(prefix),
            )
            while search.first < search.stop:
                row = next(tx.scan(start + search.first.to_bytes(8, "big"), stop), None)
                if row is None:
                    break
                # The row has the next priority that is in use. It may be before the range.
                same_priority, arrival = row[0][keys.BEFORE_ARRIVAL], keys.place(row[0])[1]
                found = search.among(same_priority, max(arrival, search.first))
                if found is not None:
                    return found
                start = keys.after(same_priority)
        return None


class _Search:
    """A search for one UID. Messages before ``first`` have lower UIDs, and from ``stop`` on higher
    ones.
    """

    def __init__(
        self, tx: Transaction, trailer: bytes, target: bytes, first: int, stop: int
    ) -> None:
        self._tx, self._trailer, self._target = tx, trailer, target.decode()
        self.first, self.stop = first, stop

    def among(self, prefix: bytes, first: int) -> bytes | None:
        """Returns the position of the message if its key is *prefix* and its arrival number.

        No message under *prefix* has an arrival number from ``self.first`` up to *first*.
        """
        stop = self.stop
        while first < stop:
            middle = (first + stop) // 2
            end = prefix + stop.to_bytes(8, "big")
            stop_here = middle
            for key, value in self._tx.scan(prefix + middle.to_bytes(8, "big"), end):
                entry = entries.decode(value)
                trailer = entries.uid_trailer(entry)
                if trailer == self._trailer and entry.target == self._target:
                    return key[keys.POSITION_AT :]
                if not self._is_sound(entry, trailer):
                    continue  # The search compares the next message instead.
                arrival = keys.place(key)[1]
                if trailer < self._trailer:
                    self.first = first = arrival + 1
                    stop_here = stop
                else:
                    self.stop = arrival
                break
            stop = stop_here
        return None

    def _is_sound(self, entry: entries.Entry, trailer: bytes) -> bool:
        """Returns whether *trailer*, the UID of *entry*, is certainly undamaged.

        UIDs of one origin have the same length, so they compare like their timestamps.
        """
        origin = records.UID_ORIGIN
        return trailer[origin] == self._trailer[origin] and entries.has_sound_uid(self._tx, entry)
