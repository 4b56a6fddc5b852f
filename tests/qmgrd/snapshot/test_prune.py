"""Tests that pruning removes neither the newest valid snapshot nor unreadable ones."""

import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from qmgrd.snapshot import remote
from qmgrd.snapshot.finder import SnapshotUnreadable, StoredSnapshot
from qmgrd.snapshot.manifest import CHECKSUM, checksum
from qmgrd.snapshot.prune import leftovers, leftovers_in, plan, remove, remove_all_but_newest
from tests.qmgrd.snapshot.far import far

HOUR_US = 3_600_000_000
Add = Callable[..., Path]


@pytest.fixture
def add(snapshot: Path, tmp_path: Path) -> Add:
    """Makes a snapshot whose time is in the given hour."""

    def add(hour: int, store: str = "a", *, damaged: bool = False) -> Path:
        made = Path(shutil.copytree(snapshot, tmp_path / f"{store}{hour}"))
        facts = json.loads((made / "manifest.json").read_text())
        facts |= {"wall_us": hour * HOUR_US, "store_id": store}
        facts[CHECKSUM] = checksum(facts)
        (made / "manifest.json").write_text(json.dumps(facts))
        if damaged:
            with (made / "data.mdb").open("r+b") as file:
                file.seek(20_000)
                file.write(b"rotten")
        return made

    return add


def names(found: list[StoredSnapshot]) -> list[str]:
    return sorted(Path(one.directory).name for one in found)


def test_newest_stay_of_each_queue_manager(add: Add, tmp_path: Path) -> None:
    for hour in range(1, 4):
        add(hour)
    add(1, "b")
    planned = plan([str(tmp_path)], keep=2, older_than_us=None)
    assert (names(planned.go), names(planned.stay)) == (["a1"], ["a2", "a3", "b1"])


def test_what_one_option_keeps_stays(add: Add, tmp_path: Path) -> None:
    for hour in range(1, 6):
        add(hour)
    assert names(plan([str(tmp_path)], None, 3 * HOUR_US).go) == ["a1", "a2"]
    assert names(plan([str(tmp_path)], 1, 3 * HOUR_US).go) == ["a1", "a2"]
    assert names(plan([str(tmp_path)], 4, 3 * HOUR_US).go) == ["a1"]
    assert names(plan([str(tmp_path)], None, None).go) == []


def test_newest_valid_snapshot_stays_at_any_age(add: Add, tmp_path: Path) -> None:
    add(1)
    add(2)
    add(3, damaged=True)
    planned = plan([str(tmp_path)], None, 100 * HOUR_US)
    assert (names(planned.go), names(planned.stay)) == (["a1", "a3"], ["a2"])
    assert names(plan([str(tmp_path)], 1, None).stay) == ["a2", "a3"]


def test_unreadable_snapshot_is_kept(add: Add, tmp_path: Path) -> None:
    add(1)
    (add(2) / "manifest.json").write_text("{}")
    planned = plan([str(tmp_path)], 1, None)
    assert (names(planned.go), names(planned.stay)) == ([], ["a1"])
    (why,) = planned.unreadable
    assert why.startswith(f"{tmp_path}/a2/manifest.json: damaged")


