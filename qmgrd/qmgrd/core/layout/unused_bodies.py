"""Deletes the body rows of long records that no message owns, in slices.

    pieces arrive ─▶ rows and a mark ─▶ a put owns the rows, and the mark goes
                                   └─▶ no put: the rows are deleted in slices, then the mark

A body is without an owner if its connection ended, its sender gave it up, its put was refused, or
its message was removed. After a restart, all bodies with a mark are.
"""

from collections import Counter, deque
from itertools import islice

from qmgrd.core.layout import keys
from qmgrd.core.layout.kv import Transaction

SLICE_ROWS = 512


class UnusedBodies:
    """The bodies to delete, and the size of those whose pieces arrive."""

    def __init__(self) -> None:
        self._ids: deque[int] = deque()
        self.arriving: Counter[str | int] = Counter()  # the bytes of arriving bodies, by holder

    @property
    def busy(self) -> bool:
        """Whether rows wait to be deleted."""
        return bool(self._ids)

    def load(self, tx: Transaction) -> None:
        """Finds the bodies that a restart left without an owner."""
        for key, _ in tx.scan(keys.SPACE_UNOWNED, keys.after(keys.SPACE_UNOWNED)):
            self.add(int.from_bytes(key[keys.REST], "big"))

    def count(self, holder: str | int, more_bytes: int) -> None:
        """Counts bytes of arriving bodies of *holder*. They are negative if it has less."""
        self.arriving[holder] += more_bytes
        if not self.arriving[holder]:
            del self.arriving[holder]

    def disown(self, tx: Transaction, body_id: int) -> None:
        """Deletes the rows of a message that was removed soon."""
        tx.put(keys.unowned(body_id), b"")
        self.add(body_id)

    def add(self, body_id: int) -> None:
        """Deletes the rows of a body soon. It must have its mark."""
        self._ids.append(body_id)

    def delete_slice(self, tx: Transaction, rows_max: int) -> int:
        """Deletes up to *rows_max* rows. Returns the number of deleted rows."""
        deleted = 0
        while self._ids and rows_max > 0:
            prefix = keys.SPACE_BODY + self._ids[0].to_bytes(8, "big")
            found = [key for key, _ in islice(tx.scan(prefix, keys.after(prefix)), rows_max)]
            for key in found:
                tx.delete(key)
            deleted += len(found)
            if len(found) < rows_max:
                tx.delete(keys.unowned(self._ids.popleft()))
            rows_max -= len(found) + 1
        return deleted
