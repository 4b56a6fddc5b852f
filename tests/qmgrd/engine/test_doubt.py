"""Tests of the question that an active member asks after a lost answer."""

import psycopg
import pytest

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.engine.doubt import Doubt, ask
from qmgrd.engine.schema import segments
from qmgrd.engine.server import ServerAway, ServerUnusable
from qmgrd.store.log import Fenced, Record
from tests.qmgrd.engine.journals import Journal, Taken, content_of, end_session


def doubt_of(journal: Journal, taken: Taken, number: int, last: int, segment: int = 1) -> Doubt:
    record = Record(number, taken.epoch, content_of(number)) if number else None
    pid = taken.connection.info.backend_pid
    return Doubt(journal.place, taken.epoch, pid, segment, last, record)


def answer(journal: Journal, doubt: Doubt) -> bool:
    connection, has_record = ask(journal.url, doubt)
    assert journal.holder() == connection.info.backend_pid
    connection.close()
    return has_record


def test_record_in_the_log_is_found(journal: Journal) -> None:
    taken = journal.take("A")
    journal.write(1, [1, 2], taken.epoch)
    assert answer(journal, doubt_of(journal, taken, 2, 1))
    with pytest.raises(psycopg.OperationalError):
        taken.connection.execute("select 1")


def test_record_that_the_log_lacks_must_be_sent_again(journal: Journal) -> None:
    taken = journal.take("A")
    assert not answer(journal, doubt_of(journal, taken, 1, 0))
    journal.write(1, [1, 2], taken.epoch)
    assert not answer(journal, doubt_of(journal, taken, 3, 2))
    assert not answer(journal, doubt_of(journal, taken, 0, 2))


def test_record_in_an_open_transaction_of_the_old_session_is_not_taken_for_lost(
    journal: Journal,
) -> None:
    """The old session ends first, so nothing can change after the answer."""
    taken = journal.take("A")
    taken.connection.execute("begin")
    taken.connection.execute(
        f"insert into {journal.place.segment(1)} (record, epoch, content) values (1, 1, '')"
    )
    assert not answer(journal, doubt_of(journal, taken, 1, 0))
    with pytest.raises(psycopg.OperationalError):
        taken.connection.execute("commit")
    assert journal.records() == []


def test_only_the_own_session_is_ended(journal: Journal) -> None:
    taken = journal.take("A")
    doubt = doubt_of(journal, taken, 1, 0)._replace(session=0)
    connection, _ = ask(journal.url, doubt)
    assert journal.holder() == taken.connection.info.backend_pid
    connection.close()


def test_missing_segment_is_created_if_nothing_was_lost(journal: Journal) -> None:
    taken = journal.take("A")
    journal.write(1, [1, 2], taken.epoch)
    assert not answer(journal, doubt_of(journal, taken, 3, 2, segment=2))
    assert segments(journal.admin, journal.place) == [1, 2]


@pytest.mark.parametrize("segment", [1, 2, 3])
def test_log_without_a_confirmed_record_is_not_continued(journal: Journal, segment: int) -> None:
    taken = journal.take("A")
    journal.write(1, [1, 2], taken.epoch)
    journal.create(2)
    with pytest.raises(StoreFailed, match=r"ends with record 2, .* confirmed record 3"):
        ask(journal.url, doubt_of(journal, taken, 4, 3, segment))
    assert segments(journal.admin, journal.place) == [1, 2]


def test_other_content_or_epoch_at_the_record_is_not_taken_for_ours(journal: Journal) -> None:
    taken = journal.take("A")
    journal.write(1, [1], taken.epoch, size=4)
    journal.write(1, [2], taken.epoch - 1)
    for number in (1, 2):
        with pytest.raises(StoreFailed, match=f"record {number} of the log is not the one"):
            ask(journal.url, doubt_of(journal, taken, number, number - 1))


def test_record_of_a_later_member_fences(journal: Journal) -> None:
    """The takeover came after the fence was read."""
    taken = journal.take("A")
    journal.write(1, [1], taken.epoch + 1)
    with pytest.raises(Fenced, match="has appended record 1"):
        ask(journal.url, doubt_of(journal, taken, 1, 0))


def test_member_is_fenced_and_does_not_take_the_lock(journal: Journal) -> None:
    taken = journal.take("A")
    doubt = doubt_of(journal, taken, 1, 0)
    end_session(journal, doubt.session)
    journal.change("epoch = epoch + 1, member = 'B', why = 'A was silent'")
    with pytest.raises(Fenced, match="B is active since it took over: A was silent"):
        ask(journal.url, doubt)
    assert journal.holder() is None


def test_server_that_cannot_be_asked_leaves_the_doubt(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = journal.take("A")
    doubt = doubt_of(journal, taken, 1, 0)
    with pytest.raises(ServerUnusable):
        ask(f"{journal.url}x", doubt)
    journal.admin.execute(f"drop table {journal.place.segment(1)}")
    journal.admin.execute(f"create view {journal.place.segment(1)} as select 1")
    with pytest.raises(ServerAway):  # It cannot create the segment.
        ask(journal.url, doubt._replace(record=Record(1, taken.epoch, b"")))
    journal.admin.execute(f"drop view {journal.place.segment(1)}")
