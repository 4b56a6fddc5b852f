"""Tests that planted bugs in units of work, failures, expiry and delays are found.

test_broken.py explains the method.
"""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context import eviction
from qmgrd.core.jobs import job, jobs
from qmgrd.core.jobs.due_work import DueWork
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.queue import lane, put, settle
from qmgrd.core.queue import seek as seek_
from qmgrd.core.queue import take as take_
from qmgrd.core.queue.group import follow as group_follow
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns import dead_letters, returns, transfer
from qmgrd.core.returns.returns import BACKED_OUT, Returns
from qmgrd.core.selector.selector import Selector
from qmgrd.core.sessions import streams
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.unit import SessionUnit
from qmgrd.core.sessions.units import Units
from tests.sim.broken import STEPS, Patch, assert_caught
from tests.sim.world import World

pytestmark = pytest.mark.long


def test_message_that_failed_too_often_is_delivered_again(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Returns, "_end_of", lambda self, bounds, entry, how: 0)
    assert_caught({"threshold_is_respected"})


def test_failure_is_not_counted(monkeypatch: Patch) -> None:
    come_back = settle.return_to_queue

    def forgiving(*arguments: Any, **terms: Any) -> Any:
        return come_back(*arguments, **terms | {"failed": False})

    monkeypatch.setattr(settle, "return_to_queue", forgiving)
    assert_caught({"failures_are_counted"}, first=15)


def test_message_is_a_dead_letter_one_failure_too_early(monkeypatch: Patch) -> None:
    end_of = Returns._end_of

    def hasty(self: Returns, bounds: Any, entry: Any, how: Any) -> int:
        return end_of(self, bounds, entry._replace(failed=entry.failed + 1), how)

    monkeypatch.setattr(Returns, "_end_of", hasty)
    assert_caught({"dead_letters_have_a_cause"})


def test_dead_letter_still_expires(monkeypatch: Patch) -> None:
    def lasting(*arguments: Any, **terms: Any) -> bool:
        expires_ms = entries.decode(arguments[3]).expires_ms or 1 << 60
        return transfer.transfer(*arguments, **terms | {"expires_ms": expires_ms})

    monkeypatch.setattr(dead_letters, "transfer", lasting)
    assert_caught({"dead_letters_stay"})


def test_dead_letter_is_dropped(monkeypatch: Patch) -> None:
    def drop(self: Any, queue: Queue, key: bytes, value: bytes, *rest: Any) -> bool:
        lane.remove(queue, self._context.tx, key, value)
        queue.counters.dead += 1
        return True

    monkeypatch.setattr(dead_letters.DeadLetters, "make_dead_letter", drop)
    laws = {"removed_was_acknowledged", "acknowledged_is_never_lost", "settled_by_its_holder"}
    assert_caught(laws)


def test_retry_has_no_delay(monkeypatch: Patch) -> None:
    monkeypatch.setattr(returns, "_delay_ms", lambda bounds, entry, how: 0)
    assert_caught({"nothing_before_its_time"})


def test_delayed_put_is_available_at_once(monkeypatch: Patch) -> None:
    append = put.append
    monkeypatch.setattr(
        put,
        "append",
        lambda queue, tx, prepared, arrival: append(
            queue, tx, prepared._replace(ready_ms=0), arrival
        ),
    )
    assert_caught({"nothing_before_its_time"})


def test_delayed_messages_become_available_too_early(monkeypatch: Patch) -> None:
    due = Schedule.due
    monkeypatch.setattr(
        Schedule, "due", lambda self, tx, now_ms, count: due(self, tx, now_ms + 50, count)
    )
    assert_caught({"nothing_before_its_time"}, first=11)


def test_schedule_is_not_loaded_at_a_restart(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Schedule, "load", lambda self, tx: None)
    assert_caught({"schedule_agrees", "drains_in_time"})


