"""The interface of a store: an ordered map of bytes with one write transaction at a time.

The implementations are ``qmgrd.store.lmdb_store`` and ``tests.memory_store``.
"""

from collections.abc import Iterator
from typing import NamedTuple, Protocol


class Transaction(Protocol):
    """The open write transaction of a turn. Reads return the transaction's own writes."""

    rows_used: int
    """The number of rows that the core has read or changed. This number limits the turn.

    The store sets the number to 0 for each turn. The modules that change the rows of a message
    (lane, entry, put) count these rows, and a scan counts the rows that it reads. Counting each
    call in the store would make an ack a few percent slower.
    """

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of *key*, or None."""

    def put(self, key: bytes, value: bytes) -> object:
        """Stores *value* under *key*, and replaces an older value."""

    def put_all(self, pairs: list[tuple[bytes, bytes]]) -> object:
        """Stores many pairs, faster than single puts do. Pairs in key order are stored fastest."""

    def delete(self, key: bytes) -> object:
        """Removes *key* if it exists."""

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields pairs in key order, from *start* up to but not including *stop*.

        The caller must not write until the iterator is exhausted or dropped.
        """


class StoreFailed(Exception):
    """The store failed for a reason that no request caused. The daemon must restart.

    If a commit raises this exception, whether it is durable is unknown.
    """


class Space(NamedTuple):
    """The used and free space of a store."""

    used_bytes: int
    map_bytes: int
    disk_free_bytes: int
    held_bytes: int  # the number of used bytes that are kept only for a snapshot in progress
    # The number of free bytes inside the file, whose use requires no further disk space.
    file_free_bytes: int


class Store(Protocol):
    """A store that makes turns durable."""

    look_ms: int
    """The longest time for which the result of :meth:`space` may serve, if there is plenty."""

    def begin(self) -> Transaction:
        """Opens the write transaction. Only one transaction may be open at a time.

        Raises:
            StoreFailed: The store cannot be used, for example because its file was removed.
        """

    durable: int
    """The number of the last record that is on disk. See :meth:`commit_soon`."""

    def commit(self) -> None:
        """Returns after all writes are durable. Returns immediately if there are none."""

    def commit_soon(self) -> int:
        """Begins to make all writes since :meth:`begin` durable, without waiting for a slow disk.

        Later transactions already see the writes.

        Returns:
            The number of their record. They are durable once :attr:`durable` has reached it.
        """

    def settle(self) -> None:
        """Returns after all turns are durable."""

    def abort(self) -> None:
        """Undoes all writes since :meth:`begin`, and earlier ones that are not on their way to the
        disk yet. Waits for those that are.
        """

    def failure(self, error: BaseException) -> StoreFailed | None:
        """Returns the failure of the store that caused *error*, or None if *error* has another
        cause.
        """

    def space(self) -> Space:
        """Returns the used and free space of the store as of the last turn."""


class Now(NamedTuple):
    """The times of the two clocks that the shell passes to a turn."""

    ms: int  # the store clock in milliseconds, which never goes back; used for deadlines
    wall_us: int  # the wall clock in microseconds, which may jump; never used for deadlines
