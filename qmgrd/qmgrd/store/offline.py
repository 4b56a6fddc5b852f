"""Access to a store that no daemon uses.

The store is not changed, except by :meth:`OfflineStore.finish_journal`.

data directory   store/data.mdb; locked, so that no daemon can start
its store/       the same
snapshot         data.mdb, manifest.json; a snapshot even if it contains store/
a copy           only data.mdb
"""

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb

from qmgrd.store.checkpoint import Checkpoint, finish_journal, read_checkpoint, write_checkpoint
from qmgrd.store.files import sync
from qmgrd.store.image import open_image
from qmgrd.store.inspect import StoreUnreadable, map_bytes
from qmgrd.store.journal import FILE
from qmgrd.store.lmdb_store import (
    DATA_FILE,
    LOCK_FILE,
    LmdbTransaction,
    StoreLocked,
    is_snapshot,
    lock_directory,
)


class StoreInUse(Exception):
    """A daemon uses the store."""

    def __init__(self, directory: Path, owner: str) -> None:
        super().__init__(f"a queue manager is using {directory} (process {owner})")


class OfflineStore:
    """A store that no daemon can use."""

    def __init__(self, data: Path, lock_fd: int | None = None) -> None:
        """Takes the data file, and the lock of the data directory, which a snapshot lacks."""
        self.data = data
        self._lock_fd = lock_fd

    def finish_journal(self) -> int:
        """Stores the turns of the journal, as a start of the daemon does. Returns their number.

        Only a store whose daemon did not stop cleanly has such turns. The pages of the store must
        be sound.

        Raises:
            JournalUnreadable, RowDamaged: The turns cannot be read.
            StoreInUse: Another process reads the store.
            StoreUnreadable: The store cannot be written.
        """
        if self._lock_fd is None or not self._has_journal():
            return 0
        home = self.data.parent.parent
        try:
            fcntl.flock(self._lock_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreInUse(home, "another command that reads it") from None
        try:
            size = map_bytes(self.data)
            with (
                lmdb.open(str(self.data.parent), map_size=size, max_dbs=0, lib_version=0) as env,
                env.begin(write=True) as txn,
            ):
                was_used = (home / LOCK_FILE).exists()
                return finish_journal(LmdbTransaction(txn), self.data.parent, was_used=was_used)
        except (OSError, lmdb.Error) as error:
            why = f"the turns of {self.data.with_name(FILE)} cannot be stored: {error}"
            raise StoreUnreadable(self.data, why) from error
        finally:
            fcntl.flock(self._lock_fd, fcntl.LOCK_SH)

    def checkpoint(self) -> Checkpoint | None:
        """Returns the place in the journal up to which the store has all turns.

        Raises:
            RowDamaged: The row is damaged.
        """
        image = open_image(self.data)
        try:
            with image.transaction() as tx:
                return read_checkpoint(tx)
        finally:
            image.close()

    def copy_to(self, new: Path, checkpoint: Checkpoint) -> Path:
        """Writes a copy of the store with another checkpoint to the new directory *new*.

        Returns the data file of the copy.

        Raises:
            StoreUnreadable: The store cannot be read, or the copy cannot be written.
        """
        copy, size = new / DATA_FILE, map_bytes(self.data)
        try:
            new.mkdir(0o700)
            with (
                _opened(self.data.parent, size, is_reader=True) as env,
                open(copy, "xb", opener=lambda path, flags: os.open(path, flags, 0o600)) as file,
            ):
                env.copyfd(file.fileno(), compact=True)
            with _opened(new, size) as env, env.begin(write=True) as txn:
                write_checkpoint(LmdbTransaction(txn), checkpoint)
            sync(copy)
            sync(new)
        except (OSError, lmdb.Error) as error:
            raise StoreUnreadable(self.data, f"it cannot be copied to {new}: {error}") from error
        return copy

    def _has_journal(self) -> bool:
        checkpoint = self.checkpoint()
        if checkpoint is None or checkpoint.is_on_server:  # A standby is as new as its last record.
            return False
        return not checkpoint.is_last


@contextmanager
def offline_store(directory: Path) -> Iterator[OfflineStore]:
    """Yields the store of *directory*. No daemon can use the store until the block ends.

    Raises:
        StoreInUse: A daemon uses the store.
        StoreUnreadable: The store does not exist.
    """
    data = _data_in(directory)
    if data.parent.name != "store":
        yield OfflineStore(data)
        return
    home = data.parent.parent
    try:
        fd = lock_directory(home, fcntl.LOCK_SH)
    except StoreLocked as error:
        raise StoreInUse(home, error.owner) from None
    except OSError as error:
        raise StoreUnreadable(home, error.strerror or str(error)) from error
    try:
        yield OfflineStore(data, fd)
    finally:
        os.close(fd)


def _opened(folder: Path, size: int, *, is_reader: bool = False) -> lmdb.Environment:
    return lmdb.open(
        str(folder), map_size=size, max_dbs=0, readonly=is_reader, lock=not is_reader, lib_version=0
    )


def _data_in(directory: Path) -> Path:
    directory = directory.absolute()
    own = directory / DATA_FILE
    for data in (own,) if is_snapshot(directory) else (directory / "store" / DATA_FILE, own):
        try:
            is_file = stat.S_ISREG(data.stat().st_mode)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            raise StoreUnreadable(data, error.strerror or str(error)) from error
        if not is_file:  # Opening a pipe would wait for its writer.
            raise StoreUnreadable(data, "not a file")
        return data
    raise StoreUnreadable(
        directory,
        f"no store found: neither store/{DATA_FILE}, as in a data directory, nor "
        f"{DATA_FILE}, as in a snapshot",
    )
