"""What the core asks of a store: an ordered map of bytes, changed by one transaction at a time.

Two implementations: ``qmgrd.store.lmdb_store`` and ``tests.memory_store``.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Transaction(Protocol):
    """The open write transaction of a turn. Sees its own writes."""

    def get(self, key: bytes) -> bytes | None:
        """Return the value of *key*, or None."""

    def put(self, key: bytes, value: bytes) -> object:
        """Store *value* under *key*, whatever was there."""

    def put_all(self, pairs: list[tuple[bytes, bytes]]) -> object:
        """Store many: cheaper than one by one, most so in the order of their keys."""

    def delete(self, key: bytes) -> object:
        """Remove *key*, if it is there."""

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield pairs from *start* up to but not including *stop*, in order.

        Nothing may be written until the iterator is exhausted or dropped.
        """


class StoreFailed(Exception):
    """The store failed, and nobody's request is to blame: stop, and start anew.

    A commit that fails so may or may not have happened.
    """


class Space(NamedTuple):
    """How full a store is."""

    used_bytes: int
    map_bytes: int
    disk_free_bytes: int
    held_bytes: int  # of those used: free but for a snapshot that is being made
    file_free_bytes: int  # in the store's file: they take no more of the disk when they are used


class Store(Protocol):
    """A place that makes turns durable."""

    def begin(self) -> Transaction:
        """Open the write transaction; there is one at a time."""

    def commit(self) -> None:
        """Return once all written since :meth:`begin` is durable; at no cost if nothing was."""

    def abort(self) -> None:
        """Forget all written since :meth:`begin`; without one, do nothing."""

    def failure(self, error: BaseException) -> StoreFailed | None:
        """Return what *error*, met in a transaction, says of the store; None if it says nothing."""

    def space(self) -> Space:
        """Return how full the store is, as of the last commit."""


class Now(NamedTuple):
    """The two clocks that a turn is given."""

    ms: int  # the store's own clock: never goes back, keys every deadline
    wall_us: int  # what people call the time: may jump, keys nothing
