"""Tests of LMDB 0.9 files written by py-lmdb, intact and with all kinds of damage."""

import os
import random
import struct
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import lmdb
import pytest

from qmgrd.store.image import open_image
from qmgrd.store.inspect import StoreUnreadable, check_data_file, map_bytes, readers
from qmgrd.store.lmdb_store import LmdbStore

PAGE = 4096
LAST_PAGE_AT = 136
Commit = Callable[[lmdb.Transaction], object]


def write(path: Path, *commits: Commit, lib_version: int = 0) -> Path:
    """Makes a data file with the given transactions, in order."""
    env = lmdb.open(
        str(path), subdir=False, map_size=1 << 30, max_dbs=0, lib_version=lib_version, sync=False
    )
    for commit in commits:
        with env.begin(write=True) as txn:
            commit(txn)
    env.close()
    return path


def fill(count: int, size: int = 1000) -> Commit:
    def commit(txn: lmdb.Transaction) -> None:
        for number in range(count):
            txn.put(b"%06d" % number, bytes([number % 256]) * size)

    return commit


def clear(txn: lmdb.Transaction) -> None:
    for key in list(txn.cursor().iternext(values=False)):
        txn.delete(key)


def drop(count: int) -> Commit:
    def commit(txn: lmdb.Transaction) -> None:
        for number in range(count):
            txn.delete(b"%06d" % number)

    return commit


def come_and_go(txn: lmdb.Transaction) -> None:
    """Allocates pages at the end of the file, and frees them in the same transaction.

    LMDB does not write these pages.
    """
    txn.put(b"long", bytes(400_000))
    txn.delete(b"long")
    txn.put(b"999999", b"")


# These transactions leave a file that ends before its last page.
SHORT = (fill(200), drop(100), fill(5), come_and_go)
SHORT_ROWS = 106  # number of rows after these transactions


