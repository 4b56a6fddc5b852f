"""Tests of the reader of a log: it returns each record once and in order, and skips none."""

from collections.abc import Iterator

import psycopg
import pytest

from qmgrd.engine import reader as readers
from qmgrd.engine.reader import LogReader, LogShort, LogTrimmed
from qmgrd.engine.schema import Place, segments
from qmgrd.engine.server import ServerAway
from qmgrd.store.log import Position, Record
from tests.postgres import Postgres
from tests.qmgrd.engine.journals import Journal, content_of, end_session

START = Position(0, 0)


@pytest.fixture
def reader(journal: Journal) -> Iterator[LogReader]:
    found = LogReader(journal.url, journal.place, "standby")
    yield found
    found.close()


def read(reader: LogReader, position: Position = START) -> list[int]:
    """Returns the numbers of all records after *position*, read as a standby does."""
    found: list[int] = []
    while not (news := reader.look(position)).is_end:
        for record in news.records:
            assert record.number == position.number + 1, "a record was skipped"
            assert record.content == content_of(record.number, len(record.content))
            position = Position(record.number, record.epoch)
            found.append(record.number)
    return found


def test_new_log_is_empty(journal: Journal, reader: LogReader) -> None:
    news = reader.look(START)
    assert (news.records, news.at_us, news.is_end) == ([], 0, True)
    assert news.fence.epoch == 0
    journal.create(1)
    assert reader.look(START).is_end
    journal.write(1, [1])
    assert read(reader) == [1]


def test_records_are_read_across_segments(journal: Journal, reader: LogReader) -> None:
    journal.write(1, range(1, 4))
    journal.write(2, range(4, 6))
    journal.create(3)  # without records, after a lost member
    journal.write(10, range(6, 9))
    for start in range(9):
        fresh = LogReader(journal.url, journal.place, "standby")
        assert read(fresh, Position(start, 1)) == list(range(start + 1, 9))
        fresh.close()
    assert read(reader) == list(range(1, 9))
    journal.write(10, [9])
    journal.write(11, [10])
    assert read(reader, Position(8, 1)) == [9, 10]


def test_record_has_its_epoch_content_and_time(journal: Journal, reader: LogReader) -> None:
    before = journal.fence().now_us
    journal.write(1, [1], epoch=7)
    news = reader.look(START)
    assert news.records == [Record(1, 7, content_of(1))]
    assert before <= news.at_us <= news.fence.now_us


def test_look_returns_up_to_a_limit_of_bytes_and_one_record(
    journal: Journal, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "READ_MAX_BYTES", 10_000)
    journal.write(1, range(1, 11), size=3_000)
    assert len(reader.look(START).records) == 4
    journal.write(2, [11], size=1 << 20)
    assert [record.number for record in reader.look(Position(10, 1)).records] == [11]
    assert read(reader) == list(range(1, 12))


def test_look_returns_up_to_a_limit_of_records(
    journal: Journal, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readers, "READ_MAX_RECORDS", 3)
    journal.write(1, range(1, 8), size=0)
    assert len(reader.look(START).records) == 3
    assert read(reader) == list(range(1, 8))


def test_position_may_go_back(journal: Journal, reader: LogReader) -> None:
    """The store discards turns that are not in the log."""
    journal.write(1, range(1, 4))
    journal.write(2, range(4, 6))
    assert read(reader) == [1, 2, 3, 4, 5]
    assert read(reader, Position(2, 1)) == [3, 4, 5]


@pytest.mark.parametrize("missing", [2, 3, 4, 5])
@pytest.mark.parametrize("start", [0, 1])
def test_gap_is_never_skipped(
    journal: Journal, reader: LogReader, missing: int, start: int
) -> None:
    """Segment 1 ends with record 3, and record 5 is the only one of segment 3."""
    for segment, numbers in ((1, (1, 2, 3)), (2, (4,)), (3, (5,)), (4, (6,))):
        journal.write(segment, [number for number in numbers if number != missing])
    with pytest.raises(LogShort, match=f"not record {missing}"):
        read(reader, Position(start, start))


