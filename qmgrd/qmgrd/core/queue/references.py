"""How many hold each publication: it is stored once, and goes with the last of them.

What changes in a turn is written at its end (publications.py), so that a publication which many
acknowledge at once costs one row. And what is handed to one subscriber is soon handed to others:
the last ones are kept as they are delivered, so that they are read and checked once.
"""

from typing import NamedTuple

from qmgr_protocol import record as records
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction

KEPT_MAX = 1_024  # publications, none longer than what stands in its entry


class Opened(NamedTuple):
    """A publication that is sound, as it is delivered."""

    record: bytes
    trailer: bytes  # its encoded UID
    checksum: int
    topic: bytes  # as it follows the record in a delivery
    is_plain: bool  # It is in no group, and nobody finds it by a correlation id.


class References:
    """What this turn changed. Each subscription that has a publication holds it, and its topic."""

    def __init__(self) -> None:
        self.changes: dict[int, int] = {}  # by arrival
        self._kept: dict[int, Opened] = {}  # the longest kept first

    def add(self, arrival: int) -> None:
        """Count one more who holds the publication of that *arrival*."""
        self.changes[arrival] = self.changes.get(arrival, 0) + 1

    def remove(self, arrival: int) -> None:
        """Count one who holds it no more."""
        self.changes[arrival] = self.changes.get(arrival, 0) - 1

    def open(self, tx: Transaction, arrival: int) -> Opened | None:
        """Return the publication of that *arrival*; None if it is damaged, or missing."""
        found = self._kept.get(arrival)
        if found is not None:
            return found
        value = tx.get(keys.publication(arrival))
        sound = None if value is None else entries.open_sound(tx, value)
        if sound is None:
            return None
        entry, record, trailer, checksum, _ = sound
        topic = entry.target.encode()
        is_plain = not (record[records.CORRELATION_LENGTH_AT] or record[records.GROUP_FLAGS_AT])
        found = Opened(record, trailer, checksum, bytes([len(topic)]) + topic, is_plain)
        if not entry.in_rows:
            self._kept[arrival] = found
            if len(self._kept) > KEPT_MAX:
                del self._kept[next(iter(self._kept))]
        return found
