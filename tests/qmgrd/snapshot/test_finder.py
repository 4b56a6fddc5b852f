"""Tests that snapshots are found by path, list and pattern, and unreadable ones are named."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from qmgrd.core.layout import keys
from qmgrd.snapshot.finder import LaneRange, SnapshotUnreadable, find, read, verify
from qmgrd.snapshot.manifest import CHECKSUM, checksum
from tests.qmgr_tables.snapshots import make


def refusal(*paths: Path | str) -> str:
    with pytest.raises(SnapshotUnreadable) as refused:
        find(map(str, paths))
    assert "\n" not in str(refused.value)
    return str(refused.value)


def change(directory: Path, **facts: Any) -> None:
    """Changes the manifest of a snapshot, and the checksum in it."""
    path = directory / "manifest.json"
    manifest = {**json.loads(path.read_text()), **facts}
    path.write_text(json.dumps({**manifest, CHECKSUM: checksum(manifest)}))


@pytest.fixture
def copy(snapshot: Path, tmp_path: Path) -> Path:
    """Returns a snapshot that a test may damage."""
    return Path(shutil.copytree(snapshot, tmp_path / "copy"))


def names(*paths: Path | str) -> list[str]:
    return [os.path.basename(found.directory) for found in find(map(str, paths))]


def test_manifest_is_read(snapshot: Path) -> None:
    (found,) = find([str(snapshot)])
    assert found.directory == str(snapshot)
    assert found.queue_manager == "QM1"
    assert found.id == f"QM1-53535353-1-{found.turn}"
    assert [(queue.name, queue.kind) for queue in found.queues] == [
        ("@NYC", "transmission"),
        ("ALL", "local"),
        ("EMPTY", "local"),
        ("FAILS", "local"),
        ("MANY", "local"),
        ("SYSTEM.DEAD.LETTERS", "local"),
        ("SYSTEM.EVENTS", "local"),
        ("TIMES", "local"),
    ]
    assert found.queues[4].ranges == (LaneRange(0, 4, 2500, 1, 2500),)
    assert (found.clock_ms, found.wall_us) == (5_000, 1_700_000_005_000_000)


@pytest.mark.parametrize(
    "path",
    [
        "{0}",
        "{0}/*",
        "{0}/[ab]",
        "{0}/a,{0}/b",
        " {0}/a , {0}/b ,",
        "file://{0}",
        "file:{0}",
        "{0}/a,{0}/*",
        "{0}/a/../b,{0}/a",
    ],
)
def test_many_snapshots_are_found_each_once(snapshot: Path, tmp_path: Path, path: str) -> None:
    for name in ("a", "b"):
        shutil.copytree(snapshot, tmp_path / name)
    (tmp_path / "c.partial-1").mkdir()
    shutil.copy(snapshot / "manifest.json", tmp_path / "c.partial-1")
    assert names(path.format(tmp_path)) == ["a", "b"]


def test_several_paths_are_read_together(snapshot: Path, empty: Path) -> None:
    assert sorted(names(snapshot, empty, snapshot)) == ["QM0", "QM1"]


def test_names_may_hold_commas_colons_and_brackets(snapshot: Path, tmp_path: Path) -> None:
    for name in ("a,b", "a:b", "[a]", "a b"):
        shutil.copytree(snapshot, tmp_path / name)
        assert names(tmp_path / name) == [name]


def test_path_that_does_not_exist_is_named(tmp_path: Path, snapshot: Path) -> None:
    assert refusal(tmp_path / "none") == (
        f"{tmp_path}/none: not found; check the path, "
        "or make a snapshot: qmctl snapshot create DIRECTORY"
    )
    assert f"{tmp_path}/x*: not found" in refusal(f"{snapshot},{tmp_path}/x*")


def test_directory_without_a_snapshot_is_named(tmp_path: Path) -> None:
    assert refusal(tmp_path) == (
        f"{tmp_path}: not a snapshot, because it has no manifest.json; "
        "make a snapshot: qmctl snapshot create DIRECTORY"
    )


def test_file_system_that_is_not_known_is_named() -> None:
    assert refusal("gopher://host/snap").startswith("gopher://host/snap: ValueError: ")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("format", "1 and 2"),
        ("store_format", keys.FORMATS_READ_TEXT),
        ("lmdb_format", "1"),
        ("record_format", "1"),
    ],
)
def test_newer_format_is_refused(copy: Path, name: str, known: str) -> None:
    newer = int(known[-1]) + 1
    change(copy, **{name: newer})
    assert refusal(copy) == (
        f"{copy}: {name} {newer}, but this qmgrd reads {known}; "
        "read it with the version that wrote it"
    )


def test_facts_that_are_not_known_are_no_fault(copy: Path) -> None:
    change(copy, invented_later=[1, 2])
    assert names(copy) == ["copy"]


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_text(""),
        lambda path: path.write_text("[]"),
        lambda path: path.write_text("null"),
        lambda path: path.write_bytes(b"\xff\xfe{}"),
        lambda path: path.write_text('{"format": 1}'),
        lambda path: change(path.parent, queues=[{}]),
        lambda path: change(path.parent, queues=7),
        lambda path: change(path.parent, turn="x"),
    ],
)
def test_damaged_manifest_is_named(copy: Path, spoil: Callable[[Path], None]) -> None:
    spoil(copy / "manifest.json")
    text = refusal(copy)
    assert text.startswith(f"{copy}/manifest.json: damaged (")
    assert text.endswith("; take the snapshot again")


@pytest.mark.parametrize(
    ("said", "changed"),
    [
        ('"last_arrival": 2500', '"last_arrival": 10'),
        ('"messages": 2500', '"messages": 2499'),
        ('"queue": "MANY"', '"queue": "MANE"'),
        ('"boot": 1', '"boot": 2'),
    ],
)
def test_manifest_that_was_changed_is_refused(copy: Path, said: str, changed: str) -> None:
    """Otherwise, Spark would omit messages without an error."""
    path = copy / "manifest.json"
    text = path.read_text()
    assert said in text
    path.write_text(text.replace(said, changed))
    assert refusal(copy) == (
        f"{path}: damaged: its checksum does not match; copy or take the snapshot again"
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("snapshot_id", "../../tmp/x"),
        ("snapshot_id", "/tmp/x"),
        ("snapshot_id", ".."),
        ("store_id", "a/b"),
        ("data_sha256", "\n"),
        ("wall_us", 10**20),
        ("turn", -1),
        ("messages", float("inf")),
        ("clock_ms", float("nan")),
        ("boot", True),
        ("queues", 7),
    ],
)
def test_impossible_manifest_is_refused(copy: Path, name: str, value: Any) -> None:
    change(copy, **{name: value})
    assert refusal(copy).startswith(f"{copy}/manifest.json: damaged (")


def test_range_of_more_messages_than_places_is_refused(copy: Path) -> None:
    queues = json.loads((copy / "manifest.json").read_text())["queues"]
    for queue in queues:
        for found in queue["ranges"]:
            found["messages"] = 1 << 60  # A plan would make one share of each 250,000 messages.
    change(copy, queues=queues)
    assert "1152921504606846976 messages from arrival" in refusal(copy)


def test_manifest_as_deep_as_it_is_long_is_refused(copy: Path) -> None:
    (copy / "manifest.json").write_text("[" * 200_000)
    assert "manifest.json: damaged (RecursionError" in refusal(copy)


def test_manifest_that_is_a_pipe_or_endless_is_not_waited_for(copy: Path) -> None:
    path = copy / "manifest.json"
    path.unlink()
    os.mkfifo(path)
    assert "the manifest is not a regular file" in refusal(copy)
    path.unlink()
    path.touch()
    os.truncate(path, 1 << 40)
    assert "1099511627776 bytes (the limit is" in refusal(copy)


def test_manifest_without_a_checksum_is_refused(copy: Path) -> None:
    path = copy / "manifest.json"
    manifest = json.loads(path.read_text())
    del manifest[CHECKSUM]
    path.write_text(json.dumps(manifest))
    assert "damaged (KeyError: 'manifest_sha256')" in refusal(copy)


def test_manifest_may_be_laid_out_again(copy: Path) -> None:
    path = copy / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()), sort_keys=True))
    assert names(copy) == ["copy"]


def test_manifest_that_is_missing_is_named(copy: Path) -> None:
    (copy / "manifest.json").unlink()
    with pytest.raises(SnapshotUnreadable, match=r"manifest\.json: No such file or directory"):
        read(str(copy))


def test_data_that_is_missing_or_short_is_named(copy: Path) -> None:
    size = (copy / "data.mdb").stat().st_size
    os.truncate(copy / "data.mdb", size - 1)
    assert refusal(copy) == (
        f"{copy}/data.mdb: damaged: {size - 1} bytes, but the manifest states {size}; "
        "copy or take the snapshot again"
    )
    (copy / "data.mdb").unlink()
    assert "data.mdb: No such file or directory" in refusal(copy)


def test_snapshot_of_another_manager_is_another(tmp_path: Path, snapshot: Path) -> None:
    other = make(tmp_path, "QM2")
    first, second = find([str(snapshot), str(other)])
    assert first.id != second.id


def test_any_changed_byte_fails_the_checksum(copy: Path) -> None:
    (found,) = find([str(copy)])
    verify(found)
    verify(found)
    with (copy / "data.mdb").open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)
        file.seek(-1, os.SEEK_END)
        file.write(bytes([last[0] ^ 1]))
    with pytest.raises(SnapshotUnreadable) as refused:
        verify(found)
    assert str(refused.value) == (
        f"{copy}/data.mdb: damaged: its checksum differs from the manifest; "
        "copy or take the snapshot again"
    )
