"""Tests of queues unused for unused_expiry_ms. test_subscriptions.py tests subscriptions."""

import json

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.system import DEAD_LETTERS, EVENTS
from qmgrd.core.sessions import unused
from qmgrd.core.sessions.unused import LATER_MS, LOOK_MS
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.core.unit_of_work import UnitOfWork

LIMIT_MS = 10_000
UNUSED = {"unused_expiry_ms": LIMIT_MS}


@pytest.fixture
def reply(app: Client) -> Client:
    """A client of a manager whose queue REPLY may be unused for 10 s."""
    app.ask(m.QueueCreate, "REPLY", UNUSED)
    return app


def exists(client: Client, queue: str = "REPLY") -> bool:
    """Returns whether *queue* exists, after jobs and timers have done all due work."""
    client.manager.rest()
    found = [row["queue"] for row in client.ask(m.QueueList, "", 1_000)["queues"]]
    return queue in found


def lasts_ms(client: Client, step_ms: int = 100) -> int:
    """Returns how many milliseconds pass until REPLY is deleted, in steps of *step_ms*."""
    for ms in range(0, 10 * LIMIT_MS, step_ms):
        if not exists(client):
            return ms
        client.manager.turn(step_ms)
    raise AssertionError("the queue still exists")


def test_unused_queue_is_deleted_with_its_messages(reply: Client) -> None:
    reply.put("REPLY", b"for nobody", b"at all")
    assert lasts_ms(reply) == LIMIT_MS
    (event,) = [json.loads(body) for body in reply.bodies(EVENTS)]
    assert (event["event"], event["queue"], event["messages"]) == ("queue expired", "REPLY", 2)
    assert reply.code_of(m.QueueShow, "REPLY") is ErrorCode.QUEUE_UNKNOWN
    reply.ask(m.QueueCreate, "REPLY", {})  # The name is free, and no row of the old queue remains.
    assert reply.bodies("REPLY") == []