def test_record_that_arrives_between_two_queries_is_no_gap(
    journal: Journal, reader: LogReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Segment 1 is read without record 2, then record 2 and segment 2 with record 3 arrive."""
    journal.write(1, [1])
    position = Position(1, 1)
    assert reader.look(position).is_end

    def late(connection: psycopg.Connection, place: Place) -> list[int]:
        monkeypatch.setattr(readers, "segments", segments)
        journal.write(1, [2])
        journal.write(2, [3])
        return segments(connection, place)

    monkeypatch.setattr(readers, "segments", late)
    assert read(reader, position) == [2, 3]


def add_base(journal: Journal, record: int) -> None:
    """Adds the row of a complete base."""
    journal.admin.execute(
        "insert into qmgrd.base (manager, record, epoch, size_bytes, sha256, member) "
        "values (%s, %s, 1, 0, '', '')",
        (journal.place.manager, record),
    )


def test_log_that_was_trimmed_needs_a_base(journal: Journal, reader: LogReader) -> None:
    journal.write(2, range(4, 6))
    for position in (START, Position(3, 1)):
        with pytest.raises(LogShort, match="no base is between them: the log was damaged"):
            reader.look(position)
    add_base(journal, 4)
    for position in (START, Position(2, 1)):
        with pytest.raises(LogTrimmed, match=f"begins with record 4, but .* {position.number}"):
            reader.look(position)
    with pytest.raises(LogTrimmed):  # The epoch of record 3 cannot be checked.
        reader.look(Position(3, 1))
    assert read(reader, Position(4, 1)) == [5]


def test_segment_that_is_dropped_while_it_is_read_needs_a_base(
    journal: Journal, reader: LogReader
) -> None:
    journal.write(1, range(1, 4))
    journal.write(2, range(4, 6))
    assert reader.look(Position(1, 1)).records
    add_base(journal, 4)
    journal.admin.execute(f"drop table {journal.place.segment(1)}")
    with pytest.raises(ServerAway):
        reader.look(Position(3, 1))
    with pytest.raises(LogTrimmed):
        reader.look(Position(3, 1))


def test_log_that_is_shorter_than_the_store_is_refused(journal: Journal, reader: LogReader) -> None:
    with pytest.raises(LogShort, match="the log is empty, but the store has record 2"):
        reader.look(Position(2, 1))
    journal.write(1, [1])
    with pytest.raises(LogShort, match="ends with record 1, but the store has record 2"):
        reader.look(Position(2, 1))


def test_log_with_another_record_at_the_position_is_refused(
    journal: Journal, reader: LogReader
) -> None:
    journal.write(1, [1, 2], epoch=3)
    journal.write(2, [3, 4], epoch=4)
    for number in (2, 3, 4):
        with pytest.raises(LogShort, match=f"record {number} of the log is of epoch"):
            reader.look(Position(number, 2))


def test_log_without_the_record_at_the_position_is_refused(
    journal: Journal, reader: LogReader
) -> None:
    journal.write(1, [1, 3])
    with pytest.raises(LogShort, match="record 2 of the log is of epoch 0"):
        reader.look(Position(2, 1))


def test_lost_connection_is_replaced_at_the_next_look(journal: Journal, reader: LogReader) -> None:
    journal.write(1, [1])
    assert read(reader) == [1]
    for pid in journal.sessions("standby"):
        end_session(journal, pid)
    with pytest.raises(ServerAway):
        reader.look(Position(1, 1))
    journal.write(1, [2])
    assert read(reader, Position(1, 1)) == [2]


def test_reader_goes_on_after_a_restart_of_the_server(
    own_postgres: Postgres, own_journal: Journal
) -> None:
    own_journal.write(1, [1, 2])
    reader = LogReader(own_journal.url, own_journal.place, "standby")
    assert read(reader) == [1, 2]
    own_postgres.stop()
    for _ in range(2):
        with pytest.raises(ServerAway):
            reader.look(Position(2, 1))
    own_postgres.start()
    assert read(reader, Position(1, 1)) == [2]
    reader.close()
