"""The data files that this process has open. Each file is opened only once.

No file is inherited by a fork.

Spark forks its workers and reuses them. LMDB allows a process to open a file only once, and not to
use it across a fork. A task that a LIMIT ends early does not close its file.
"""

import os
from pathlib import Path

from qmgr_tables import staging
from qmgrd.snapshot.finder import DATA, SnapshotUnreadable, StoredSnapshot
from qmgrd.store.image import ImageReader, open_image
from qmgrd.store.inspect import StoreUnreadable

OPEN_MAX = 16
# keys: (process, device, inode); the most recently used file is last
_open: dict[tuple[int, int, int], ImageReader] = {}


def image(snapshot: StoredSnapshot) -> ImageReader:
    """Returns the data file of *snapshot*, opened by this process.

    Raises:
        SnapshotUnreadable: The file is missing, damaged, or not visible on this machine.
    """
    snapshot = staging.local(snapshot)
    path = Path(snapshot.directory, DATA)
    process = os.getpid()
    _close_inherited(process)
    try:
        status = path.stat()
        if status.st_size != snapshot.data_bytes:
            raise SnapshotUnreadable(
                f"{path} has {status.st_size} bytes, but {snapshot.data_bytes} when the query was "
                "planned; the snapshot was replaced: run the query again"
            )
        key = (process, status.st_dev, status.st_ino)
        found = _open.pop(key, None) or open_image(path)
    except OSError as error:
        raise SnapshotUnreadable(
            f"{path}: {error.strerror}; every executor must have snapshots under the same path"
        ) from error
    except StoreUnreadable as error:
        raise SnapshotUnreadable(f"{error}; copy or take the snapshot again") from error
    _open[key] = found
    while len(_open) > OPEN_MAX:
        _open.pop(next(iter(_open))).close()
    return found


def damaged(snapshot: StoredSnapshot, error: Exception) -> SnapshotUnreadable:
    """Returns the error for a data file that cannot be read to its end."""
    return SnapshotUnreadable(
        f"{snapshot.directory}/{DATA} is damaged: {error}; copy or take the snapshot again"
    )


def _close_inherited(process: int) -> None:
    """Closes the files that a fork inherited.

    The parent's files stay open, because no lock is shared.
    """
    for key in [key for key in _open if key[0] != process]:
        _open.pop(key).close()
