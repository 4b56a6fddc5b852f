"""Tests of bases: a member can always begin with the newest one and follow the log from there."""

import hashlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from qmgrd.engine import bases
from qmgrd.engine.bases import (
    Base,
    BaseDamaged,
    begin_base,
    end_base,
    log_bytes,
    newest_base,
    read_base,
    trim,
    write_base,
)
from qmgrd.engine.reader import LogReader, LogShort, LogTrimmed
from qmgrd.engine.schema import Place, segments
from qmgrd.store.log import Position
from tests.qmgrd.engine.journals import Journal, end_session
from tests.qmgrd.engine.leading import leading

LARGE_PIECES = 30


def make(journal: Journal, record: int, *pieces: bytes, epoch: int = 1) -> int:
    """Makes a complete base, and returns its number."""
    connection = journal.connect()
    number = begin_base(connection, journal.place, "A", Position(record, epoch))
    assert number is not None
    write_base(connection, journal.place, number, pieces or (b"base",))
    end_base(connection, journal.place)
    return number


def newest(journal: Journal) -> Base:
    base = newest_base(journal.admin, journal.place)
    assert base is not None
    return base


def tables(journal: Journal) -> list[str]:
    """Returns the tables with the contents of bases."""
    rows = journal.admin.execute(
        "select relname from pg_class where relkind = 'r' and relname like %s order by 1",
        (f"base\\_{journal.place.manager}\\_%",),
    )
    return [name for (name,) in rows]


def rows(journal: Journal) -> list[int]:
    """Returns the numbers of all bases, complete or not."""
    found = journal.admin.execute(
        "select number from qmgrd.base where manager = %s order by 1", (journal.place.manager,)
    )
    return [number for (number,) in found]


def check_followable(journal: Journal, path: Path) -> None:
    """Checks that a new member can read the newest base and all records after it."""
    base = newest_base(journal.admin, journal.place)
    position = Position(0, 0)
    if base is not None:
        read_base(journal.admin, journal.place, base, path)
        path.unlink()
        position = base.position
    last = max(record.number for record in journal.records())
    reader = LogReader(journal.url, journal.place, "standby")
    try:
        while not (news := reader.look(position)).is_end:
            position = Position(news.records[-1].number, news.records[-1].epoch)
    finally:
        reader.close()
    assert position.number == last


def write_segments(journal: Journal) -> None:
    """Writes segments with records 1 to 3, 4 to 6, 7 to 9 and 10."""
    for segment, first in enumerate((1, 4, 7), 1):
        journal.write(segment, range(first, first + 3))
    journal.write(4, [10])


def test_base_of_many_pieces_is_read_as_it_was_written(journal: Journal, tmp_path: Path) -> None:
    chance = random.Random(1)
    pieces = [chance.randbytes(bases.PIECE_BYTES) for _ in range(LARGE_PIECES)]
    pieces.append(b"the end")
    number = make(journal, 7, *pieces, epoch=3)
    base = newest(journal)
    content = b"".join(pieces)
    sha256 = hashlib.sha256(content).digest()
    assert base == Base(number, Position(7, 3), len(content), sha256)
    read_base(journal.admin, journal.place, base, tmp_path / "base")
    assert (tmp_path / "base").read_bytes() == content
    with pytest.raises(FileExistsError):
        read_base(journal.admin, journal.place, base, tmp_path / "base")


def test_empty_base_is_complete(journal: Journal, tmp_path: Path) -> None:
    connection = journal.connect()
    number = begin_base(connection, journal.place, "A", Position(1, 1))
    assert number is not None
    assert write_base(connection, journal.place, number, []) == 0
    read_base(journal.admin, journal.place, newest(journal), tmp_path / "base")
    assert (tmp_path / "base").read_bytes() == b""


def test_journal_without_bases_has_none(journal: Journal) -> None:
    assert newest_base(journal.admin, journal.place) is None
    assert trim(journal.admin, journal.place) == []


