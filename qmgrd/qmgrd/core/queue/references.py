"""Counts the references to each publication, which is stored once and deleted with the last one.

The changes of a turn are written at its end (publications.py). So a publication that many
subscribers acknowledge in one turn costs one row. Subscribers usually receive a publication at
about the same time. So recent publications are cached, and each is read and checked only once.
"""

from typing import NamedTuple

from qmgr_protocol import record as records
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction

KEPT_MAX = 1_024  # limit of cached publications; only records inside their entry are cached


class Opened(NamedTuple):
    """A publication that was read and checked."""

    record: bytes
    trailer: bytes  # encoded UID
    checksum: int
    topic: bytes  # topic in the encoding that follows the record in a delivery
    is_plain: bool  # whether the publication has no group and no correlation id


class References:
    """The changes of this turn. Subscriptions and retaining topics refer to publications."""

    def __init__(self) -> None:
        self.changes: dict[int, int] = {}  # change of the number of references by arrival
        self._kept: dict[int, Opened] = {}  # cached publications by arrival, the oldest first

    def add(self, arrival: int) -> None:
        """Counts one more reference to the publication with that *arrival*."""
        self.changes[arrival] = self.changes.get(arrival, 0) + 1

    def remove(self, arrival: int) -> None:
        """Subtracts one reference from the publication with that *arrival*."""
        self.changes[arrival] = self.changes.get(arrival, 0) - 1

    def open(self, tx: Transaction, arrival: int) -> Opened | None:
        """Returns the publication with that *arrival*, or None if it is damaged or missing."""
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
