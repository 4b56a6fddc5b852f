"""The store on disk: one LMDB environment in its default, durable mode.

    data directory  locked while a daemon runs; a lock on a file in it could be bypassed by
                    replacing the file
      qmgrd.lock    the process id of the daemon that runs, or ran last; a store must exist
      store/        data.mdb, lock.mdb

All store operations run on the thread of the event loop. A transaction committed on another thread
blocks the next writer forever, and a writer thread had no advantage (DESIGN, section 2).
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import lmdb

from qmgrd.core.layout.kv import Space, StoreFailed
from qmgrd.store.files import status_of, sync
from qmgrd.store.inspect import StoreUnreadable, Unsound, check_data_file, freed_since

READERS_MAX = 1024
LOCK_FILE = "qmgrd.lock"
DATA_FILE = "data.mdb"
MANIFEST_FILE = "manifest.json"  # a directory that contains this file is a snapshot
ReadFailed = lmdb.Error  # the errors that LMDB raises when it reads a damaged file


class StoreLocked(Exception):
    """Another daemon uses this directory, or ``qmctl store`` is reading it."""

    def __init__(self, directory: Path, *, is_read: bool = False) -> None:
        self.owner = _owner(directory)  # the process id of the daemon, or "unknown"
        super().__init__(
            f"qmctl store is reading {directory}: start again after it has finished"
            if is_read
            else f"{directory} is in use by another qmgrd (process {self.owner}): "
            "stop it, or give this one a different data_dir"
        )


class StoreMissing(Exception):
    """A daemon has used this directory, but its store is missing."""

    def __init__(self, data: Path, traces: list[Path]) -> None:
        super().__init__(
            f"{data} is missing, but a queue manager has used this directory: "
            f"restore the file from a snapshot, "
            f"or, to begin with an empty store, remove {' and '.join(map(str, traces))}"
        )


class StoreIsSnapshot(Exception):
    """The directory is or contains a snapshot. A new store next to the snapshot would hide it."""

    def __init__(self, directory: Path) -> None:
        super().__init__(
            f"{directory} is a snapshot, not a data directory: restore it to a new directory: "
            f"mkdir -p DIR/store && cp {directory / DATA_FILE} DIR/store/, then start qmgrd with "
            "--data-dir DIR (docs/operating.md, Backup)"
        )


class StoreReplaced(StoreFailed):
    """The file that LMDB uses is no longer the file that the next start would open."""

    def __init__(self, data: Path, found: str) -> None:
        super().__init__(
            f"{data} was removed or replaced while the daemon was running ({found}): "
            "restore it from a snapshot"
        )


class CopyFailed(Exception):
    """A turn could not be copied."""


class LmdbTransaction:
    """The write transaction of a turn. For speed, its methods are LMDB's own bound methods."""

    __slots__ = ("_txn", "delete", "get", "put", "rows_used")

    def __init__(self, txn: lmdb.Transaction) -> None:
        self._txn = txn
        self.rows_used = 0
        self.get: Callable[[bytes], Any] = txn.get
        self.put: Callable[[bytes, bytes], object] = txn.put
        self.delete: Callable[[bytes], object] = txn.delete

    def put_all(self, pairs: list[tuple[bytes, bytes]]) -> None:
        """Stores many pairs in one call."""
        if len(pairs) == 1:  # A cursor would take half as much time again.
            self._txn.put(*pairs[0])
            return
        with self._txn.cursor() as cursor:
            cursor.putmulti(pairs)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yields pairs from *start* up to but not including *stop*."""
        with self._txn.cursor() as cursor:
            if not cursor.set_range(start):
                return
            # The environment returns bytes, not the buffers that its type stubs allow.
            pairs = cast("Iterator[tuple[bytes, bytes]]", cursor.iternext(keys=True, values=True))
            for pair in pairs:
                if pair[0] >= stop:
                    return
                yield pair

    def __enter__(self) -> "LmdbTransaction":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._txn.abort()


class LmdbStore:
    """An LMDB environment and its one write transaction."""

    durable = 0  # Without a journal, each turn is durable when its commit returns.
    away_us: int | None = None  # The time since the last turn, if another clock measured it.
    look_ms = 20  # In this time, even a fast disk is not filled by much (puts/store_room.py).

    def __init__(self, directory: Path, map_bytes: int) -> None:
        """Opens or creates the store in *directory*, which only this process may use.

        Raises:
            StoreLocked: Another daemon has locked the directory, or ``qmctl store`` is reading it.
            StoreMissing: The directory had a store, but the store is missing.
            StoreIsSnapshot: The directory contains a snapshot but no store.
            StoreUnreadable: The store is foreign or damaged. It was not changed.
            OSError: The directory cannot be created or written.
        """
        self.directory = directory
        self.map_bytes = map_bytes
        self._data = directory / "store" / DATA_FILE
        if is_snapshot(directory) or ((directory / DATA_FILE).exists() and not self._data.exists()):
            raise StoreIsSnapshot(directory)
        directory.mkdir(0o700, parents=True, exist_ok=True)
        self._lock_fd = lock_directory(directory)
        try:
            _check_missing(directory, self._data)
            self._env = _open(directory / "store", map_bytes)
            # Opened in advance, because no descriptor may be free when a snapshot needs one.
            self._fd = os.open(self._data, os.O_RDONLY | os.O_CLOEXEC)
            # Written only now, so that a first start that is killed leaves no file that requires a
            # store.
            with suppress(OSError):  # The disk may be full, and the daemon is needed to empty it.
                (directory / LOCK_FILE).write_text(f"{os.getpid()}\n")
        except BaseException:
            os.close(self._lock_fd)
            raise
        self._txn: lmdb.Transaction | None = None
        self._pin: Pin | None = None
        self.replayed = 0  # records that the last replay of a journal read

    def pin(self, give_up: Callable[[], None] = lambda: None) -> "Pin":
        """Pins the last committed turn for a copy. Only one pin can exist at a time.

        Args:
            give_up: A function that soon cancels a copy of the turn, even if the copy is waiting.

        Raises:
            CopyFailed: LMDB has no room for another reader.
        """
        assert self._pin is None or self._pin.released, "a turn is pinned"
        try:
            self._pin = Pin(self._env, self._env.begin(), self._fd, give_up)
        except lmdb.Error as error:
            raise CopyFailed(str(error)) from error
        return self._pin

    def begin(self) -> LmdbTransaction:
        """Opens the write transaction.

        Raises:
            StoreReplaced: The file was removed. Committed data would be lost.
            StoreFailed: LMDB cannot begin a transaction.
        """
        assert self._txn is None, "a transaction is open"  # LMDB would wait forever.
        self._check_file()
        try:
            self._txn = self._env.begin(write=True)
        except lmdb.Error as error:
            raise StoreFailed(f"cannot begin a transaction: {error}") from error
        return LmdbTransaction(self._txn)

    def commit(self) -> None:
        """Returns after the transaction is on disk.

        Raises:
            StoreFailed: Whether the transaction was stored is unknown.
        """
        txn, self._txn = self._txn, None
        assert txn is not None, "commit without begin"
        try:
            txn.commit()
        except lmdb.Error as error:
            raise StoreFailed(f"the outcome of a commit is unknown: {error}") from error

    def may_begin(self) -> bool:
        """Returns whether a turn may begin."""
        return True

    def commit_soon(self) -> int:
        """Commits, and returns the number of a durable record."""
        self.commit()
        return self.durable

    def settle(self) -> None:
        """Does nothing, because each turn is durable when its commit returns."""

    def go_ahead(
        self,
        call: Callable[[Callable[[], None]], object],
        call_later: Callable[[float, Callable[[], None]], object],
        on_durable: Callable[[StoreFailed | None], None],
    ) -> None:
        """Does nothing, because each turn waits for its commit. See :class:`JournalStore`."""

    def abort(self) -> None:
        """Discards the transaction."""
        txn, self._txn = self._txn, None
        if txn is None:
            return
        if self._pin is not None and not self._pin.released:
            self._pin.give_up()  # LMDB makes an abort wait for the end of a copy.
        txn.abort()

    def failure(self, error: BaseException) -> StoreFailed | None:
        """Returns the store failure that caused *error* in a transaction, or None."""
        if isinstance(error, StoreFailed):
            return error
        if isinstance(error, lmdb.MapFullError):
            return StoreFailed(
                f"the store's map of {self.map_bytes} bytes is full: raise store.map_bytes"
            )
        return StoreFailed(str(error)) if isinstance(error, lmdb.DiskError) else None

    def space(self) -> Space:
        """Returns the used and free space of the map and the disk.

        The file never shrinks. Its free space is reused, except pages that a pin holds.

        Raises:
            StoreFailed: The disk does not report its free space.
        """
        try:
            return self._space()
        except (OSError, lmdb.Error, Unsound) as error:
            text = f"{self.directory}: its free space cannot be read: {error}"
            raise StoreFailed(text) from error

    def _space(self) -> Space:
        file = os.fstat(self._fd)
        stat = self._stat()
        page_bytes = stat["psize"]
        held = self._pin.held_pages() if self._pin is not None else 0
        pages = stat["branch_pages"] + stat["leaf_pages"] + stat["overflow_pages"]
        used_bytes = (pages + held) * page_bytes
        file_bytes = min(file.st_size, file.st_blocks * 512)  # The file may have holes.
        disk = os.fstatvfs(self._fd)
        return Space(
            used_bytes,
            self.map_bytes,
            disk.f_bavail * disk.f_frsize,
            held_bytes=held * page_bytes,
            file_free_bytes=max(file_bytes - used_bytes, 0),
        )

    def _stat(self) -> dict[str, int]:
        """Returns LMDB's statistics as of the last turn, under LMDB's names."""
        return cast("dict[str, int]", self._env.stat())

    def _check_file(self) -> None:
        """Raises StoreReplaced if the file was removed. Takes less time than :meth:`check`."""
        if not status_of(self._fd, self._data).st_nlink:
            self.check()

    def check(self) -> None:
        """Raises StoreReplaced if the path no longer refers to the store's file."""
        try:
            found = self._data.stat()
        except OSError as error:
            raise StoreReplaced(self._data, error.strerror or str(error)) from error
        if not os.path.samestat(found, status_of(self._fd, self._data)):
            raise StoreReplaced(self._data, "another file has its name")

    def close(self) -> None:
        """Closes the store and unlocks the directory."""
        self.abort()
        self._env.close()
        os.close(self._fd)
        os.close(self._lock_fd)


