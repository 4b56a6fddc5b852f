import os
import shutil
from pathlib import Path

import lmdb
import pytest

from qmgrd.store.image import open_image
from qmgrd.store.inspect import StoreUnreadable
from qmgrd.store.journal import FILE, JournalUnreadable
from qmgrd.store.lmdb_store import LmdbStore, StoreLocked
from qmgrd.store.offline import StoreInUse, offline_store
from tests.disk_stores import disk_store

MAP_BYTES = 1 << 20


def test_data_file_is_found_from_either_directory(tmp_path: Path) -> None:
    LmdbStore(tmp_path, MAP_BYTES).close()
    for directory in (tmp_path, tmp_path / "store"):
        with offline_store(directory) as store:
            assert store.data == tmp_path / "store/data.mdb"


def test_no_daemon_starts_meanwhile_but_others_may_look(tmp_path: Path) -> None:
    LmdbStore(tmp_path, MAP_BYTES).close()
    reading = "start again after it has finished"
    with (
        offline_store(tmp_path),
        offline_store(tmp_path),
        pytest.raises(StoreLocked, match=reading),
    ):
        LmdbStore(tmp_path, MAP_BYTES)
    LmdbStore(tmp_path, MAP_BYTES).close()


def test_store_of_a_running_daemon_is_refused(tmp_path: Path) -> None:
    daemon = LmdbStore(tmp_path, MAP_BYTES)
    for directory in (tmp_path, tmp_path / "store"):
        with pytest.raises(StoreInUse, match=f"process {os.getpid()}"), offline_store(directory):
            pass
    daemon.close()


def test_snapshot_needs_no_lock(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").touch()
    with offline_store(tmp_path) as store:
        assert store.data == tmp_path / "data.mdb"
    assert [path.name for path in tmp_path.iterdir()] == ["data.mdb"]


def test_snapshot_with_other_files_is_still_a_snapshot(tmp_path: Path) -> None:
    """Spark also reads this snapshot. A store started in the directory is found in store/."""
    LmdbStore(tmp_path, MAP_BYTES).close()
    (tmp_path / "data.mdb").touch()
    (tmp_path / "manifest.json").touch()
    for directory, data in ((tmp_path, "data.mdb"), (tmp_path / "store", "store/data.mdb")):
        with offline_store(directory) as store:
            assert store.data == tmp_path / data


def test_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    for nothing in (tmp_path, tmp_path / "none"):
        with pytest.raises(StoreUnreadable, match="no store found"), offline_store(nothing):
            pass


def test_path_without_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.mdb")
    with pytest.raises(StoreUnreadable, match="not a file"), offline_store(tmp_path):
        pass


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The data directory of a store that was killed with one turn only in its journal."""
    store = disk_store(tmp_path / "qm", MAP_BYTES)
    for number in range(2):
        store.begin().put(b"\x10k", b"%d" % number)
        store.commit()
    shutil.copytree(tmp_path / "qm", tmp_path / "copy")
    store.close()
    return tmp_path / "copy"


def value_in(data: Path) -> bytes | None:
    image = open_image(data)
    with image.transaction() as tx:
        value: bytes | None = tx.get(b"\x10k")
    image.close()
    return value


def test_turns_of_the_journal_are_stored_once(killed: Path) -> None:
    with offline_store(killed) as store:
        assert value_in(store.data) == b"0"
        assert store.finish_journal() == 1
        assert store.finish_journal() == 0
        assert value_in(store.data) == b"1"
    again = disk_store(killed, MAP_BYTES)
    assert again.begin().get(b"\x10k") == b"1"
    assert again.replayed == 0
    again.close()


def test_turns_of_the_journal_are_not_stored_while_another_command_reads(killed: Path) -> None:
    with offline_store(killed) as store, offline_store(killed):
        with pytest.raises(StoreInUse, match="another command"):
            store.finish_journal()
        assert value_in(store.data) == b"0"
    with offline_store(killed) as store:
        assert store.finish_journal() == 1


def test_lost_journal_is_named(killed: Path) -> None:
    (killed / "store" / FILE).unlink()
    with (
        offline_store(killed) as store,
        pytest.raises(JournalUnreadable, match="journal is missing, so the turns after 1 may be"),
    ):
        store.finish_journal()


def test_failed_write_names_the_journal(killed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise lmdb.ReadonlyError("read-only file system")

    with offline_store(killed) as store:
        assert value_in(store.data) == b"0"
        with monkeypatch.context() as patch:
            patch.setattr("qmgrd.store.offline.finish_journal", refuse)
            with pytest.raises(
                StoreUnreadable, match=r"turns of .*/journal cannot be stored: read"
            ):
                store.finish_journal()
        assert store.finish_journal() == 1