def test_cut_upload_is_not_complete_and_is_removed_by_the_next_one(journal: Journal) -> None:
    first = make(journal, 5)

    def cut() -> Iterator[bytes]:
        yield b"piece"
        end_session(journal, connection.info.backend_pid)
        yield b"piece"

    connection = journal.connect()
    number = begin_base(connection, journal.place, "A", Position(9, 1))
    assert number is not None
    with pytest.raises(psycopg.OperationalError):
        write_base(connection, journal.place, number, cut())
    assert newest(journal).number == first
    assert rows(journal) == [first, number]
    last = make(journal, 10)
    assert rows(journal) == [first, last]
    assert len(tables(journal)) == 2
    assert newest(journal).number == last


def test_failed_copy_is_not_complete(journal: Journal) -> None:
    def fail() -> Iterator[bytes]:
        yield b"piece"
        raise OSError("disk")

    number = begin_base(journal.admin, journal.place, "A", Position(9, 1))
    assert number is not None
    with pytest.raises(OSError, match="disk"):
        write_base(journal.admin, journal.place, number, fail())
    assert newest_base(journal.admin, journal.place) is None


@pytest.mark.parametrize(
    "damage",
    [
        "update {} set content = overlay(content placing '\\x00' from 3) where piece = 2",
        "delete from {} where piece = 2",
        "delete from {} where piece = 3",
        "update {} set piece = 4 where piece = 2",
        "insert into {} values (4, 'more')",
        "delete from {}",
    ],
)
def test_damaged_base_is_not_used(journal: Journal, tmp_path: Path, damage: str) -> None:
    number = make(journal, 7, b"one", b"two", b"three")
    journal.admin.execute(damage.format(journal.place.base(number)).encode())
    with pytest.raises(BaseDamaged, match=f"base {number} is damaged"):
        read_base(journal.admin, journal.place, newest(journal), tmp_path / "base")


def test_two_members_make_no_base_at_the_same_time(journal: Journal) -> None:
    first, second = journal.connect(), journal.connect()
    number = begin_base(first, journal.place, "A", Position(1, 1))
    assert number is not None
    assert begin_base(second, journal.place, "B", Position(1, 1)) is None
    other = Journal(journal.url, f"{journal.name} OTHER")
    assert begin_base(second, other.place, "B", Position(1, 1)) is not None
    write_base(first, journal.place, number, [b"base"])
    end_base(first, journal.place)
    assert begin_base(second, journal.place, "B", Position(2, 1)) is not None
    end_session(journal, second.info.backend_pid)
    assert begin_base(first, journal.place, "A", Position(3, 1)) is not None
    other.close()


def test_base_that_could_not_begin_does_not_keep_others_from_it(journal: Journal) -> None:
    first, second = journal.connect(), journal.connect()
    first.execute("set default_transaction_read_only = on")
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
        begin_base(first, journal.place, "A", Position(1, 1))
    assert begin_base(second, journal.place, "B", Position(1, 1)) is not None


@pytest.mark.parametrize(
    ("record", "dropped"),
    [
        (1, []),
        (3, []),  # the last record of segment 1, whose epoch is checked later
        (4, [1]),
        (6, [1]),
        (7, [1, 2]),
        (9, [1, 2]),
        (10, [1, 2, 3]),
    ],
)
def test_trim_drops_the_segments_before_the_one_of_the_base(
    journal: Journal, tmp_path: Path, record: int, dropped: list[int]
) -> None:
    write_segments(journal)
    make(journal, record)
    assert trim(journal.admin, journal.place) == dropped
    left = [number for number in (1, 2, 3, 4) if number not in dropped]
    assert segments(journal.admin, journal.place) == left
    check_followable(journal, tmp_path / "base")
    assert trim(journal.admin, journal.place) == []


def test_trim_keeps_an_empty_last_segment_and_the_one_before(
    journal: Journal, tmp_path: Path
) -> None:
    journal.write(1, [1, 2])
    journal.create(2)
    make(journal, 2)
    assert trim(journal.admin, journal.place) == []
    check_followable(journal, tmp_path / "base")


def check_trim_during_an_upload(journal: Journal, path: Path) -> None:
    """Checks that the log is kept until the base of its last record is complete."""
    write_segments(journal)
    make(journal, 4)
    connection = journal.connect()
    number = begin_base(connection, journal.place, "A", Position(10, 1))
    assert number is not None

    def pieces() -> Iterator[bytes]:
        for piece in (b"one", b"two"):
            trim(journal.admin, journal.place)
            check_followable(journal, path)
            yield piece

    write_base(connection, journal.place, number, pieces())
    assert trim(journal.admin, journal.place) == [2, 3]
    check_followable(journal, path)


