"""Reads a data file that no process writes: a snapshot, or a store at rest."""

import os
import re
from pathlib import Path
from typing import Any, cast

import lmdb

from qmgrd.store.inspect import StoreUnreadable, check_data_file
from qmgrd.store.lmdb_store import LmdbTransaction

_SHRUNK = re.compile(r"overflow page \d+ header mp_pages (\d+) != OVPAGES\(\d+\)=(\d+)$")
_COUNT = re.compile(r"^main DB: walked (\d+) overflow pages, record says (\d+)$")


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
        faults: list[str] = verify(str(path), subdir=False)  # type: ignore[no-untyped-call]
    except VerifyError as error:
        return [str(error)]
    return _without_shrunk_values(faults)


def _without_shrunk_values(faults: list[str]) -> list[str]:
    """Returns *faults* without those that the verifier wrongly reports.

    If a long value is replaced by a shorter one in the same transaction, LMDB keeps all its pages,
    and frees them together with the value.
    """
    kept, surplus = [], 0
    for fault in faults:
        found = _SHRUNK.search(fault)
        if found is not None and int(found[1]) > int(found[2]):
            surplus += int(found[1]) - int(found[2])
        else:
            kept.append(fault)
    counts = ((fault, _COUNT.search(fault)) for fault in kept)
    return [
        fault for fault, found in counts if not found or int(found[2]) - int(found[1]) != surplus
    ]
