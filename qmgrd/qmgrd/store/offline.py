"""Access to a store that no daemon uses. The store is not changed.

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

from qmgrd.store.inspect import StoreUnreadable
from qmgrd.store.lmdb_store import DATA_FILE, StoreLocked, is_snapshot, lock_directory


class StoreInUse(Exception):
    """A daemon uses the store."""

    def __init__(self, directory: Path, owner: str) -> None:
        super().__init__(f"a queue manager is using {directory} (process {owner})")


@contextmanager
def offline_data_file(directory: Path) -> Iterator[Path]:
    """Yields the data file of *directory*. No daemon can use the store until the block ends.

    Raises:
        StoreInUse: A daemon uses the store.
        StoreUnreadable: The store does not exist.
    """
    data = _data_in(directory)
    if data.parent.name != "store":
        yield data
        return
    home = data.parent.parent
    try:
        fd = lock_directory(home, fcntl.LOCK_SH)
    except StoreLocked as error:
        raise StoreInUse(home, error.owner) from None
    except OSError as error:
        raise StoreUnreadable(home, error.strerror or str(error)) from error
    try:
        yield data
    finally:
        os.close(fd)


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
