import os
from pathlib import Path

import pytest

from qmgrd.store.inspect import StoreUnreadable
from qmgrd.store.lmdb_store import LmdbStore, StoreLocked
from qmgrd.store.offline import StoreInUse, offline_data_file

MAP_BYTES = 1 << 20


def test_data_file_is_found_from_either_directory(tmp_path: Path) -> None:
    LmdbStore(tmp_path, MAP_BYTES).close()
    for directory in (tmp_path, tmp_path / "store"):
        with offline_data_file(directory) as data:
            assert data == tmp_path / "store/data.mdb"


def test_no_daemon_starts_meanwhile_but_others_may_look(tmp_path: Path) -> None:
    LmdbStore(tmp_path, MAP_BYTES).close()
    reading = "start again after it has finished"
    with (
        offline_data_file(tmp_path),
        offline_data_file(tmp_path),
        pytest.raises(StoreLocked, match=reading),
    ):
        LmdbStore(tmp_path, MAP_BYTES)
    LmdbStore(tmp_path, MAP_BYTES).close()


def test_store_of_a_running_daemon_is_refused(tmp_path: Path) -> None:
    daemon = LmdbStore(tmp_path, MAP_BYTES)
    for directory in (tmp_path, tmp_path / "store"):
        with (
            pytest.raises(StoreInUse, match=f"process {os.getpid()}"),
            offline_data_file(directory),
        ):
            pass
    daemon.close()


def test_snapshot_needs_no_lock(tmp_path: Path) -> None:
    (tmp_path / "data.mdb").touch()
    with offline_data_file(tmp_path) as data:
        assert data == tmp_path / "data.mdb"
    assert [path.name for path in tmp_path.iterdir()] == ["data.mdb"]


def test_snapshot_with_other_files_is_still_a_snapshot(tmp_path: Path) -> None:
    """Spark also reads this snapshot. A store started in the directory is found in store/."""
    LmdbStore(tmp_path, MAP_BYTES).close()
    (tmp_path / "data.mdb").touch()
    (tmp_path / "manifest.json").touch()
    for directory, data in ((tmp_path, "data.mdb"), (tmp_path / "store", "store/data.mdb")):
        with offline_data_file(directory) as found:
            assert found == tmp_path / data


def test_directory_without_a_store_is_refused(tmp_path: Path) -> None:
    for nothing in (tmp_path, tmp_path / "none"):
        with pytest.raises(StoreUnreadable, match="no store found"), offline_data_file(nothing):
            pass


def test_path_without_a_regular_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "data.mdb")
    with pytest.raises(StoreUnreadable, match="not a file"), offline_data_file(tmp_path):
        pass
