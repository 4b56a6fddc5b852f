"""Tests that the journal returns each record, and recognizes torn and damaged ones."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgrd.store.journal import BLOCK_BYTES, JournalDamaged, JournalFile, create_journal

EPOCH, OTHER = b"e" * 16, b"o" * 16
SIZE = 16 * BLOCK_BYTES


def written(path: Path, *contents: bytes, first: int = 1, epoch: bytes = EPOCH) -> JournalFile:
    create_journal(path, SIZE)
    file = JournalFile(path)
    file.trim(epoch)
    for number, content in enumerate(contents, first):
        assert file.has_room(len(content))
        file.append(number, content)
    return file


def replayed(path: Path, after: int = 0, epoch: bytes = EPOCH) -> list[tuple[int, bytes]]:
    file = JournalFile(path)
    try:
        return list(file.replay(epoch, after))
    finally:
        file.close()


@given(st.lists(st.binary(max_size=3 * BLOCK_BYTES), max_size=4))
def test_records_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, contents: list[bytes]
) -> None:
    path = tmp_path_factory.mktemp("journal") / "journal"
    written(path, *contents).close()
    assert replayed(path) == list(enumerate(contents, 1))


def test_file_is_created_whole_and_keeps_its_size(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    file = written(path, b"a", b"b")
    assert path.stat().st_size == SIZE
    assert path.stat().st_mode & 0o777 == 0o600
    assert not [x for x in tmp_path.iterdir() if x != path]
    file.close()


def test_file_has_room_for_whole_records_only(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    file = written(path, b"x" * (SIZE - 2 * BLOCK_BYTES))
    assert not file.has_room(BLOCK_BYTES)
    assert file.has_room(1)
    file.append(2, b"y")
    assert not file.has_room(0)
    file.close()
    assert [number for number, _ in replayed(path)] == [1, 2]


def test_records_of_another_epoch_and_older_ones_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    file = written(path, b"a", b"b", b"c", b"d")
    file.trim(EPOCH)  # The store has them all.
    file.append(5, b"e")
    file.close()
    assert replayed(path, after=4) == [(5, b"e")]
    assert replayed(path, after=5) == []
    assert replayed(path, epoch=OTHER) == []


@pytest.mark.parametrize("at", [0, 5, 20, 40, BLOCK_BYTES + 40])
def test_torn_record_ends_the_file(tmp_path: Path, at: int) -> None:
    path = tmp_path / "journal"
    written(path, b"a", b"b" * 2 * BLOCK_BYTES).close()
    flip(path, BLOCK_BYTES + at)
    assert replayed(path) == [(1, b"a")]


@pytest.mark.parametrize("at", [0, 5, 9, 20, 34, 40])
def test_damaged_record_before_a_later_one_is_refused(tmp_path: Path, at: int) -> None:
    path = tmp_path / "journal"
    written(path, b"a" * 10, b"b" * 10, b"c", b"d").close()
    flip(path, BLOCK_BYTES + at)
    with pytest.raises(
        JournalDamaged, match=r"turn 2 is damaged or missing, but .* turn 3 is intact"
    ):
        replayed(path)


def test_file_that_ends_early_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    written(path, b"a", b"b").close()
    with path.open("r+b") as file:
        file.truncate(BLOCK_BYTES + 10)
    assert replayed(path) == [(1, b"a")]


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))
