"""A data file that nobody writes: a snapshot, or a store at rest. For reading."""

import os
from pathlib import Path
from typing import Any, cast

import lmdb

from qmgrd.store.inspect import StoreUnreadable, check_data_file
from qmgrd.store.lmdb_store import LmdbTransaction


def open_image(path: Path) -> "ImageReader":
    """Opens a snapshot, which nobody writes, for reading.

    Raises:
        StoreUnreadable: *path* is no such file, or damaged.
    """
    return ImageReader(path)


class ImageReader:
    """A read-only look at a data file that nobody writes."""

    def __init__(self, path: Path) -> None:
        check_data_file(path)
        try:
            self._env = lmdb.open(
                os.fsencode(path),
                subdir=False,
                readonly=True,
                lock=False,
                create=False,
                max_dbs=0,
                lib_version=0,
            )
        except lmdb.Error as error:
            raise StoreUnreadable(path, f"LMDB cannot open it: {error}") from error

    def transaction(self) -> LmdbTransaction:
        """Returns a read transaction; leave it by its ``with``."""
        return LmdbTransaction(self._env.begin())

    def stat(self) -> dict[str, int]:
        """Returns what LMDB tells of the file, by its own names."""
        return {**cast(Any, self._env.stat()), **cast(Any, self._env.info())}

    def close(self) -> None:
        """Closes the file."""
        self._env.close()


def faults_of_pages(path: Path) -> list[str]:
    """Returns what LMDB's own verifier has against *path*, which nobody writes; it is not opened."""
    from lmdb.verify import VerifyError, verify  # not for the daemon

    try:
        return list(verify(str(path), subdir=False))  # type: ignore[no-untyped-call]
    except VerifyError as error:
        return [str(error)]
