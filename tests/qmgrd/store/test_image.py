"""Tests of data files that no process writes."""

import os
from pathlib import Path

import pytest

from qmgrd.store.image import open_image
from qmgrd.store.inspect import StoreUnreadable
from qmgrd.store.lmdb_store import LmdbStore


def test_image_is_opened_once_in_a_process(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "qm", 1 << 24)
    store.close()
    copy = tmp_path / "copy.mdb"
    copy.write_bytes((store.directory / "store" / "data.mdb").read_bytes())
    image = open_image(copy)
    with pytest.raises(StoreUnreadable, match="already open in this process"):
        open_image(copy)
    image.close()
    open_image(copy).close()
    assert not list(tmp_path.glob("copy.mdb-lock"))


def test_path_may_be_other_than_utf8(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "qm", 1 << 24)
    store.close()
    copy = Path(os.fsdecode(bytes(tmp_path) + b"/\xff.mdb"))
    copy.write_bytes((store.directory / "store" / "data.mdb").read_bytes())
    open_image(copy).close()
