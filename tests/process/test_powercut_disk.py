"""Tests of the disk with a volatile cache that the power-cut test uses."""

from itertools import product
from pathlib import Path
from random import Random

import pytest

from tests.process.powercut.cuts import FULL_MAX, moments, states
from tests.process.powercut.disk import SECTOR_BYTES, Disk, Tree, build, digest, inodes_of
from tests.process.powercut.recorder import Entry

ROOT = "/disk"
A, B = (bytes([letter]) * SECTOR_BYTES for letter in b"AB")


def disk(**files: bytes) -> Disk:
    """Returns a disk with *files*; the first has inode 1."""
    inodes = {".": 0} | {f"./{name}": number for number, name in enumerate(files, 1)}
    return Disk(Path(ROOT), dict(files), inodes)


def entry(position: int, kind: str, inode: int = 0, offset: int = 0, data: bytes = b"") -> Entry:
    return Entry(position, kind, inode, offset, data)


def contents(tree: Tree, name: str = "f") -> bytes:
    """Returns the contents of a file."""
    found = tree[name]
    assert isinstance(found, bytes)
    return found


def left(on: Disk) -> list[Tree]:
    """Returns the different states after a power cut."""
    return list({digest(tree): tree for tree in states(on, Random(1))}.values())


def test_write_is_torn_at_sectors_until_a_flush() -> None:
    on = disk(f=A + A)
    on.apply(entry(1, "W", 1, 0, B + B))
    assert sorted(contents(tree) for tree in left(on)) == sorted(
        first + second for first, second in product((A, B), repeat=2)
    )
    on.apply(entry(2, "F", 1))
    assert left(on) == [{"f": B + B}]


def test_writes_are_kept_in_any_order() -> None:
    on = disk(f=A + A)
    on.apply(entry(1, "W", 1, 0, B))
    on.apply(entry(2, "W", 1, SECTOR_BYTES, B))
    assert {"f": A + B} in left(on)


def test_later_write_of_a_sector_replaces_the_earlier_one() -> None:
    on = disk(f=A)
    on.apply(entry(1, "W", 1, 0, b"1"))
    on.apply(entry(2, "W", 1, 1, b"2"))
    kept = {contents(tree)[:2] for tree in left(on)}
    assert kept == {b"AA", b"1A", b"12"}  # The sector is written from the cache.


def test_durable_write_does_not_flush_others() -> None:
    on = disk(f=A + A)
    on.apply(entry(1, "W", 1, 0, B))
    on.apply(entry(2, "W", 1, SECTOR_BYTES, B))
    assert on.flushes(entry(3, "A", 1))
    on.apply(entry(3, "A", 1))
    assert sorted(contents(tree) for tree in left(on)) == [A + B, B + B]


def test_older_sector_does_not_return_after_a_durable_write() -> None:
    on = disk(f=A)
    on.apply(entry(1, "W", 1, 0, b"1"))
    on.apply(entry(2, "W", 1, 0, b"2"))
    on.apply(entry(3, "A", 1))
    assert [contents(tree)[:1] for tree in left(on)] == [b"2"]


def test_file_may_be_longer_than_what_was_written() -> None:
    on = disk(f=A)
    on.apply(entry(1, "W", 1, SECTOR_BYTES, B))
    assert {"f": A + bytes(SECTOR_BYTES)} in left(on)
    assert {"f": A} in left(on)


def test_file_is_cut_or_not() -> None:
    on = disk(f=A)
    on.apply(entry(1, "T", 1, 3))
    assert sorted(contents(tree) for tree in left(on)) == [A[:3], A]


def test_flush_of_a_file_does_not_make_its_name_durable() -> None:
    on = disk()
    on.apply(entry(1, "C", 5, 0, b"/disk/new"))
    on.apply(entry(2, "W", 5, 0, A))
    on.apply(entry(3, "F", 5))
    assert sorted(map(str, left(on))) == sorted(map(str, [{}, {"new": A}]))
    on.apply(entry(4, "F", 0))
    assert left(on) == [{"new": A}]


def test_rename_is_complete_or_not_made() -> None:
    on = disk(old=A, name=B)
    on.apply(entry(1, "R", 0, 0, b"/disk/name\0/disk/old"))
    assert sorted(map(str, left(on))) == sorted(map(str, [{"old": A, "name": B}, {"name": A}]))


def test_directory_is_renamed_with_its_files() -> None:
    on = disk()
    on.apply(entry(1, "D", 5, 0, b"/disk/new"))
    on.apply(entry(2, "C", 6, 0, b"/disk/new/f"))
    on.apply(entry(3, "F", 5))
    on.apply(entry(4, "R", 0, 0, b"/disk/store\0/disk/new"))
    on.apply(entry(5, "U", 0, 0, b"/disk/store/f"))
    found = [{}, {"new": {}}, {"new": {"f": b""}}, {"store": {}}, {"store": {"f": b""}}]
    assert sorted(map(str, left(on))) == sorted(map(str, found))


def test_call_that_cannot_be_replayed_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="sendfile is not modelled"):
        disk().apply(entry(1, "?", 1, 0, b"sendfile"))


def test_many_pieces_are_sampled() -> None:
    on = disk(f=bytes(64 * SECTOR_BYTES))
    on.apply(entry(1, "W", 1, 0, A * 32))
    on.apply(entry(2, "W", 1, 32 * SECTOR_BYTES, B * 32))
    found = [contents(tree) for tree in left(on)]
    assert 2**FULL_MAX > len(found) > 10
    half = bytes(32 * SECTOR_BYTES)
    assert {half + half, A * 32 + B * 32, A * 32 + half, half + B * 32} <= set(found)


def test_power_is_cut_before_each_flush_and_after_each_acknowledgement() -> None:
    log = [
        entry(1, "W", 1, 0, B),
        entry(2, "M", data=b"t"),
        entry(3, "F", 1),
        entry(4, "F", 1),
        entry(5, "M", data=b"a"),
    ]
    assert list(moments(disk(f=A), log)) == [2, 5, 5]


def test_contents_are_built(tmp_path: Path) -> None:
    build({"store": {"f": A}, "g": b""}, tmp_path)
    assert (tmp_path / "store" / "f").read_bytes() == A
    assert set(inodes_of(tmp_path)) == {".", "./store", "./store/f", "./g"}
