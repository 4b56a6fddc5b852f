"""Tests of the events in SYSTEM.EVENTS. An event must not cause an endless chain of events."""

import json
from pathlib import Path
from typing import Any

import pytest

import qmgrd
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.core.catalogue.system import DEAD_LETTERS, EVENTS
from qmgrd.core.queue.history import OpenTurn
from qmgrd.core.returns.events import EVENTS_PER_TURN, LASTING
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.far import Far
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record
from tests.qmgrd.core.unit_of_work import UnitOfWork


def told(app: Client) -> list[dict[str, Any]]:
    """Returns the events so far, without the queue manager's name."""
    found = [json.loads(body) for body in app.bodies(EVENTS)]
    assert all(x.pop("manager") == "QM1" for x in found)
    return found


def test_event_is_a_message_like_any_other(store: AnyStore, app: Client) -> None:
    """An event has a JSON body for people, and headers for selectors, and is durable."""
    app.put("Q", b"1")
    app.get("Q")
    app.hang_up()
    app.manager.rest()
    app.manager.restart()
    app = app.manager.connect()
    (event,) = app.get(EVENTS)
    fields = records.decode(event.record)
    expected = {
        "event": "consumer lost",
        "count": 1,
        "manager": "QM1",
        "queue": "Q",
        "client": "app",
    }
    assert json.loads(fields.body) == expected
    assert fields.envelope[records.HEADERS] == expected
    assert fields.envelope[records.CONTENT_TYPE] == "application/json"


def test_client_lost_within_a_unit_is_reported(manager: Manager, app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    worker = manager.connect("worker")
    UnitOfWork(worker).get("Q", 2)
    worker.get("Q")
    worker.hang_up()
    manager.rest()
    assert told(app) == [{"event": "consumer lost", "count": 3, "queue": "Q", "client": "worker"}]


def test_full_queue_is_reported_once_until_it_has_room(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"depth_max": 1})
    app.put("Q", b"1", uid=("O", 1))
    for _ in range(3):
        app.put_records("Q", record(b"2"))
        app.put_records("Q", record(b"1", uid=("O", 1)))  # A duplicate does not free space.
    assert told(app) == [{"event": "queue full", "count": 1, "queue": "Q"}]
    app.ack(*app.get("Q"))
    app.put("Q", b"3")
    app.put_records("Q", record(b"4"))
    assert len(told(app)) == 2


def test_full_queue_at_the_end_of_a_link_is_reported(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"depth_max": 1})
    far = Far(app.manager)
    far.open()
    for number in (1, 2, 3):
        far.send(number, record(b"x", uid=("FAR", number)))
    assert [x["event"] for x in told(app)].count("queue full") == 1


def test_dead_letters_and_expired_messages_are_reported_per_turn(app: Client) -> None:
    app.put("Q", *[b"x"] * 5)
    app.settle(m.REJECT, *app.get("Q", 5))
    app.put("Q", *[b"x"] * 7, expiry_ms=10)
    app.manager.turn(10)
    assert told(app) == [
        {
            "event": "message dead-lettered",
            "count": 5,
            "queue": "Q",
            "to": DEAD_LETTERS,
            "why": "MESSAGE_REJECTED",
        },
        {"event": "message expired", "count": 7, "queue": "Q"},
    ]


def test_unit_that_is_too_old_is_reported(manager: Manager, app: Client) -> None:
    app.ask(m.UnitBegin, 1)
    manager.turn(manager.config.unit.age_max_ms)
    assert [x["event"] for x in told(app)] == ["unit of work backed out"]


@pytest.mark.parametrize("what", ["put", "get"])
def test_inhibit_is_reported_when_set_and_when_lifted(app: Client, what: str) -> None:
    for value in (True, True, False):
        app.ask(m.QueueAlter, "Q", {f"{what}_inhibit": value})
    app.ask(m.QueueAlter, "Q", {"depth_max": 5})
    assert told(app) == [
        {"event": "inhibited", "count": 1, "queue": "Q", "what": what},
        {"event": "inhibit lifted", "count": 1, "queue": "Q", "what": what},
    ]


def test_events_beyond_what_a_turn_may_tell_are_counted(manager: Manager, app: Client) -> None:
    context = manager.turns.broker.context
    for number in range(EVENTS_PER_TURN + 30):
        context.event("anything", queue=f"Q{number}")
    manager.turn()
    found = told(app)
    assert len(found) == EVENTS_PER_TURN + 1
    assert found[-1] == {"event": "events left out", "count": 30}


def test_applications_do_not_push_out_the_events_of_operators(
    manager: Manager, app: Client
) -> None:
    app.ask(m.QueueAlter, EVENTS, {"depth_max": 5})
    context = manager.turns.broker.context
    for event in sorted(LASTING)[:3]:
        context.event(event, number=1)
        manager.turn()
    for number in range(EVENTS_PER_TURN):
        context.event("message dead-lettered", queue=f"Q{number}")
        manager.turn()
    assert [x["event"] for x in told(app)] == [*sorted(LASTING)[:3], *["message dead-lettered"] * 2]


