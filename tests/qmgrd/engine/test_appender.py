"""Tests of the appender: each record is in the log exactly once, and lands exactly once."""

import asyncio
import os
import resource
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing
from random import Random
from threading import Event
from threading import enumerate as enumerate_threads

import psycopg
import pytest

from qmgrd.core.layout.kv import StoreFailed
from qmgrd.engine import appender as appenders
from qmgrd.engine.appender import ROW_BYTES, Appender
from qmgrd.engine.doubt import Doubt, ask
from qmgrd.engine.fence import lock, take_lock
from qmgrd.engine.schema import segments
from qmgrd.store.log import Fenced
from tests.postgres import Postgres
from tests.qmgrd.engine.cutter import Cutter, Way
from tests.qmgrd.engine.journals import Journal, content_of, end_session
from tests.qmgrd.engine.leading import Leader, leading

LARGE_BYTES = 5 << 20  # more than the buffers of a socket
SEGMENT = 1_000
# The answer to an insert has 32 bytes, and the statement of a small record about 80.
CUTS_BACK, CUTS_FORTH = 34, 90


def port_of(journal: Journal) -> int:
    return journal.admin.info.port


def raise_epoch(journal: Journal) -> None:
    journal.change("epoch = epoch + 1, member = 'B', why = 'A was silent'")


def block(journal: Journal) -> None:
    """Lets each append wait until the transaction of the admin ends."""
    journal.admin.execute("begin")
    journal.change("why = why")


def create_trigger(journal: Journal, segment: int, body: str) -> None:
    """Runs *body* before each insert into a segment."""
    table = journal.place.segment(segment)
    journal.admin.execute(
        f"create sequence {table}_tries; create function {table}_fail() returns trigger "
        f"language plpgsql as $$ begin perform nextval('{table}_tries'); {body}; end $$; "
        f"create trigger fail before insert on {table} for each row "
        f"execute function {table}_fail()"
    )


def tries(journal: Journal) -> int:
    """Returns the number of calls of the trigger. A sequence is not rolled back."""
    rows = journal.admin.execute(f"select last_value from {journal.place.segment(1)}_tries")
    return int((rows.fetchone() or (0,))[0])


def waiting(journal: Journal) -> list[int]:
    """Returns the processes of the sessions that wait for a replica."""
    rows = journal.admin.execute("select pid from pg_stat_activity where wait_event = 'SyncRep'")
    return [pid for (pid,) in rows]


async def test_records_land_in_order(journal: Journal) -> None:
    async with leading(journal) as leader:
        await leader.append(*range(1, 21))
        leader.check(*range(1, 21))
        assert {record.epoch for record in journal.records()} == {leader.epoch}
        assert leader.appender.away_s == 0
    await leader.until(lambda: not journal.fence().is_held)


async def test_record_of_many_packets_lands(journal: Journal) -> None:
    async with leading(journal) as leader:
        started = time.monotonic()
        leader.appender.send(1, content_of(1, LARGE_BYTES))
        assert time.monotonic() - started < 5, "sending must not wait for the server"
        assert await leader.result(1) is None
        leader.check(1, size=LARGE_BYTES)
        leader.appender.send(2, b"")
        assert await leader.result(2) is None


async def test_segment_begins_when_the_last_one_is_full(journal: Journal) -> None:
    size = SEGMENT // 2 - ROW_BYTES
    async with leading(journal, segment_bytes=SEGMENT) as leader:
        await leader.append(*range(1, 8), size=size)
        leader.check(*range(1, 8), size=size)
    assert segments(journal.admin, journal.place) == [1, 2, 3, 4]