def test_trim_ignores_a_base_that_is_not_complete(journal: Journal, tmp_path: Path) -> None:
    check_trim_during_an_upload(journal, tmp_path / "base")


def test_check_finds_a_trim_before_the_base_is_complete(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "newest_base", newest_begun)
    with pytest.raises((LogShort, LogTrimmed)):
        check_trim_during_an_upload(journal, tmp_path / "base")


def newest_begun(connection: psycopg.Connection, place: Place) -> Base | None:
    """Returns the newest base, even if it is not complete."""
    row = connection.execute(
        "select number, record, epoch from qmgrd.base where manager = %s "
        "order by record desc limit 1",
        (place.manager,),
    ).fetchone()
    return None if row is None else Base(row[0], Position(row[1], row[2]), 0, b"")


def test_trim_removes_older_bases_and_their_tables(journal: Journal) -> None:
    make(journal, 1)
    make(journal, 5)
    last = make(journal, 5)
    trim(journal.admin, journal.place)
    assert rows(journal) == [last]
    assert tables(journal) == [f"base_{journal.place.manager}_{last}"]
    older = make(journal, 4)  # of a member that was behind
    assert newest(journal).number == last
    trim(journal.admin, journal.place)
    assert older not in rows(journal)


def test_trim_keeps_a_base_that_becomes_complete_meanwhile(
    journal: Journal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another member completes a base and trims, after this one has found the newest base."""
    write_segments(journal)
    make(journal, 4)
    find: Callable[..., Base | None] = bases.newest_base

    def late(connection: psycopg.Connection, place: Place) -> Base | None:
        found = find(connection, place)
        monkeypatch.setattr(bases, "newest_base", find)
        make(journal, 10)
        trim(journal.connect(), journal.place)
        return found

    monkeypatch.setattr(bases, "newest_base", late)
    trim(journal.admin, journal.place)
    assert newest(journal).position.number == 10
    check_followable(journal, tmp_path / "base")


async def test_reader_of_an_old_segment_delays_its_drop_but_no_append(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "DROP_WAIT_MS", 100)
    async with leading(journal) as leader:
        write_segments(journal)
        leader.appender._segment = leader.appender._segment._replace(number=4)
        make(journal, 10)
        backup = journal.connect()
        backup.execute("begin")
        backup.execute(f"select count(*) from {journal.place.segment(2)}")
        assert trim(journal.admin, journal.place) == [1]
        await leader.append(11)
        assert trim(journal.admin, journal.place) == []
        backup.execute("commit")
        assert trim(journal.admin, journal.place) == [2, 3]
        await leader.append(12)


def test_reader_of_an_old_base_delays_its_removal_but_no_segment(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bases, "DROP_WAIT_MS", 100)
    write_segments(journal)
    first, last = make(journal, 3), make(journal, 10)
    rebuilding = journal.connect()
    rebuilding.execute("begin")
    rebuilding.execute(f"select count(*) from {journal.place.base(first)}")
    assert trim(journal.admin, journal.place) == [1, 2, 3]
    assert rows(journal) == [first, last]
    rebuilding.execute("commit")
    trim(journal.admin, journal.place)
    assert rows(journal) == [last]


def test_size_of_the_log_is_that_of_its_segments(journal: Journal) -> None:
    assert log_bytes(journal.admin, journal.place) == 0
    journal.write(1, [1], size=1 << 20)
    one = log_bytes(journal.admin, journal.place)
    assert one > 1 << 20
    journal.write(2, [2], size=1 << 20)
    assert log_bytes(journal.admin, journal.place) == 2 * one
    make(journal, 2)
    trim(journal.admin, journal.place)
    assert log_bytes(journal.admin, journal.place) == one


def test_segment_that_is_dropped_meanwhile_has_no_size(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.create(1)
    monkeypatch.setattr(bases, "segments", lambda connection, place: [1, 2])
    assert log_bytes(journal.admin, journal.place) > 0