def test_applications_do_not_fill_the_events_of_a_turn(manager: Manager, app: Client) -> None:
    context = manager.turns.broker.context
    for number in range(EVENTS_PER_TURN):
        context.event("message dead-lettered", queue=f"Q{number}")
    context.event("set aside", number=1)
    manager.turn()
    assert told(app)[0] == {"event": "set aside", "count": 1, "number": 1}


def test_names_of_the_events_of_operators_are_in_use() -> None:
    code = "\n".join(path.read_text() for path in Path(qmgrd.__path__[0]).rglob("*.py"))
    assert [event for event in sorted(LASTING) if code.count(f'"{event}"') < 2] == []


def test_none_are_put_when_the_store_is_full(manager: Manager, app: Client) -> None:
    app.ask(m.QueueShow, EVENTS)
    manager.store.disk_free_bytes = 0
    manager.turns.broker.context.event("anything")
    manager.turn()
    assert told(app) == []
    manager.store.disk_free_bytes = 1 << 40
    manager.turn()
    assert told(app) == []  # The daemon does not put the event later, but the log has the event.


def quiet(manager: Manager, ms: int = 0) -> None:
    """Checks that turns without events write nothing."""
    for _ in range(5):
        manager.turn(ms)
    flushes = manager.store.flushes
    for _ in range(5):
        manager.turn(ms)
    assert manager.store.flushes == flushes


@pytest.mark.parametrize(
    "attributes",
    [{"overflow": "discard-oldest"}, {"overflow": "dead-letter-oldest"}, {"overflow": "refuse"}],
)
def test_full_queue_of_events_raises_no_events(
    manager: Manager, app: Client, attributes: dict[str, Any]
) -> None:
    app.ask(m.QueueAlter, EVENTS, attributes | {"depth_max": 2})
    for number in range(5):
        manager.turns.broker.context.event("anything", number=number)
        manager.turn()
    quiet(manager)
    first = 0 if attributes["overflow"] == "refuse" else 3
    assert [x["number"] for x in told(app)] == [first, first + 1]


@pytest.mark.parametrize("expired", ["discard", "dead-letter"])
def test_events_that_expire_raise_no_events(manager: Manager, app: Client, expired: str) -> None:
    app.ask(m.QueueAlter, EVENTS, {"expiry_max_ms": 1_000, "expiry_action": expired})
    manager.turns.broker.context.event("anything")
    manager.turn()
    quiet(manager, 1_000)
    assert told(app) == []


def test_dead_letters_that_overflow_with_events_reach_an_idle_state(
    manager: Manager, app: Client
) -> None:
    app.ask(m.QueueAlter, EVENTS, {"overflow": "dead-letter-oldest", "depth_max": 1})
    app.ask(m.QueueAlter, DEAD_LETTERS, {"overflow": "discard-oldest", "depth_max": 1})
    for number in range(5):
        manager.turns.broker.context.event("anything", number=number)
        manager.turn()
    quiet(manager)


def test_consumer_of_events_is_handed_them_as_they_come(app: Client) -> None:
    app.consume(EVENTS)
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    app.manager.rest()
    (found,) = app.delivered()
    assert json.loads(found.body)["event"] == "inhibited"


def member(number: int, body: bytes = b"") -> bytes:
    return record(body, group=(b"G" * 24, number, False))


def test_event_that_evicts_a_member_is_reported(manager: Manager, app: Client) -> None:
    """The queue's groups are updated after the events, because events may evict group messages."""
    app.ask(m.QueueAlter, EVENTS, {"depth_max": 3})
    manager.fill(EVENTS, member(1), member(2), record(b"{}"))
    app.put("Q", b"x", expiry_ms=10)
    manager.turn(10)
    assert json.loads(app.bodies(EVENTS)[-1])["event"] == "message expired"
    manager.restart()
    audit(manager)


def test_event_that_makes_a_member_a_dead_letter_is_reported(manager: Manager, app: Client) -> None:
    app.ask(m.QueueAlter, EVENTS, {"overflow": "dead-letter-oldest", "depth_max": 2})
    manager.fill(EVENTS, member(1), record(b"{}"))
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    assert app.bodies(DEAD_LETTERS) == [b""]


def test_event_at_the_end_of_a_turn_is_put_by_the_next(manager: Manager, app: Client) -> None:
    """The broker has work until the next turn, but no longer."""
    broker = manager.turns.broker
    write = broker.context.history.write

    def write_and_tell(turn: OpenTurn) -> None:
        write(turn)
        broker.context.history.write = write  # type: ignore[method-assign]
        turn.event("history nearly full")

    broker.context.history.write = write_and_tell  # type: ignore[method-assign]
    app.put("Q", b"x")
    assert manager.turns.has_work
    manager.rest()
    assert [x["event"] for x in told(app)] == ["history nearly full"]
