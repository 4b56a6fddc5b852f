"""Tests of the fence: at most one member appends, whatever the order of the statements."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from threading import Timer

import psycopg
import pytest

from qmgrd.engine import fence as fences
from qmgrd.engine.fence import unlock
from qmgrd.engine.server import ServerUnusable, connect
from tests.postgres import Postgres
from tests.qmgrd.engine.journals import Journal, end_session, wait_until_blocked

INSERT = (
    "insert into {table} (record, epoch, content) select %s, epoch, '' from qmgrd.manager "
    "where number = {manager} and epoch = {epoch} for share"
)


def append(journal: Journal, connection: psycopg.Connection, epoch: int, number: int) -> int:
    """Appends a record under the fence. Returns the number of rows."""
    place = journal.place
    insert = INSERT.format(table=place.segment(1), manager=place.manager, epoch=epoch)
    return connection.execute(insert.encode(), (number,)).rowcount


def test_new_journal_has_no_active_member(journal: Journal) -> None:
    found = journal.fence()
    assert (found.epoch, found.member, found.is_held) == (0, "", False)


def test_claim_raises_the_epoch_and_holds_the_lock(journal: Journal) -> None:
    for epoch, member in enumerate(("A", "B"), 1):
        journal.change("wanted = 'B'")
        before = journal.fence()
        connection, claimed = journal.claim(member, before)
        assert claimed is not None
        assert claimed.epoch == epoch
        found = journal.fence()
        assert found[:3] == (epoch, member, f"{member}:7470")
        assert (found.why, found.wanted, found.is_held) == ("a test", "", True)
        assert before.now_us <= found.since_us <= claimed.now_us <= found.now_us
        end_session(journal, connection.info.backend_pid)
        assert not journal.fence().is_held, "the lock must end with its session"
        assert journal.fence().epoch == epoch


def test_second_claim_of_the_same_fence_is_refused(journal: Journal) -> None:
    seen = journal.fence()
    journal.take("A")
    for is_forced in (False, True):
        _, claimed = journal.claim("B", seen, is_forced=is_forced)
        assert claimed is None
        assert journal.fence()[:2] == (1, "A")
        assert journal.fence().is_held, "the session of the winner must not be ended"


def test_member_that_was_too_late_does_not_keep_the_lock(journal: Journal) -> None:
    seen = journal.fence()
    taken = journal.take("A")
    end_session(journal, taken.connection.info.backend_pid)
    _, claimed = journal.claim("B", seen)
    assert claimed is None
    assert not journal.fence().is_held


def test_forced_claim_ends_the_old_session_and_holds_the_lock(journal: Journal) -> None:
    """The old session does not end at once."""
    old = journal.take("A")
    pid = old.connection.info.backend_pid
    os.kill(pid, signal.SIGSTOP)
    going_on = Timer(0.3, os.kill, (pid, signal.SIGCONT))
    going_on.start()
    new = journal.take("B", is_forced=True)
    going_on.join()
    assert new.epoch == old.epoch + 1
    with pytest.raises(psycopg.OperationalError):
        old.connection.execute("select 1")
    assert journal.holder() == new.connection.info.backend_pid


def test_forced_claim_ends_no_session_of_another_database_or_manager(
    postgres: Postgres, journal_url: str
) -> None:
    url = postgres.create_database()
    journal, elsewhere, other = Journal(journal_url), Journal(url), Journal(journal_url, "OTHER")
    assert elsewhere.place.manager == journal.place.manager
    bystanders = elsewhere.take("A"), other.take("A")
    journal.take("A")
    journal.take("B", is_forced=True)
    for taken in bystanders:
        taken.connection.execute("select 1")
    for one in (journal, elsewhere, other):
        one.close()
    postgres.drop_database(url)


def test_forced_claim_without_the_right_to_end_sessions_still_fences(journal: Journal) -> None:
    old = journal.take("A")  # of a superuser
    journal.admin.execute(
        "create role weak login; grant usage on schema qmgrd to weak; "
        "grant all on all tables in schema qmgrd to weak"
    )
    try:
        with closing(connect(journal.url.replace("postgres@", "weak@"), "test")) as weak:
            claimed = fences.claim(
                weak, journal.place, journal.fence(), "B", "", "", is_forced=True
            )
        assert claimed is not None
        assert append(journal, old.connection, old.epoch, 1) == 0
    finally:
        journal.admin.execute("drop owned by weak; drop role weak")


def test_forced_claim_is_not_blocked_by_a_session_that_hangs_in_a_transaction(
    journal: Journal,
) -> None:
    old = journal.take("A")
    old.connection.execute("begin")
    assert append(journal, old.connection, old.epoch, 1) == 1
    assert journal.take("B", is_forced=True).epoch == 2
    assert journal.records() == []


def test_claim_waits_for_the_record_on_its_way(journal: Journal) -> None:
    old = journal.take("A")
    unlock(old.connection)  # The sign may be lost before the session.
    old.connection.execute("begin")
    assert append(journal, old.connection, old.epoch, 1) == 1
    new, seen = journal.connect(), journal.fence()
    with ThreadPoolExecutor(1) as thread:
        claiming = thread.submit(
            fences.claim, new, journal.place, seen, "B", "", "", is_forced=False
        )
        wait_until_blocked(journal, new.info.backend_pid)
        old.connection.execute("commit")
        claimed = claiming.result()
    assert claimed is not None
    assert [record.number for record in journal.records()] == [1]
    assert append(journal, old.connection, old.epoch, 2) == 0


def test_record_that_waits_for_a_claim_is_not_appended(journal: Journal) -> None:
    old = journal.take("A")
    new = journal.connect()
    new.execute("begin")
    new.execute(
        "update qmgrd.manager set epoch = epoch + 1 where number = %s", (journal.place.manager,)
    )
    with ThreadPoolExecutor(1) as thread:
        appending = thread.submit(append, journal, old.connection, old.epoch, 1)
        wait_until_blocked(journal, old.connection.info.backend_pid)
        new.execute("commit")
        assert appending.result() == 0
    assert journal.records() == []


def test_claim_gives_up_if_a_transaction_does_not_end(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fences, "CLAIM_WAIT_MS", 50)
    old = journal.take("A")
    unlock(old.connection)
    old.connection.execute("begin")
    append(journal, old.connection, old.epoch, 1)
    with pytest.raises(psycopg.errors.LockNotAvailable):
        journal.claim("B")
    old.connection.execute("commit")
    journal.take("C", is_forced=True)


def test_deleted_manager_is_for_an_operator(journal: Journal) -> None:
    journal.admin.execute("delete from qmgrd.manager where number = %s", (journal.place.manager,))
    with pytest.raises(ServerUnusable, match=r"deleted from the table qmgrd\.manager"):
        journal.fence()


def test_many_members_never_share_an_epoch(journal: Journal) -> None:
    """All claim at the same time, some of them by force."""
    epochs: list[int] = []

    def rival(number: int) -> None:
        for _ in range(5):
            seen = fences.read_fence(sessions[number], journal.place)
            try:
                claimed = fences.claim(
                    sessions[number], journal.place, seen, "", "", "", is_forced=number == 0
                )
            except psycopg.OperationalError:
                return  # A rival ended this session.
            if claimed is not None:
                epochs.append(claimed.epoch)
                fences.unlock(sessions[number])

    sessions = [journal.connect() for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(rival, range(4)))
    assert sorted(epochs) == list(range(1, len(epochs) + 1))
    assert epochs


def test_epoch_that_a_failover_lost_is_not_given_again(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The chance that two claims after the same epoch get the same one is one in a million."""
    monkeypatch.setattr(fences, "EPOCH_STEPS", 1_000_000)
    lost = journal.take("A").epoch
    journal.change("epoch = 0")
    journal.close()
    again = Journal(journal.url, journal.name)
    assert again.take("B", is_forced=True).epoch != lost
    again.close()


def test_member_that_steps_down_is_named_in_the_reason(journal: Journal) -> None:
    taken = journal.take("A")
    fences.resign(taken.connection, journal.place, taken.epoch - 1, "of an older epoch")
    assert journal.fence().member == "A"
    fences.resign(taken.connection, journal.place, taken.epoch, "A stopped")
    assert (journal.fence().member, journal.fence().why) == ("", "A stopped")