def test_put_or_browse_does_not_use_a_queue(reply: Client) -> None:
    for _ in range(9):
        reply.manager.turn(LIMIT_MS // 10)
        reply.put("REPLY", b"x")
        reply.browse("REPLY")
    assert lasts_ms(reply) == LIMIT_MS // 10


def test_get_uses_a_queue_from_its_begin_to_its_end(reply: Client) -> None:
    reply.manager.turn(LIMIT_MS - 1)
    assert reply.get("REPLY") == []
    reply.manager.turn(LIMIT_MS - 1)
    reply.say(m.Get(reply.next_id(), "REPLY", 1, LIMIT_MS))
    reply.manager.turn(LIMIT_MS)
    assert lasts_ms(reply) == LIMIT_MS


def test_consumer_uses_a_queue_until_it_ends(reply: Client) -> None:
    request_id = reply.consume("REPLY")
    reply.manager.turn(5 * LIMIT_MS)
    assert exists(reply)
    reply.say(m.Cancel(request_id))
    assert lasts_ms(reply) == LIMIT_MS


def test_consumer_whose_connection_is_lost_has_the_time_to_come_back(
    manager: Manager, reply: Client
) -> None:
    gone = manager.connect("gone")
    gone.consume("REPLY")
    manager.turn(5 * LIMIT_MS)
    gone.hang_up()
    assert lasts_ms(reply) == LIMIT_MS


def test_queue_lasts_while_a_message_of_it_is_worked_on(reply: Client) -> None:
    reply.put("REPLY", b"1")
    (message,) = reply.get("REPLY")
    reply.manager.turn(2 * LIMIT_MS)
    assert exists(reply)
    assert reply.ack(message) == []
    assert lasts_ms(reply) == LIMIT_MS


def test_lease_that_ends_by_itself_was_a_use(reply: Client) -> None:
    reply.put("REPLY", b"1")
    assert len(reply.get("REPLY")) == 1
    reply.manager.turn(30_000)  # The wait lasts until the lease ends.
    assert lasts_ms(reply) == LIMIT_MS


def test_lease_that_ends_between_two_looks_was_a_use(reply: Client) -> None:
    reply.put("REPLY", b"1", b"2")
    (message,) = reply.get("REPLY")
    reply.manager.turn(LIMIT_MS - 200)
    assert reply.ack(message) == []
    assert lasts_ms(reply) == LIMIT_MS


def test_end_of_a_unit_that_held_a_message_was_a_use(reply: Client) -> None:
    reply.put("REPLY", b"1", b"2")
    unit = UnitOfWork(reply)
    assert unit.get("REPLY")
    reply.manager.turn(2 * LIMIT_MS)
    assert unit.commit() == []
    assert lasts_ms(reply) == LIMIT_MS


def test_repeated_definition_and_alteration_restart_the_time(reply: Client) -> None:
    reply.manager.turn(LIMIT_MS - 1)
    reply.ask(m.QueueCreate, "REPLY", UNUSED)
    reply.manager.turn(LIMIT_MS - 1)
    reply.ask(m.QueueAlter, "REPLY", {"depth_max": 5})
    assert lasts_ms(reply) == LIMIT_MS


def test_shorter_time_is_in_force_at_once_and_none_lets_it_stay(reply: Client) -> None:
    reply.ask(m.QueueAlter, "REPLY", {"unused_expiry_ms": 1_000})
    assert lasts_ms(reply) == 1_000
    reply.ask(m.QueueCreate, "REPLY", UNUSED)
    reply.ask(m.QueueAlter, "REPLY", {"unused_expiry_ms": None})
    reply.manager.turn(10 * LIMIT_MS)
    assert exists(reply)


def test_template_gives_queues_a_time(reply: Client) -> None:
    reply.ask(m.QueueCreate, "R.1", {})
    reply.manager.turn(10 * LIMIT_MS)
    reply.ask(m.TemplateSet, "R.*", UNUSED)
    reply.ask(m.QueueCreate, "R.2", {})
    reply.manager.turn(LIMIT_MS - 1)
    assert exists(reply, "R.1")
    assert exists(reply, "R.2")
    reply.manager.turn(1)
    assert not exists(reply, "R.1")
    assert not exists(reply, "R.2")


@pytest.mark.parametrize("stop", ["crash", "restart"])
def test_users_have_time_to_come_back_after_a_stop(reply: Client, stop: str) -> None:
    reply.put("REPLY", b"1")
    reply.manager.turn(LIMIT_MS - 1)
    reply.hang_up()
    getattr(reply.manager, stop)(away_ms=100 * LIMIT_MS)
    assert lasts_ms(reply.manager.connect("app")) == LIMIT_MS


def test_start_gives_no_more_than_an_hour(reply: Client) -> None:
    reply.ask(m.QueueAlter, "REPLY", {"unused_expiry_ms": 3 * LOOK_MS})
    for _ in range(5):
        reply.manager.turn(LOOK_MS // 2)
    reply.hang_up()
    reply.manager.restart()
    client = reply.manager.connect("app")
    client.manager.turn(LOOK_MS - 1)
    assert exists(client)
    client.manager.turn(1)
    assert not exists(client)


def test_queue_that_is_deleted_before_leaves_no_timer(reply: Client) -> None:
    timers = reply.manager.turns.broker.context.timers
    for _ in range(300):
        reply.ask(m.QueueDelete, "REPLY", False)
        reply.ask(m.QueueCreate, "REPLY", UNUSED)
        reply.get("REPLY")
    assert len(timers._heap) < 200


def test_another_queue_of_the_same_name_has_a_time_of_its_own(reply: Client) -> None:
    reply.manager.turn(LIMIT_MS // 2)
    reply.ask(m.QueueDelete, "REPLY", False)
    reply.ask(m.QueueCreate, "REPLY", UNUSED)
    assert lasts_ms(reply) == LIMIT_MS


def test_many_are_deleted_in_turn(reply: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of such jobs is limited, so operators can still start theirs."""
    monkeypatch.setattr(unused, "DELETING_MAX", 1)
    for number in range(4):
        reply.ask(m.QueueCreate, f"R.{number}", UNUSED)
        reply.put(f"R.{number}", b"x")
    reply.manager.turn(LIMIT_MS)
    jobs = reply.manager.turns.broker.jobs
    for _ in range(20):
        assert len(jobs.running) <= 1
        reply.manager.turn(LATER_MS // 2)
    assert not any(exists(reply, name) for name in ("REPLY", "R.0", "R.1", "R.2", "R.3"))


def test_unit_that_put_there_cannot_commit(reply: Client) -> None:
    unit = UnitOfWork(reply)
    unit.put("REPLY", b"1")
    reply.manager.turn(LIMIT_MS)
    assert not exists(reply)
    assert unit.commit() == [ErrorCode.UNIT_BACKED_OUT]


def test_row_shows_the_unused_time(reply: Client) -> None:
    assert "unused_ms" not in reply.show("Q")
    assert reply.show("REPLY")["unused_ms"] == 0
    reply.manager.turn(3_000)
    assert reply.show("REPLY")["unused_ms"] == 3_000
    reply.consume("REPLY")
    reply.manager.turn(5_000)
    assert reply.show("REPLY")["unused_ms"] == 0


@pytest.mark.parametrize("queue", [DEAD_LETTERS, EVENTS])
def test_system_queue_stays(reply: Client, queue: str) -> None:
    for kind in (m.QueueCreate, m.QueueAlter):
        with pytest.raises(RequestError, match="the queue manager itself needs SYSTEM"):
            reply.ask(kind, queue, UNUSED)
    reply.browse(queue)  # The first use creates the queue.
    reply.ask(m.TemplateSet, "*", UNUSED)
    reply.manager.turn(10 * LIMIT_MS)
    assert exists(reply, queue)
    assert not exists(reply)
