"""Reads a data file that no process writes: a snapshot, or a store at rest."""

import os
from pathlib import Path
from typing import Any, cast

import lmdb

from qmgrd.store.inspect import StoreUnreadable, check_data_file
from qmgrd.store.lmdb_store import LmdbTransaction


def open_image(path: Path) -> "ImageReader":
    """Opens a snapshot, which no process writes, for reading.

    Raises:
        StoreUnreadable: *path* is not a data file, or it is damaged.
    """
    return ImageReader(path)


class ImageReader:
    """A reader of a data file that no process writes."""

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
        """Returns a read transaction for use in a ``with`` statement."""
        return LmdbTransaction(self._env.begin())

    def stat(self) -> dict[str, int]:
        """Returns LMDB's statistics for the file, under LMDB's names."""
        return {**cast(Any, self._env.stat()), **cast(Any, self._env.info())}

    def close(self) -> None:
        """Closes the file."""
        self._env.close()


def faults_of_pages(path: Path) -> list[str]:
    """Returns the errors that LMDB's own verifier reports about *path*, which no process writes."""
    from lmdb.verify import VerifyError, verify  # imported here because the daemon does not need it

    try:
        return list(verify(str(path), subdir=False))  # type: ignore[no-untyped-call]
    except VerifyError as error:
        return [str(error)]
