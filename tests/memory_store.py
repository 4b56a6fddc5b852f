"""A store in memory for tests and the simulator. Its interface and order are those of LMDB."""

from collections.abc import Callable, Iterator

from sortedcontainers import SortedDict

from qmgrd.core.layout.kv import Space, StoreFailed


class MemoryStore:
    """An ordered map whose write transaction can be undone.

    Invariant: outside a transaction, ``rows`` has the content that a restart would find.
    ``before_commit`` and ``after_commit`` are hooks for faults. An exception in ``before_commit``
    leaves the store unchanged. When ``after_commit`` runs, all changes are already durable.
    """

    durable = 0  # Each turn is durable when its commit returns.
    look_ms = 0  # A test may change the sizes between any two turns.

    def __init__(self) -> None:
        self.rows: SortedDict[bytes, bytes] = SortedDict()
        self.flushes = 0
        self.map_bytes = 1 << 40
        self.disk_free_bytes = 1 << 40
        self.held_bytes = 0
        self.file_free_bytes = 0
        self.before_commit: Callable[[], None] | None = None
        self.after_commit: Callable[[], None] | None = None
        self.rows_used = 0
        self._undo: dict[bytes, bytes | None] = {}

    def begin(self) -> "MemoryStore":
        """Opens the write transaction, which is the store itself."""
        assert not self._undo, "a transaction is open"
        self.rows_used = 0
        return self

    def commit(self) -> None:
        """Makes the transaction durable."""
        if self.before_commit is not None:
            self.before_commit()
        self.flushes += bool(self._undo)
        self._undo = {}
        if self.after_commit is not None:
            self.after_commit()

    def commit_soon(self) -> int:
        """Makes the transaction durable, and returns the number of a durable record."""
        self.commit()
        return self.durable

    def settle(self) -> None:
        """Does nothing, because each turn is durable when its commit returns."""

    def abort(self) -> None:
        """Undoes the changes of the transaction."""
        for key, value in self._undo.items():
            if value is None:
                self.rows.pop(key, None)
            else:
                self.rows[key] = value
        self._undo = {}

    def reopen(self) -> None:
        """Begins again, as a new process does after :meth:`abort`."""

    def failure(self, error: BaseException) -> StoreFailed | None:
        """Returns None: a store in memory is never full."""
        return None

    def space(self) -> Space:
        """Returns sizes, which a test may set."""
        used = sum(map(len, self.rows.values())) if self.map_bytes < 1 << 40 else 0
        return Space(
            used + self.held_bytes,
            self.map_bytes,
            self.disk_free_bytes,
            self.held_bytes,
            self.file_free_bytes,
        )

    def get(self, key: bytes) -> bytes | None:
        """Returns the value of *key*, or None."""
        value: bytes | None = self.rows.get(key)
        return value

    def put(self, key: bytes, value: bytes) -> None:
        """Stores *value* under *key*."""
        assert 0 < len(key) <= 511, f"key of {len(key)} bytes"
        self._undo.setdefault(key, self.rows.get(key))
        self.rows[key] = value

    def put_all(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Stores many values."""
        for key, value in pairs:
            self.put(key, value)

    def delete(self, key: bytes) -> None:
        """Removes *key*, if it exists."""
        if key in self.rows:
            self._undo.setdefault(key, self.rows[key])
            del self.rows[key]

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields pairs from *start* up to but not including *stop*."""
        for key in self.rows.irange(start, stop, inclusive=(True, False)):
            yield key, self.rows[key]
