"""The interface of a store: an ordered map of bytes with one write transaction at a time.

Two implementations: ``qmgrd.store.lmdb_store`` and ``tests.memory_store``.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Transaction(Protocol):
    """The open write transaction of a turn. Sees its own writes."""

    rows_used: int
    """The rows that the core has read or changed, which bound the turn.

    A store only starts it at 0. The modules that change the rows of a message (lane, entry, put)
    count them, and a scan counts the rows that it reads: to count each call in the store would make
    an ack a few percent slower.
    """

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of *key*, or None."""

    def put(self, key: bytes, value: bytes) -> object:
        """Stores *value* under *key*, and replaces an older value."""

    def put_all(self, pairs: list[tuple[bytes, bytes]]) -> object:
        """Stores many pairs: faster than one by one, fastest in the order of their keys."""

    def delete(self, key: bytes) -> object:
        """Removes *key*, if it exists."""

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields pairs from *start* up to but not including *stop*, in order.

        Nothing may be written until the iterator is exhausted or dropped.
        """


class StoreFailed(Exception):
    """The store failed, for a reason that no request caused: stop, and start again.

    A commit that fails with this may or may not have happened.
    """


class Space(NamedTuple):
    """How full a store is."""

    used_bytes: int
    map_bytes: int
    disk_free_bytes: int
    held_bytes: int  # of the used ones: kept only for a snapshot that is being made
    file_free_bytes: int  # free ones inside the file, whose use does not take more disk space


class Store(Protocol):
    """A place that makes turns durable."""

    def begin(self) -> Transaction:
        """Opens the write transaction; there is one at a time."""

    def commit(self) -> None:
        """Returns once all writes since :meth:`begin` are durable; at once if there were none."""

    def abort(self) -> None:
        """Undoes all writes since :meth:`begin`; does nothing without a transaction."""

    def failure(self, error: BaseException) -> StoreFailed | None:
        """Returns the failure of the store that *error* shows; None if it shows none."""

    def space(self) -> Space:
        """Returns how full the store is, as of the last commit."""


class Now(NamedTuple):
    """The two clocks that a turn is given."""

    ms: int  # the store clock: it never goes back; deadlines use it
    wall_us: int  # wall clock: it may jump; deadlines do not use it
