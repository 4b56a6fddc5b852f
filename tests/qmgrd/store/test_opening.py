"""Tests that a store opens with and without a journal."""

from pathlib import Path

import pytest

from qmgr_config.model import DurabilityConfig
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.store.journal import FILE
from qmgrd.store.journal_store import JournalStore
from qmgrd.store.lmdb_store import LmdbStore
from qmgrd.store.opening import open_store
from tests.disk_stores import disk_store
from tests.qmgrd.store.test_journal_store import FILE_BYTES, MAP_BYTES, killed, put, rows


def test_configuration_decides_whether_there_is_a_journal(tmp_path: Path) -> None:
    for journal, kind in ((True, JournalStore), (False, LmdbStore)):
        durability = DurabilityConfig(journal=journal, journal_bytes=4 << 20)
        store = open_store(tmp_path / "qm", MAP_BYTES, durability)
        assert type(store) is kind
        put(store, a=b"%d" % journal)
        store.close()
    again = open_store(tmp_path / "qm", MAP_BYTES, DurabilityConfig(journal=False))
    assert rows(again) == {b"\x10a": b"0"}
    again.close()


def test_without_a_journal_a_missing_one_is_refused(tmp_path: Path) -> None:
    store = disk_store(tmp_path / "store", MAP_BYTES, FILE_BYTES)
    put(store, a=b"1")
    put(store, a=b"2")
    directory = killed(store, tmp_path)
    (directory / "store" / FILE).unlink()
    with pytest.raises(StoreFailed, match="journal is missing, so the turns after 1 may be"):
        open_store(directory, MAP_BYTES, DurabilityConfig(journal=False))
    store.close()
