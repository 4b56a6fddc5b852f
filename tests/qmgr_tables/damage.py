"""Snapshots with rows that were damaged after the snapshots were taken."""

import json
from pathlib import Path

import lmdb

from qmgrd.snapshot.finder import DATA, FILE
from qmgrd.snapshot.manifest import CHECKSUM, checksum


def damaged_copy(snapshot: Path, *keys: bytes) -> Path:
    """Returns a copy in which the last byte under each of *keys* is changed.

    The copy must be read without verification.
    """
    data = snapshot / DATA
    size = data.stat().st_size
    with (
        lmdb.open(str(data), subdir=False, lock=False, map_size=1 << 30, lib_version=0) as env,
        env.begin(write=True) as tx,
    ):
        for key in keys:
            value = tx.get(key)
            assert value, key
            tx.put(key, value[:-1] + bytes([value[-1] ^ 1]))
    _resize(snapshot / FILE, size, data.stat().st_size)
    return snapshot


def _resize(manifest: Path, before: int, after: int) -> None:
    """Changes the size of the data file in a manifest from *before* to *after*."""
    told = json.loads(manifest.read_text())
    assert told["data_bytes"] == before
    told["data_bytes"] = after
    told[CHECKSUM] = checksum(told)
    manifest.write_text(json.dumps(told))