def patch(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def last_page(path: Path, meta: int) -> int:
    found: int = struct.unpack_from("<Q", path.read_bytes(), meta * PAGE + LAST_PAGE_AT)[0]
    return found


def reason(path: Path) -> str:
    """Returns the reason why *path* is refused, and checks that the file is unchanged."""
    before = sha256(path.read_bytes()).digest()
    with pytest.raises(StoreUnreadable) as refusal:
        check_data_file(path)
    assert sha256(path.read_bytes()).digest() == before
    text = str(refusal.value)
    assert text.startswith(f"{path}: ")
    assert text.endswith("; nothing was changed")
    assert "\n" not in text
    return text


@pytest.fixture
def sound(tmp_path: Path) -> Path:
    """Returns a file in which every page is in use."""
    path = write(tmp_path / "data.mdb", fill(200), fill(300))
    compact = tmp_path / "compact.mdb"
    env = lmdb.open(str(path), subdir=False, readonly=True, lock=False, lib_version=0)
    with compact.open("wb") as file:
        env.copyfd(file.fileno(), compact=True)
    env.close()
    return compact


@pytest.mark.parametrize("commits", range(5))
def test_whole_file_passes_with_either_newer_meta_page(tmp_path: Path, commits: int) -> None:
    check_data_file(write(tmp_path / "data.mdb", *(fill(50 * n) for n in range(1, commits + 1))))


@pytest.mark.parametrize("commits", [3, 4])
def test_newer_meta_page_has_the_required_file_size(tmp_path: Path, commits: int) -> None:
    path = write(tmp_path / "data.mdb", *(fill(200 * n) for n in range(1, commits + 1)))
    older, newer = sorted(last_page(path, meta) for meta in (0, 1))
    assert older < newer
    os.truncate(path, (older + 1) * PAGE)
    assert "damaged: " in reason(path)


def test_truncated_file_is_refused_at_every_length(sound: Path) -> None:
    data = sound.read_bytes()
    assert len(data) == (last_page(sound, 1) + 1) * PAGE
    ends = [*range(200), *range(200, len(data), 997)]
    ends += [at + around for at in range(PAGE, len(data) + 1, PAGE) for around in (-1, 0, 1)]
    for end in sorted({end for end in ends if end < len(data)}, reverse=True):
        os.truncate(sound, end)
        assert "damaged: " in reason(sound)


def test_empty_file_is_refused_as_such(tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    path.touch()
    assert "damaged: the file is empty" in reason(path)


@pytest.mark.parametrize(
    "content",
    [b"PK\3\4" * 3000, b"\0" * 3 * PAGE, b"#!/bin/sh\n" * 20, random.Random(1).randbytes(9999)],
    ids=["zip", "zeros", "text", "noise"],
)
def test_foreign_file_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "data.mdb"
    path.write_bytes(content)
    assert "not a qmgrd store: it contains no LMDB magic number" in reason(path)


def test_missing_file_and_directory_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnreadable, match=r"none: No such file or directory; nothing was"):
        check_data_file(tmp_path / "none")
    with pytest.raises(StoreUnreadable, match="Is a directory"):
        check_data_file(tmp_path)


def test_file_of_lmdb_1_is_refused_by_its_format(tmp_path: Path) -> None:
    path = write(tmp_path / "data.mdb", fill(100), lib_version=1)
    assert "LMDB format 3, but this qmgrd reads 1" in reason(path)


@pytest.mark.parametrize("meta", [0, 1])
@pytest.mark.parametrize(
    ("offset", "data", "why"),
    [
        (16, b"\xdf", "no LMDB magic number"),
        (19, b"\x3e", "no LMDB magic number"),
        (20, b"\x02", "LMDB format 2, but this qmgrd reads 1"),
        (10, b"\x00", "has flags 0x0"),
        (40, b"\x00\x11", "page size"),
        (40, b"\x00\x20", "page size"),
        (136, b"\0" * 8, "last page 0"),
        (136, b"\xff" * 8, "but its pages extend to"),
    ],
)
def test_damaged_meta_page_is_refused(
    sound: Path, meta: int, offset: int, data: bytes, why: str
) -> None:
    if data == b"\xff" * 8:
        patch(sound, meta * PAGE + LAST_PAGE_AT + 8, b"\x09")  # makes this meta page the newer one
    patch(sound, meta * PAGE + offset, data)
    text = reason(sound)
    assert (
        why in text or "meta page 1 is not a meta page" in text
    )  # A wrong page size hides meta page 1.


def test_file_may_end_before_pages_that_are_free(tmp_path: Path) -> None:
    path = write(tmp_path / "data.mdb", *SHORT)
    assert path.stat().st_size < (max(last_page(path, 0), last_page(path, 1)) + 1) * PAGE
    check_data_file(path)


def test_store_with_free_pages_at_its_end_starts_again(tmp_path: Path) -> None:
    store = LmdbStore(tmp_path, 1 << 30)
    for commit in SHORT:
        tx = store.begin()
        commit(tx._txn)
        store.commit()
    store.close()
    data = tmp_path / "store" / "data.mdb"
    assert data.stat().st_size < (max(last_page(data, 0), last_page(data, 1)) + 1) * PAGE
    store = LmdbStore(tmp_path, 1 << 30)
    tx = store.begin()
    assert len(list(tx.scan(b"", b"\xff"))) == SHORT_ROWS
    fill(600, 3000)(tx._txn)
    store.commit()
    store.close()
    check_data_file(data)


@pytest.mark.parametrize("seed", range(20))
def test_file_passes_if_and_only_if_nothing_in_use_is_cut_off(tmp_path: Path, seed: int) -> None:
    """If the check is correct, no row is lost. If it is wrong, SIGBUS ends this test."""
    chance = random.Random(seed)
    kept: dict[bytes, bytes] = {}

    def churn(txn: lmdb.Transaction) -> None:
        for _ in range(chance.choice([1, 20, 300])):
            key = b"%05d" % chance.randrange(500)
            if chance.random() < 0.5:
                kept[key] = bytes(chance.choice([10, 1900, 2100, 4000]))
                txn.put(key, kept[key])
            elif kept.pop(key, None) is not None:
                txn.delete(key)
        if chance.random() < 0.3:
            clear(txn)
            kept.clear()

    path = write(tmp_path / "data.mdb", *[churn] * chance.randrange(1, 20))
    check_data_file(path)
    while path.stat().st_size > 0:
        try:
            image = open_image(path)
        except StoreUnreadable:
            return
        with image.transaction() as tx:
            assert dict(tx.scan(b"", b"\xff")) == kept
        image.close()
        os.truncate(path, path.stat().st_size - PAGE // 2)


def large_free_list(path: Path) -> Path:
    """Makes a file whose free database has branch pages, and values on separate pages."""
    env = lmdb.open(str(path), subdir=False, map_size=1 << 30, lib_version=0, sync=False)
    with env.begin(write=True) as txn:
        fill(3000, 3000)(txn)
    with env.begin():  # an old reader, which prevents pages freed later from being used again
        for number in range(400):
            with env.begin(write=True) as txn:
                txn.put(b"%06d" % number, b"new" * 1000)
        with env.begin(write=True) as txn:
            clear(txn)
    with env.begin(write=True) as txn:
        fill(5)(txn)
    with env.begin(write=True) as txn:
        come_and_go(txn)
    env.close()
    return path


def cut_to_what_is_written(path: Path) -> None:
    """Cuts off free pages at the end of the file, as LMDB does."""
    while True:
        size = path.stat().st_size
        os.truncate(path, size - PAGE)
        try:
            check_data_file(path)
        except StoreUnreadable:
            os.truncate(path, size)
            return


def test_free_list_of_many_pages_is_read(tmp_path: Path) -> None:
    path = large_free_list(tmp_path / "data.mdb")
    whole = path.read_bytes()
    cut_to_what_is_written(path)
    os.truncate(path, path.stat().st_size - PAGE)
    assert "damaged" in reason(path)
    path.write_bytes(whole)
    image = open_image(path)
    with image.transaction() as tx:
        assert len(list(tx.scan(b"", b"\xff"))) == 6
    image.close()


@pytest.mark.parametrize("seed", range(30))
def test_damaged_free_list_is_refused_or_still_accounts_for_all(tmp_path: Path, seed: int) -> None:
    """The check gives a verdict quickly for any content, and raises no other exception."""
    path = write(tmp_path / "data.mdb", *SHORT)
    metas = [path.read_bytes()[at : at + PAGE] for at in (0, PAGE)]
    newer = max(metas, key=lambda meta: struct.unpack_from("<Q", meta, LAST_PAGE_AT + 8))
    root = struct.unpack_from("<Q", newer, 80)[0]
    chance = random.Random(seed)
    for _ in range(chance.choice([1, 3, 50])):
        patch(path, root * PAGE + chance.randrange(PAGE), chance.randbytes(1))
    try:
        check_data_file(path)
    except StoreUnreadable as error:
        assert "damaged" in str(error)  # noqa: PT017 - passing is right as well


@pytest.mark.parametrize(
    ("at", "garbage"),
    [(12, struct.pack("<H", 8)), (16, struct.pack("<H", PAGE - 8))],
    ids=["it ends within its head", "its first node ends the page"],
)
def test_free_list_that_points_past_its_page_is_refused(
    tmp_path: Path, at: int, garbage: bytes
) -> None:
    path = write(tmp_path / "data.mdb", *SHORT)
    metas = [path.read_bytes()[at_ : at_ + PAGE] for at_ in (0, PAGE)]
    newer = max(metas, key=lambda meta: struct.unpack_from("<Q", meta, LAST_PAGE_AT + 8))
    patch(path, struct.unpack_from("<Q", newer, 80)[0] * PAGE + at, garbage)
    assert "the list of free pages is damaged" in reason(path)


def test_map_is_as_large_as_it_was_made(tmp_path: Path) -> None:
    assert map_bytes(write(tmp_path / "data.mdb", fill(5))) == 1 << 30


def test_readers_are_those_of_the_lock_file(tmp_path: Path) -> None:
    lock = tmp_path / "lock.mdb"
    assert readers(lock) == []
    env = lmdb.open(str(tmp_path), map_size=1 << 30, max_dbs=0, lib_version=0)
    assert readers(lock) == []
    with env.begin(write=True) as txn:
        fill(5)(txn)
    with env.begin() as txn:
        assert readers(lock) == [(os.getpid(), txn.id())]
    assert readers(lock) == []
    env.close()
    lock.write_bytes(b"no lock file of LMDB" * 20)
    assert readers(lock) == []