@pytest.fixture
def late_schedule(monkeypatch: Patch) -> None:
    """Lets messages expire 5 s late, so that they are still on their queues.

    Otherwise, consumers rarely find an expired message.
    """
    due = keys.due
    monkeypatch.setattr(keys, "due", lambda due_ms, *place: due(due_ms + 5_000, *place))


@pytest.mark.usefixtures("late_schedule")
@pytest.mark.parametrize("seed", [0, 1])
def test_expired_message_is_not_delivered(seed: int) -> None:
    World(seed, steps=STEPS).run()


@pytest.mark.usefixtures("late_schedule")
def test_expired_message_is_delivered(monkeypatch: Patch) -> None:
    for module in (take_, seek_, group_follow):
        monkeypatch.setattr(module, "is_available", lambda queue, entry, arrival, now: True)
    assert_caught({"nothing_after_its_time"})


def test_message_expires_too_early(monkeypatch: Patch) -> None:
    expires_ms = put._expires_ms
    monkeypatch.setattr(
        put, "_expires_ms", lambda queue, now, expiry_ms: expires_ms(queue, now, expiry_ms // 2)
    )
    assert_caught({"expiry_is_as_put"})


def test_leased_message_expires(monkeypatch: Patch) -> None:
    due = DueWork._due

    def ruthless(self: DueWork, queue: Queue, key: bytes) -> None:
        lease = queue.leases.get(keys.place(key)[1])
        if lease is not None:
            queue.end(lease)
        due(self, queue, key)

    monkeypatch.setattr(DueWork, "_due", ruthless)
    assert_caught({"leased_is_left_alone"})


def test_restart_keeps_non_persistent_messages(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Queue, "lose_volatile", lambda self: None)
    assert_caught({"volatile_is_gone_after_a_restart", "one_message_of_a_uid_on_a_queue"}, first=3)


def test_restart_removes_persistent_messages(monkeypatch: Patch) -> None:
    def greedy(context: Any, catalogue: Catalogue, work: job.Job) -> job.JobStep:
        queue = catalogue.by_id[work.row["queue_id"]]
        prefix = keys.lane(queue.id, keys.LANE_READY)
        for key, value in list(context.tx.scan(prefix, keys.after(prefix))):
            lane.remove(queue, context.tx, key, value)
        context.mark_changed(queue)
        return job.DONE

    monkeypatch.setitem(jobs._WORK, "sweep", greedy)
    assert_caught({"removed_was_acknowledged", "expired_when_its_time_is_over"}, first=23)


def test_unit_is_committed_in_part(monkeypatch: Patch) -> None:
    remove_puts = SessionUnit.remove_puts
    monkeypatch.setattr(SessionUnit, "remove_puts", lambda self: remove_puts(self)[:1])
    assert_caught({"unit_is_all_or_nothing"}, first=1)


def test_commit_does_not_remove_what_the_unit_got(monkeypatch: Patch) -> None:
    commit = Units.commit

    def forgetful(self: Units, session: Session, message: m.UnitCommit) -> None:
        unit = session.units.get(message.unit)
        lessees = dict(unit.lessees) if unit else {}
        if unit:
            self._check(session, unit, message)
            unit.lessees.clear()
        commit(self, session, message._replace(gets=0))
        for lessee in lessees.values():
            for lease in list(lessee.leases.values()):
                self._returns.give_back(lease, BACKED_OUT)

    monkeypatch.setattr(Units, "commit", forgetful)
    assert_caught({"unit_is_all_or_nothing", "acked_is_durable"}, first=2)


def test_commit_ignores_the_counts_of_its_client(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Units, "_check", lambda self, session, unit, message: None)
    assert_caught({"unit_is_all_or_nothing"}, first=15)


def test_lost_connection_commits_its_unit(monkeypatch: Patch) -> None:
    close = Units.close

    def commit(self: Units, session: Session, *how: Any) -> Any:
        for unit in list(session.units.values()):
            for queue, prepared, arrival, _ in list(unit.puts):
                put.append(queue, self._context.tx, prepared, arrival or queue.next_arrival())
                self._context.mark_changed(queue)
        return close(self, session, *how)

    monkeypatch.setattr(Units, "close", commit)
    assert_caught({"unit_is_all_or_nothing"}, first=14)


def test_resent_commit_is_refused(monkeypatch: Patch) -> None:
    commit = streams.Streams.commit

    def forgetful(self: streams.Streams, session: Session, message: m.UnitCommit) -> None:
        sender: Any = session.streams[message.stream]
        if not sender.inbox.missing(message.seq_id, 1):
            sender.refused[message.seq_id] = int(ErrorCode.UNIT_BACKED_OUT)
        commit(self, session, message)

    monkeypatch.setattr(streams.Streams, "commit", forgetful)
    assert_caught({"unit_is_all_or_nothing"}, first=11)


def test_message_got_in_a_unit_is_delivered_again_meanwhile(monkeypatch: Patch) -> None:
    take = Units.take

    def lax(self: Units, session: Session, number: int, queue: Queue, lease: Any) -> None:
        take(self, session, number, queue, lease)
        self._returns.give_back(queue.leases[lease.arrival], returns.CONNECTION_LOST)

    monkeypatch.setattr(Units, "take", lax)
    assert_caught({"delivered_again_has_a_cause"}, first=2)


def test_commit_gives_messages_new_positions(monkeypatch: Patch) -> None:
    """G23: Messages keep the order of their puts, regardless of the order of commits."""
    remove_puts = SessionUnit.remove_puts

    def fresh(self: SessionUnit) -> Any:
        return [held._replace(arrival=0) for held in reversed(remove_puts(self))]

    monkeypatch.setattr(SessionUnit, "remove_puts", fresh)
    assert_caught({"order_per_producer"}, first=2)


def test_message_committed_late_is_passed_over(monkeypatch: Patch) -> None:
    """G23: A message that is committed late precedes messages that were put after it."""
    lower = Queue.lower_position

    def sluggish(self: Queue, priority: int, arrival: int, *lane: int) -> None:
        if arrival == self.counters.next_arrival - 1:
            lower(self, priority, arrival, *lane)

    monkeypatch.setattr(Queue, "lower_position", sluggish)
    assert_caught({"order_of_arrival", "ready_is_found"})


def test_selector_matches_everything(monkeypatch: Patch) -> None:
    monkeypatch.setattr(Selector, "matches", lambda self, value_of: True)
    assert_caught({"selected_is_what_was_asked_for"})


def test_selection_still_has_a_deleted_message(monkeypatch: Patch) -> None:
    monkeypatch.setattr(index, "correlation_key", lambda *arguments: b"")
    assert_caught({"selection_agrees"})


def test_note_outlives_its_message(monkeypatch: Patch) -> None:
    timed_keys = index.timed_keys
    monkeypatch.setattr(
        index,
        "timed_keys",
        lambda queue_id, entry, *rest: timed_keys(
            queue_id, entry._replace(flags=entry.flags & ~entries.NOTED), *rest
        ),
    )
    assert_caught({"notes_agree"})


def test_unit_does_not_free_its_space(monkeypatch: Patch) -> None:
    def keep(self: SessionUnit) -> Any:
        puts, self.puts = self.puts, []
        return puts

    monkeypatch.setattr(SessionUnit, "remove_puts", keep)
    assert_caught({"nothing_leaks"})


def test_overflow_evicts_a_leased_message(monkeypatch: Patch) -> None:
    def reckless(queue: Queue, *arguments: Any) -> Any:
        leases, queue.leases = queue.leases, {}
        heads, queue.positions.ready = queue.positions.ready, [0] * len(queue.positions.ready)
        found = list(oldest(queue, *arguments))
        queue.leases, queue.positions.ready = leases, heads
        for key, _ in found:
            lease = queue.leases.get(keys.place(key)[1])
            if lease is not None:
                queue.end(lease)
        return found

    oldest = eviction._oldest
    monkeypatch.setattr(eviction, "_oldest", reckless)
    assert_caught({"leased_is_left_alone"})