class Pin:
    """A turn that stays readable while later turns are committed. The file grows in the meantime.

    One thread may pin the turn, and another thread may copy and release it, but not at the same
    time.

    Invariant: transactions before ``_uncounted`` have freed ``_held`` pages since the pin.
    """

    def __init__(
        self,
        env: lmdb.Environment,
        txn: lmdb.Transaction,
        data_fd: int,
        give_up: Callable[[], None],
    ) -> None:
        self.give_up = give_up
        self._env = env
        self._txn = txn
        self._fd = data_fd
        self._held = 0
        self._uncounted = txn.id()
        self.released = False

    def held_pages(self) -> int:
        """Returns the number of freed pages that cannot be used again before the release."""
        if self.released:
            return 0
        with open(self._fd, "rb", buffering=0, closefd=False) as file:
            freed, last = freed_since(file, self._uncounted)
        self._held += freed
        self._uncounted = last + 1
        return self._held

    def copy_to(self, fd: int) -> None:
        """Writes a data file of the turn, without free pages, to *fd*.

        Raises:
            CopyFailed: *fd* cannot be written, or the store is damaged.
        """
        try:
            self._env.copyfd(fd, compact=True, txn=self._txn)
        except lmdb.Error as error:
            raise CopyFailed(str(error)) from error

    def release(self) -> None:
        """Releases the turn.

        A second call has no effect. The call must precede the close of the store.
        """
        self._txn.abort()
        self.released = True


