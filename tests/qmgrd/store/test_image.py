"""Tests of data files that no process writes."""

import os
from pathlib import Path

import pytest

from qmgrd.store.image import faults_of_pages, open_image
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


def test_value_that_shrank_in_a_transaction_is_no_fault(tmp_path: Path) -> None:
    """LMDB keeps the pages of the longer value; found by a simulated power cut."""
    store = LmdbStore(tmp_path / "qm", 1 << 24)
    tx = store.begin()
    tx.put(b"k", bytes(9_000))
    tx.put(b"k", b"short")
    tx.put(b"l", bytes(9_000))
    store.commit()
    store.close()
    (fault,) = faults_of_pages(tmp_path / "qm" / "store" / "data.mdb")
    assert fault.startswith("2 page(s) are neither reachable nor in the freeDB -- a leak")


def test_value_without_its_pages_is_a_fault(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path / "qm", 1 << 24)
    store.begin().put(b"k", bytes(9_000))
    store.commit()
    store.close()
    path = tmp_path / "qm" / "store" / "data.mdb"
    data = bytearray(path.read_bytes())
    heads = range(2 * 4_096, len(data), 4_096)
    at = next(at for at in heads if data[at + 12 : at + 16] == b"\3\0\0\0")
    data[at + 12] = 2
    path.write_bytes(data)
    assert any("mp_pages 2 != OVPAGES" in fault for fault in faults_of_pages(path))