async def test_empty_records_fill_a_segment_too(journal: Journal) -> None:
    """An idle member appends many of them."""
    async with leading(journal, segment_bytes=SEGMENT) as leader:
        await leader.append(*range(1, 2 * SEGMENT // ROW_BYTES), size=0)
    assert len(segments(journal.admin, journal.place)) > 1


async def test_segment_of_a_lost_member_is_used(journal: Journal) -> None:
    journal.create(1, 2)
    async with leading(journal, segment_bytes=SEGMENT) as leader:
        leader.appender._segment = leader.appender._segment._replace(
            number=1, content_bytes=SEGMENT
        )
        await leader.append(1)
    assert segments(journal.admin, journal.place) == [1, 2]


async def test_session_that_ended_while_idle_is_replaced(journal: Journal) -> None:
    async with leading(journal) as leader:
        for number in (1, 2, 3):
            await leader.append(number)
            pid = journal.holder()
            assert pid is not None
            end_session(journal, pid)
            if number == 2:  # Without a record, too.
                await leader.until(journal.holder)
        await leader.append(4)
        leader.check(1, 2, 3, 4)


async def test_session_that_ends_during_the_statement_is_replaced(journal: Journal) -> None:
    async with leading(journal) as leader:
        await leader.append(1)
        block(journal)
        leader.appender.send(2, content_of(2))
        pid = await leader.blocked()
        assert leader.appender.away_s > 0, "a server that does not answer is away"
        journal.admin.execute("select pg_terminate_backend(%s)", (pid,))
        await leader.until(lambda: leader.appender.trouble)
        journal.admin.execute("commit")
        assert await leader.result(2) is None
        assert leader.appender.trouble == ""
        leader.check(1, 2)


@pytest.mark.parametrize("way", [Way.BACK, Way.FORTH])
async def test_record_is_appended_once_wherever_the_connection_is_cut(
    journal: Journal, way: Way
) -> None:
    last = CUTS_BACK if way is Way.BACK else CUTS_FORTH
    with Cutter(port_of(journal)) as cutter:
        async with leading(journal, cutter.url(journal.url)) as leader:
            await leader.append(1)
            for count in range(last):
                cutter.cut_after(way, count)
                await leader.append(2 * count + 2)
                await leader.append(2 * count + 3)  # on a connection that was not cut
            leader.check(*range(1, 2 * last + 2))
        assert cutter.cuts > 30


@pytest.mark.parametrize("count", [0, 10, 40, 200, 400])
async def test_segment_begins_once_wherever_the_connection_is_cut(
    journal: Journal, count: int
) -> None:
    with Cutter(port_of(journal)) as cutter:
        async with leading(journal, cutter.url(journal.url), segment_bytes=SEGMENT) as leader:
            await leader.append(1, size=SEGMENT)
            for number, way in enumerate(Way, 2):
                cutter.cut_after(way, count)
                await leader.append(number, size=SEGMENT)
            leader.check(1, 2, 3, size=SEGMENT)
    assert segments(journal.admin, journal.place) == [1, 2, 3]


async def test_session_that_ends_after_a_lost_answer_is_replaced(journal: Journal) -> None:
    """The end of a session must not be read as the lost answer."""
    with Cutter(port_of(journal)) as cutter:
        async with leading(journal, cutter.url(journal.url)) as leader:
            await leader.append(1)
            cutter.cut_after(Way.BACK, 0)
            await leader.append(2)
            pid = journal.holder()
            assert pid is not None
            end_session(journal, pid)
            await leader.until(lambda: journal.holder() not in (None, pid))
            await leader.append(3)
            leader.check(1, 2, 3)
        assert cutter.cuts == 1


async def test_session_that_the_network_hides_loses_the_lock(journal: Journal) -> None:
    """Otherwise its late end would look like the end of the active member."""
    with Cutter(port_of(journal)) as cutter:
        async with leading(journal, cutter.url(journal.url)) as leader:
            await leader.append(1)
            pid = journal.holder()
            cutter.cut_after(Way.BACK, 0, keeps_server=True)
            await leader.append(2, 3)
            assert journal.holder() not in (None, pid)
            leader.check(1, 2, 3)


async def test_lock_is_taken_when_it_becomes_free(journal: Journal) -> None:
    async with leading(journal) as leader:
        other = journal.connect()
        take_lock(other, journal.place, leader.epoch)
        await leader.append(1, 2)
        assert journal.holder() == other.info.backend_pid
        end_session(journal, other.info.backend_pid)
        await leader.append(3)
        assert journal.holder() is not None
        leader.check(1, 2, 3)


async def test_record_lands_after_a_crash_of_the_server(
    own_postgres: Postgres, own_journal: Journal
) -> None:
    async with leading(own_journal) as leader:
        await leader.append(1)
        block(own_journal)
        leader.appender.send(2, content_of(2))
        await leader.blocked()
        own_postgres.kill()
        await leader.until(lambda: leader.appender.away_s > 0.5)
        assert "away" in leader.appender.trouble
        assert leader.results == [None]
        own_postgres.start()
        assert await leader.result(2) is None
        own_journal.admin = own_journal.connect()
        leader.check(1, 2)


@pytest.mark.parametrize("body", ["raise exception 'disk is full'", "return null"])
async def test_refused_record_is_retried_with_growing_pauses(journal: Journal, body: str) -> None:
    async with leading(journal) as leader:
        await leader.append(1)
        create_trigger(journal, 1, body)
        leader.appender.send(2, content_of(2))
        await leader.until(lambda: leader.appender.away_s > 0.6)
        assert tries(journal) in range(2, 7), "the first pauses are 0, 0.1, 0.2 and 0.4 s"
        if "full" in body:
            assert "disk is full" in leader.appender.trouble
        journal.admin.execute(f"drop trigger fail on {journal.place.segment(1)}")
        assert await leader.result(2) is None
        leader.check(1, 2)
        assert leader.appender.away_s == 0


async def check_fenced_append(journal: Journal) -> None:
    """Checks that a record that waits for a takeover is not appended."""
    async with leading(journal) as leader:
        await leader.append(1)
        journal.admin.execute("begin")
        raise_epoch(journal)
        leader.appender.send(2, content_of(2))
        await leader.blocked()
        journal.admin.execute("commit")
        error = await leader.result(2)
        leader.check(1)
        assert isinstance(error, Fenced)
        assert "B is active since it took over: A was silent" in str(error)
        await asyncio.sleep(0.3)  # longer than the first pauses
        await leader.result(2)


async def test_record_that_waits_for_a_takeover_is_fenced(journal: Journal) -> None:
    await check_fenced_append(journal)


async def test_check_finds_an_append_without_a_fence(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unfenced(self: Appender) -> bytes:
        epoch = f"and epoch = {self._epoch} "
        assert epoch.encode() in fenced(self)
        return fenced(self).replace(epoch.encode(), b"")

    fenced = Appender._insert
    monkeypatch.setattr(Appender, "_insert", unfenced)
    with pytest.raises(AssertionError):
        await check_fenced_append(journal)


async def test_idle_member_whose_session_ended_learns_of_a_takeover_once(journal: Journal) -> None:
    async with leading(journal) as leader:
        await leader.append(1)
        raise_epoch(journal)
        pid = journal.holder()
        assert pid is not None
        end_session(journal, pid)
        assert isinstance(await leader.result(2), Fenced)
        await asyncio.sleep(0.3)  # longer than the first pauses
        await leader.result(2)
        assert journal.holder() is None, "a fenced member must not hold the lock"


async def fail(leader: Leader, number: int) -> str:
    """Ends the session, sends a record, and returns the error."""
    pid, count = leader.journal.holder(), len(leader.results) + 1
    assert pid is not None
    leader.journal.admin.execute("select pg_terminate_backend(%s)", (pid,))
    leader.appender.send(number, content_of(number))
    error = await leader.result(count)
    assert isinstance(error, StoreFailed)
    assert not isinstance(error, Fenced)
    return str(error)


async def test_log_that_lost_confirmed_records_is_not_continued(journal: Journal) -> None:
    async with leading(journal) as leader:
        await leader.append(1, 2)
        journal.admin.execute(f"truncate {journal.place.segment(1)}")
        assert "ends with record 0, but its server has confirmed record 2" in await fail(leader, 3)
        leader.check()


async def test_log_that_lost_the_end_of_the_previous_segment_is_not_continued(
    journal: Journal,
) -> None:
    async with leading(journal, segment_bytes=SEGMENT) as leader:
        await leader.append(1, 2, size=SEGMENT // 2)
        journal.create(2)
        create_trigger(journal, 2, "raise exception 'disk is full'")
        leader.appender.send(3, b"")
        await leader.until(lambda: leader.appender.trouble)
        journal.admin.execute(f"delete from {journal.place.segment(1)} where record = 2")
        assert "ends with record 1" in str(await leader.result(3))


async def test_log_that_lost_the_records_of_the_member_before_is_not_continued(
    journal: Journal,
) -> None:
    """The new member has appended nothing when the session ends."""
    journal.write(1, [1, 2, 3])
    async with leading(journal) as leader:
        journal.admin.execute(f"delete from {journal.place.segment(1)} where record = 3")
        pid = journal.holder()
        assert pid is not None
        end_session(journal, pid)
        await leader.until(lambda: journal.holder() not in (None, pid))
        leader.appender.send(4, b"")
        assert "ends with record 2" in str(await leader.result(1))


async def test_record_of_another_member_is_not_taken_for_ours(journal: Journal) -> None:
    async with leading(journal) as leader:
        journal.write(1, [1], epoch=leader.epoch)
        leader.appender.send(1, b"other")
        assert "record 1 of the log is not the one" in str(await leader.result(1))


async def test_wait_returns_after_the_record_landed(journal: Journal) -> None:
    async with leading(journal) as leader:
        for number in (1, 2, 3):
            leader.appender.send(number, content_of(number, LARGE_BYTES))
            leader.appender.wait()
            assert leader.results == [None] * number
        leader.appender.wait()
        leader.check(1, 2, 3, size=LARGE_BYTES)


async def test_wait_goes_on_after_a_restart_of_the_server(
    own_postgres: Postgres, own_journal: Journal
) -> None:
    async with leading(own_journal) as leader:
        await leader.append(1)
        block(own_journal)
        leader.appender.send(2, content_of(2))
        await leader.blocked()
        with ThreadPoolExecutor(1) as thread:
            restarting = thread.submit(own_postgres.restart)
            leader.appender.wait()
            restarting.result()
        assert leader.results == [None, None]
        await asyncio.sleep(0)
        own_journal.admin = own_journal.connect()
        await leader.append(3)
        leader.check(1, 2, 3)


async def test_wait_ends_in_time(journal: Journal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(appenders, "WAIT_MAX_S", 0.2)
    async with leading(journal) as leader:
        await leader.append(1)
        block(journal)
        leader.appender.send(2, content_of(2))
        with pytest.raises(StoreFailed, match="does not answer"):
            leader.appender.wait()
        assert leader.results == [None]
        journal.admin.execute("commit")


async def test_wait_raises_the_error_of_the_store(journal: Journal) -> None:
    async with leading(journal) as leader:
        raise_epoch(journal)
        leader.raises = True
        leader.appender.send(1, b"")
        with pytest.raises(Fenced):
            leader.appender.wait()
        await asyncio.sleep(0.3)  # longer than the first pauses
        assert len(leader.results) == 1


async def test_wait_works_with_more_than_a_thousand_open_files(journal: Journal) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4_096, hard), hard))
    files = [os.open(os.devnull, os.O_RDONLY) for _ in range(1_100)]
    try:
        async with leading(journal) as leader:
            leader.appender.send(1, content_of(1))
            leader.appender.wait()
            assert leader.results == [None]
    finally:
        for fd in files:
            os.close(fd)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("is_fenced", [False, True])
async def test_nothing_is_reported_after_close(
    journal: Journal, monkeypatch: pytest.MonkeyPatch, is_fenced: bool
) -> None:
    asked, may_answer = Event(), Event()
    connections: list[psycopg.Connection] = []

    def slow_ask(url: str, doubt: Doubt) -> tuple[psycopg.Connection, bool]:
        asked.set()
        may_answer.wait()
        connection, has_record = ask(url, doubt)
        connections.append(connection)
        return connection, has_record

    monkeypatch.setattr(appenders, "ask", slow_ask)
    async with leading(journal) as leader:
        await leader.append(1)
        pid = journal.holder()
        journal.admin.execute("select pg_terminate_backend(%s)", (pid,))
        leader.appender.send(2, b"")
        await leader.until(asked.is_set)
        if is_fenced:
            raise_epoch(journal)
        leader.appender.close()
        may_answer.set()
        leader.answer()
        await asyncio.sleep(0.05)
        assert leader.results == [None]
        assert len(connections) == (not is_fenced)
        assert all(connection.closed for connection in connections)


async def test_answer_that_arrived_before_close_is_not_reported(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    answered = Event()

    def noted_ask(url: str, doubt: Doubt) -> tuple[psycopg.Connection, bool]:
        answer = ask(url, doubt)
        answered.set()
        return answer

    monkeypatch.setattr(appenders, "ask", noted_ask)
    async with leading(journal) as leader:
        await leader.append(1)
        journal.admin.execute("select pg_terminate_backend(%s)", (journal.holder(),))
        leader.appender.send(2, b"")
        while not answered.is_set():
            if leader.appender._question is None:
                leader.appender._readable()  # The loop does not run meanwhile.
            time.sleep(0.005)
        leader.appender._question.result()  # type: ignore[union-attr]
        leader.appender.close()
        await asyncio.sleep(0.05)
        assert leader.results == [None]
        await leader.until(lambda: journal.holder() is None)


async def test_bug_of_the_other_thread_is_reported(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(url: str, doubt: Doubt) -> tuple[psycopg.Connection, bool]:
        raise ValueError("broken")

    monkeypatch.setattr(appenders, "ask", broken)
    async with leading(journal) as leader:
        await leader.append(1)
        assert "ValueError: broken" in await fail(leader, 2)


async def test_record_whose_wait_for_a_replica_was_interrupted_does_not_land(
    own_postgres: Postgres, own_journal: Journal
) -> None:
    """The server confirms such a record with a warning, though only one server has it."""

    def cancelled(pids: list[int]) -> bool:
        """Interrupts the next session that waits for a replica. Returns whether there was one."""
        found = waiting(own_journal)
        new = [pid for pid in found if pid not in pids]
        for pid in new:
            own_journal.admin.execute("select pg_cancel_backend(%s)", (pid,))
        pids += new
        return bool(new)

    async with leading(own_journal) as leader:
        await leader.append(1)
        own_postgres.alter_system("synchronous_standby_names", "missing")
        try:
            leader.appender.send(2, content_of(2))
            pids: list[int] = []
            await leader.until(lambda: cancelled(pids))  # the statement
            await leader.until(lambda: cancelled(pids))  # the question
            await leader.until(lambda: set(waiting(own_journal)) - set(pids))
            assert leader.results == [None]
            assert len(own_journal.records()) == 2
        finally:
            own_postgres.alter_system("synchronous_standby_names", "")
        assert await leader.result(2) is None
        leader.check(1, 2)


async def test_process_can_end_while_a_question_hangs(
    own_postgres: Postgres, own_journal: Journal
) -> None:
    threads = enumerate_threads()
    async with leading(own_journal) as leader:
        await leader.append(1)
        own_postgres.alter_system("synchronous_standby_names", "missing")
        try:
            leader.appender.send(2, content_of(2))
            await leader.until(lambda: waiting(own_journal))
            for pid in waiting(own_journal):
                own_journal.admin.execute("select pg_cancel_backend(%s)", (pid,))
            await leader.until(lambda: leader.appender._question)
            leader.appender.close()
            new = [thread for thread in enumerate_threads() if thread not in threads]
            assert new
            assert all(thread.daemon for thread in new)
        finally:
            own_postgres.alter_system("synchronous_standby_names", "")
        leader.answer()
        assert leader.results == [None]


async def test_lock_of_a_closed_appender_is_free(journal: Journal) -> None:
    async with leading(journal) as leader:
        await leader.append(1)
    with closing(journal.connect()) as connection:
        await leader.until(lambda: lock(connection, journal.place))


async def test_rivals_that_take_over_by_force_share_one_log(journal: Journal) -> None:
    """Each record that has landed is in the log, and the log has no gap."""
    landed: list[tuple[int, int]] = []
    chance = Random(7)
    leader: Leader | None = None
    async with AsyncExitStack() as stack:
        for _ in range(12):
            rival = await stack.enter_async_context(leading(journal, is_forced=leader is not None))
            end = max((record.number for record in journal.records()), default=0)
            for number in range(end + 1, end + chance.randrange(2, 6)):
                rival.appender.send(number, content_of(number))
                if leader is not None and not leader.is_fenced():
                    leader.appender.send(end + 1, b"late")
                    await leader.until(leader.is_fenced)
                assert await rival.result(number - end) is None
                landed.append((number, rival.epoch))
            leader = rival
        found = [(record.number, record.epoch) for record in journal.records()]
        assert found == landed
        assert [number for number, _ in found] == list(range(1, len(found) + 1))
