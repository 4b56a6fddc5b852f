"""Tests that remote snapshots are copied once, completely, and within a limit."""

import os
import shutil
import stat
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from qmgr_tables import image as images
from qmgr_tables.image import image
from qmgr_tables.options import Options
from qmgr_tables.staging import local
from qmgr_tables.tables.registry import TABLES
from qmgrd.snapshot import remote
from qmgrd.snapshot.finder import SnapshotUnreadable, Staging, StoredSnapshot, find
from tests.qmgrd.snapshot.far import Far, far

URL = "far:///bucket/{}"


@pytest.fixture(autouse=True)
def fs() -> Iterator[type[Far]]:
    with far() as made:
        yield made
    while images._open:
        images._open.popitem()[1].close()


def at(snapshot: Path, name: str, directory: Path, bytes_max: int = 1 << 40) -> StoredSnapshot:
    """Returns *snapshot* under a URL, with a new id, to be staged in *directory*."""
    if not remote.place(URL.format(name)).fs.exists(f"/bucket/{name}/manifest.json"):
        remote.upload(snapshot, URL.format(name))
    (found,) = find([URL.format(name)], Staging(str(directory), bytes_max))
    return found._replace(id=f"{found.id}-{name}")


def copies(directory: Path) -> list[str]:
    return sorted(
        path.name.rpartition("-")[0][-1:] for path in directory.iterdir() if path.is_dir()
    )


def test_local_one_stays_where_it_is(snapshot: Path) -> None:
    (found,) = find([str(snapshot)])
    assert local(found) is found


def test_it_is_fetched_once(snapshot: Path, tmp_path: Path, fs: type[Far]) -> None:
    found = at(snapshot, "a", tmp_path / "stage")
    fs.reads = 0
    here = local(found)
    assert (Path(here.directory) / "data.mdb").read_bytes() == (snapshot / "data.mdb").read_bytes()
    assert stat.S_IMODE(os.stat(tmp_path / "stage").st_mode) == 0o700
    assert local(found) == here
    assert fs.reads == 1


def test_many_tasks_fetch_it_once(snapshot: Path, tmp_path: Path, fs: type[Far]) -> None:
    found = at(snapshot, "a", tmp_path / "stage")
    fs.reads = 0
    threads = [Thread(target=local, args=(found,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert fs.reads == 1
    assert copies(tmp_path / "stage") == ["a"]


def test_tables_are_read_from_the_copy(snapshot: Path, tmp_path: Path) -> None:
    table, options = TABLES["messages"], Options(paths=())
    rows = []
    for found in (find([str(snapshot)])[0], at(snapshot, "a", tmp_path / "stage")):
        shares = table.plan([found], options)
        rows.append(
            [b.num_rows for share in shares for b in table.read(share, options, table.schema)]
        )
    assert rows[0] == rows[1]
    assert copies(tmp_path / "stage") == ["a"]


def test_least_recently_used_go(snapshot: Path, tmp_path: Path) -> None:
    stage, size = tmp_path / "stage", (snapshot / "data.mdb").stat().st_size
    first, second, third = (at(snapshot, name, stage, 2 * size) for name in "abc")
    opened = image(first)
    for number, found in enumerate((first, second)):
        os.utime(local(found).directory, (number, number))
    local(first)
    local(third)
    assert copies(stage) == ["a", "c"]
    local(second)
    assert copies(stage) == ["b", "c"]
    with opened.transaction() as tx:  # A process that has the file open can still read it.
        assert next(tx.scan(b"\0", b"\xff"))


def test_more_than_the_limit_is_refused(snapshot: Path, tmp_path: Path) -> None:
    size = (snapshot / "data.mdb").stat().st_size
    with pytest.raises(SnapshotUnreadable) as refused:
        local(at(snapshot, "a", tmp_path / "stage", size - 1))
    assert str(refused.value) == (
        f"far:///bucket/a: {size} bytes exceed the limit of {size - 1} for all copies; "
        "raise the option stagingMaxBytes"
    )


def test_damage_is_found_before_it_is_opened(snapshot: Path, tmp_path: Path, fs: type[Far]) -> None:
    found = at(snapshot, "a", tmp_path / "stage")
    file = fs.store["/bucket/a/data.mdb"]
    file.seek(9_000)
    file.write(b"rotten")
    with pytest.raises(SnapshotUnreadable, match=r"a/data\.mdb is damaged: "):
        image(found)
    assert copies(tmp_path / "stage") == []


def test_deleted_snapshot_is_named(snapshot: Path, tmp_path: Path) -> None:
    found = at(snapshot, "a", tmp_path / "stage")
    remote.discard(URL.format("a"))
    with pytest.raises(SnapshotUnreadable, match="not found; check the URL"):
        local(found)
    assert copies(tmp_path / "stage") == []


def test_what_a_killed_process_left_is_created_again(snapshot: Path, tmp_path: Path) -> None:
    found = at(snapshot, "a", tmp_path / "stage")
    here = Path(local(found).directory)
    left = here.with_name(f"{here.name}.partial")
    here.rename(left)
    os.truncate(left / "data.mdb", 100)
    assert local(found).directory == str(here)
    assert not left.exists()


def test_leftovers_of_others_make_room(snapshot: Path, tmp_path: Path) -> None:
    stage, size = tmp_path / "stage", (snapshot / "data.mdb").stat().st_size
    here = Path(local(at(snapshot, "a", stage, size)).directory)
    here.rename(here.with_name(f"{here.name}.partial"))
    local(at(snapshot, "b", stage, size))
    assert copies(stage) == ["b"]


def test_directory_of_another_user_is_refused(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = at(snapshot, "a", tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getuid", lambda: 12_345)
        with pytest.raises(SnapshotUnreadable, match="belongs to another user: choose another"):
            local(found)


def test_directory_that_cannot_be_is_named(snapshot: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SnapshotUnreadable, match=r"cannot copy it to .*option stagingDirectory"):
        local(at(snapshot, "a", tmp_path / "file"))


def test_without_an_option_it_lies_among_the_temporary_files(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found = at(snapshot, "a", tmp_path)._replace(staging=Staging())
    assert local(found).directory.startswith(f"{tmp_path}/qmgr-staging-{os.getuid()}/QM1-")
    shutil.rmtree(tmp_path / f"qmgr-staging-{os.getuid()}")