def is_snapshot(directory: Path) -> bool:
    """Returns whether *directory* is a snapshot, even if other files were added since then."""
    return (directory / MANIFEST_FILE).exists() and (directory / DATA_FILE).exists()


def _open(path: Path, map_bytes: int) -> lmdb.Environment:
    if not path.exists():
        _create(path, map_bytes)
    # LMDB syncs its file, but not the directories above it.
    for folder in (path, *path.absolute().parents):
        sync(folder)
    check_data_file(path / DATA_FILE)
    return _environment(path, map_bytes)


def _create(path: Path, map_bytes: int) -> None:
    """Creates an empty store completely or not at all.

    LMDB would leave half a store if it were killed.
    """
    new = path.with_name(f"{path.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(0o700)
    _environment(new, map_bytes).close()
    sync(new / DATA_FILE)
    sync(new)
    new.rename(path)


def _environment(path: Path, map_bytes: int) -> lmdb.Environment:
    while True:
        try:
            return lmdb.open(
                str(path),
                map_size=map_bytes,
                max_dbs=0,
                max_readers=READERS_MAX,
                lib_version=0,
                mode=0o600,
            )
        except lmdb.Error as error:
            # LMDB does not give this error a number.
            if not str(error).endswith(os.strerror(errno.EINTR)):
                raise StoreUnreadable(path, f"LMDB cannot open it: {error}") from error


def lock_directory(directory: Path, how: int = fcntl.LOCK_EX) -> int:
    """Locks a data directory against daemons until the returned descriptor is closed.

    Raises:
        StoreLocked: A daemon uses the directory, or, for an exclusive lock, another process reads
            it.
    """
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _locks(fd, how):
            raise StoreLocked(directory, is_read=_locks(fd, fcntl.LOCK_SH))
    except BaseException:
        os.close(fd)
        raise
    return fd


def _locks(fd: int, how: int) -> bool:
    try:
        fcntl.flock(fd, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _owner(directory: Path) -> str:
    try:
        return (directory / LOCK_FILE).read_text(errors="replace").strip() or "unknown"
    except OSError:
        return "unknown"


def _check_missing(directory: Path, data: Path) -> None:
    """Raises StoreMissing if a daemon has used *directory*, but its store is missing."""
    traces = [path for path in (data.parent, directory / LOCK_FILE) if path.exists()]
    if not traces:
        return
    try:
        data.stat()
    except FileNotFoundError:
        raise StoreMissing(data, traces) from None
