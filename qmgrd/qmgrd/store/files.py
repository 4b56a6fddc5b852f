"""Flushes and examines the files of a store."""

import os
from pathlib import Path

from qmgrd.core.layout.kv import StoreFailed


def sync(path: Path) -> None:
    """Flushes a file or a directory to the disk."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except PermissionError:
        # The daemon may traverse this directory above the store, but not read it.
        return
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def status_of(fd: int, path: Path) -> os.stat_result:
    """Returns the status of the open file *fd*.

    Raises:
        StoreFailed: The file system of *path* failed.
    """
    try:
        return os.fstat(fd)
    except OSError as error:
        raise StoreFailed(f"{path}: {error.strerror}") from error