def test_leftovers_of_the_dead_go_and_those_of_the_living_stay(tmp_path: Path, add: Add) -> None:
    add(1)
    for name in ("x.partial-1", "y.partial-2"):
        (tmp_path / name).mkdir()
    (tmp_path / "z.partial-file").touch()
    fd = os.open(tmp_path / "y.partial-2", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        assert leftovers(str(tmp_path)) == [f"{tmp_path}/x.partial-1"]
        assert leftovers_in(tmp_path, "y.partial-*") == []
        planned = plan([str(tmp_path)], None, None)
    finally:
        os.close(fd)
    remove(planned.leftovers[0])
    assert not (tmp_path / "x.partial-1").exists()


def test_directory_of_leftovers_alone_is_pruned(tmp_path: Path) -> None:
    (tmp_path / "x.partial-1").mkdir()
    assert plan([str(tmp_path)], 1, None).leftovers == [f"{tmp_path}/x.partial-1"]
    with pytest.raises(SnapshotUnreadable, match="not found"):
        plan([f"{tmp_path}/none"], 1, None)


def test_removal_that_is_killed_leaves_a_leftover(
    add: Add, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path, missing_ok: bool = False) -> None:
        raise KeyboardInterrupt

    made = add(1)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", killed)
        with pytest.raises(KeyboardInterrupt):
            remove(str(made))
    (left,) = leftovers(str(tmp_path))
    assert left.startswith(f"{tmp_path}/a1.partial-")
    with pytest.raises(SnapshotUnreadable):
        plan([f"{tmp_path}/a1"], 1, None)


def test_directory_with_other_files_is_not_pruned(add: Add, tmp_path: Path) -> None:
    """A store that was created from a snapshot still contains its manifest."""
    (add(1) / "lock.mdb").touch()
    (add(2) / "notes").mkdir()
    add(4)
    away = add(3).rename(tmp_path.parent / f"{tmp_path.name}-away")
    (tmp_path / "a3").symlink_to(away)
    planned = plan([str(tmp_path)], 1, None)
    assert planned.go == []
    assert [why.partition(": ")[0] for why in planned.unreadable] == [
        f"{tmp_path}/a3",
        f"{tmp_path}/a2",
        f"{tmp_path}/a1",
    ]
    with pytest.raises(OSError, match="contains more than a snapshot"):
        remove(str(tmp_path / "a1"))
    with pytest.raises(OSError, match="is a link"):
        remove(str(tmp_path / "a3"))
    assert remove_all_but_newest(str(tmp_path), "a", 1, f"{tmp_path}/a4") == ([], "")
    assert sorted(os.listdir(tmp_path)) == ["a1", "a2", "a3", "a4"]


def test_directory_of_another_program_is_no_leftover(tmp_path: Path) -> None:
    (tmp_path / "letters.partial-2024").mkdir()
    (tmp_path / "letters.partial-2024" / "data.mdb").mkdir()
    (tmp_path / "mine.partial-1").symlink_to(tmp_path)
    assert leftovers(str(tmp_path)) == []


def test_thin_touches_one_store_alone(add: Add, tmp_path: Path) -> None:
    for hour in (1, 2, 3):
        add(hour)
        add(hour, "b")
    removed, trouble = remove_all_but_newest(str(tmp_path), "a", 1, f"{tmp_path}/a3")
    assert (sorted(removed), trouble) == ([f"{tmp_path}/a1", f"{tmp_path}/a2"], "")
    assert sorted(os.listdir(tmp_path)) == ["a3", "b1", "b2", "b3"]
    assert remove_all_but_newest(f"{tmp_path}/none", "a", 1, "")[1].startswith(
        f"{tmp_path}/none: not found"
    )


def test_thin_removes_what_dead_writers_of_that_queue_manager_left(
    add: Add, tmp_path: Path
) -> None:
    add(1)
    for name in ("QM1-20240501T000000.000Z", "QM2-20240501T000000.000Z", "QM10-x"):
        (tmp_path / f"{name}.partial-1").mkdir()
        (tmp_path / f"{name}.partial-1" / "data.mdb").touch()
    assert remove_all_but_newest(str(tmp_path), "a", 1, f"{tmp_path}/a1", "QM1") == ([], "")
    assert sorted(os.listdir(tmp_path)) == [
        "QM10-x.partial-1",
        "QM2-20240501T000000.000Z.partial-1",
        "a1",
    ]


def test_url_is_pruned_too(add: Add) -> None:
    with far() as fs:
        for hour in (1, 2):
            remote.upload(add(hour), f"far:///bucket/a{hour}")
        removed, trouble = remove_all_but_newest("far:///bucket", "a", 1, "far:///bucket/a2")
        assert (removed, trouble) == (["far:///bucket/a1"], "")
        assert sorted(fs.store) == ["/bucket/a2/data.mdb", "/bucket/a2/manifest.json"]
