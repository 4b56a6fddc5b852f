"""The transaction of a store with a redo journal: it keeps the changes of a turn."""

from itertools import chain
from typing import Any, cast

import lmdb

from qmgrd.store.lmdb_store import LmdbTransaction

SAMPLE = 512  # keys and values whose sizes are added to estimate the size of a record


class RecordedTransaction(LmdbTransaction):
    """The open transaction, which keeps the changes of the turn for its record."""

    __slots__ = ("apply_delete", "apply_put", "changes")

    def __init__(self, txn: lmdb.Transaction) -> None:
        super().__init__(txn)
        # Keys and values in turns. The value of a deleted key is None.
        self.changes: list[bytes | None] = []
        keep, put, delete = self.changes.append, txn.put, txn.delete

        def put_and_keep(key: bytes, value: bytes) -> None:
            put(key, value)
            keep(key)
            keep(value)

        def delete_and_keep(key: bytes) -> None:
            if delete(key):
                keep(key)
                keep(None)

        self.put, self.delete = put_and_keep, delete_and_keep
        self.apply_put, self.apply_delete = put, delete

    def stat(self, db: Any) -> dict[str, int]:
        """Returns LMDB's statistics of *db* in this transaction, under LMDB's names."""
        return cast("dict[str, int]", self._txn.stat(db))

    def put_all(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Stores many pairs in one call."""
        super().put_all(pairs)
        self.changes.extend(chain.from_iterable(pairs))


def size_of(changes: list[bytes | None]) -> int:
    """Returns the approximate size of *changes*, from a sample."""
    step = len(changes) // SAMPLE + 1 | 1  # odd, so that keys and values are sampled
    return step * sum(map(len, filter(None, changes[::step])))
