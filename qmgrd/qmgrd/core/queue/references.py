"""Counts the references to each publication, which is stored once and deleted with the last one.

The changes of a turn are written at its end (publications.py). Therefore, a publication that many
subscribers acknowledge in one turn costs only one row. Subscribers usually receive a publication at
about the same time. For this reason, recent publications are cached, and each is read and checked
only once.
"""

from typing import NamedTuple

from qmgr_protocol import record as records
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction

# Maximum number of cached publications; only publications whose record is inside the entry are
# cached.
KEPT_MAX = 1_024


class Opened(NamedTuple):
    """A publication that was read and checked."""

    record: bytes
    trailer: bytes  # the encoded UID
    checksum: int
    topic: bytes  # the topic, encoded as it follows the record in a delivery
    is_plain: bool  # whether the publication has no group and no correlation id


class References:
    """The changes of this turn. Subscriptions and retaining topics refer to publications."""

    def __init__(self) -> None:
        # The change of the number of references, by arrival number.
        self.changes: dict[int, int] = {}
        self._kept: dict[int, Opened] = {}  # cached publications by arrival number, oldest first

    def add(self, arrival: int) -> None:
        """Adds one reference to the publication with the number *arrival*."""
        self.changes[arrival] = self.changes.get(arrival, 0) + 1

    def remove(self, arrival: int) -> None:
        """Removes one reference to the publication with the number *arrival*."""
        self.changes[arrival] = self.changes.get(arrival, 0) - 1

    def open(self, tx: Transaction, arrival: int) -> Opened | None:
        """Returns the publication with the number *arrival*, or None if it is damaged or
        missing.
        """
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
