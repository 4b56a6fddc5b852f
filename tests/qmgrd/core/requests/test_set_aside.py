"""Tests that the queue manager sets aside work that hits a bug, and continues without it.

`recover` acts like the daemon: it starts a new core and sets aside work that failed twice.
"""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.jobs import due_work, move
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.limits.work import Failures, WorkId
from qmgrd.core.queue import settle
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.take import take
from qmgrd.core.sessions import pump
from qmgrd.core.turn import TurnFailed
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Client, Manager

Patch = pytest.MonkeyPatch


class Bug(Exception):
    """The bug that the tests plant."""


def planted(*_: Any, **__: Any) -> Any:
    raise Bug("planted")


def survive(manager: Manager, ms: int = 0) -> list[str]:
    """Runs turns until no work is left; returns the work in which turns failed."""
    failures, failed_at = Failures(), list[str]()
    manager.advance(ms)
    for _ in range(1_000):
        try:
            manager.turn()
        except TurnFailed as failed:
            failed_at.append(failed.work.kind if failed.work else "?")
            is_poisoned = failures.add(failed.work, 0)
            manager.crash()
            if is_poisoned and failed.work:
                manager.turns.set_aside(failed.work, failed.why, manager.now(), is_mark=False)
            continue
        if not manager.turns.has_work:
            return failed_at
    raise AssertionError("the manager is never idle")


def items(manager: Manager) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = manager.connect("asker").ask(m.AsideList)["items"]
    return found


def is_served(manager: Manager) -> bool:
    app = manager.connect("served")
    app.put("SAFE", b"x")
    return app.ack(*app.get("SAFE")) == []


@pytest.fixture
def app() -> Client:
    app = Manager().connect()
    app.ask(m.QueueCreate, "Q")
    app.ask(m.QueueCreate, "SAFE")
    return app


def test_due_row_that_fails_is_moved_and_comes_back_when_it_is_retried(
    app: Client, monkeypatch: Patch
) -> None:
    app.put("Q", b"1", expiry_ms=10)
    app.put("Q", b"2", expiry_ms=10)
    expire = due_work.DueWork._expire

    def fails_at_first(self: Any, queue: Any, key: bytes, value: bytes, entry: Any) -> None:
        if records.decode(entry.rest).body == b"1":
            planted()
        expire(self, queue, key, value, entry)

    monkeypatch.setattr(due_work.DueWork, "_expire", fails_at_first)
    assert survive(app.manager, 10) == ["due", "due"]
    (item,) = items(app.manager)
    assert (item["kind"], item["why"]) == ("due", "Bug: planted")
    app = app.manager.connect()
    assert app.show("Q")["expired"] == 1
    assert is_served(app.manager)
    monkeypatch.undo()
    app.ask(m.AsideRetry, item["number"])
    app.manager.turn()
    assert app.show("Q")["expired"] == 2


@pytest.mark.parametrize("end", [m.AsideRetry, m.AsideDrop])
def test_failed_job_waits_for_an_operator(app: Client, monkeypatch: Patch, end: Any) -> None:
    app.put("Q", b"1")
    app.manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    app.ask(m.QueueMove, "Q", "SAFE", "", 0, 0, False, 0)
    app.manager.crash()
    monkeypatch.setattr(move, "next_rows", planted)
    assert survive(app.manager) == ["job", "job"]
    (item,) = items(app.manager)
    app = app.manager.connect()
    (job,) = app.ask(m.JobList)["jobs"]
    assert (job["state"], job["text"]) == ("aside", "a slice of the job failed twice: Bug: planted")
    assert is_served(app.manager)
    monkeypatch.undo()
    app = app.manager.connect()
    app.ask(end, item["number"])
    app.manager.rest()
    (job,) = app.ask(m.JobList)["jobs"]
    assert job["state"] == ("done" if end is m.AsideRetry else "failed")
    assert items(app.manager) == []


def test_job_that_alone_can_remove_what_is_left_is_not_dropped(
    app: Client, monkeypatch: Patch
) -> None:
    app.put("Q", b"1")
    app.manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    app.ask(m.QueueDelete, "Q", True)
    app.manager.crash()
    monkeypatch.setattr("qmgrd.core.jobs.drop.next_rows", planted)
    survive(app.manager)
    app = app.manager.connect()
    assert app.code_of(m.AsideDrop, 1) is ErrorCode.VALUE_INVALID
    app.manager.crash()  # The queue id is still in use, and the start succeeds.
    monkeypatch.undo()
    app.manager.connect().ask(m.AsideRetry, 1)
    app.manager.rest()
    assert items(app.manager) == []


def test_events_that_cannot_be_written_are_dropped(app: Client, monkeypatch: Patch) -> None:
    manager, work = app.manager, WorkId("events")
    monkeypatch.setattr("qmgrd.core.returns.events._record", planted)
    manager.turns.broker.context.event("anything")
    assert survive(manager) == ["events"]  # The event existed only in memory.
    manager.turns.set_aside(work, "Bug: planted", manager.now(), is_mark=False)
    manager.turns.broker.context.event("anything")
    assert survive(manager) == []
    assert [item["what"] for item in items(manager)] == ["writing events"]
    assert is_served(manager)


def test_delivery_that_fails_is_held_for_that_queue_alone(app: Client, monkeypatch: Patch) -> None:
    app.put("Q", b"1")

    def fails_on_q(self: Queue, *arguments: Any) -> Any:
        return planted() if self.name == "Q" else take(self, *arguments)

    monkeypatch.setattr(pump, "take", fails_on_q)
    failures = Failures()
    for is_poisoned in (False, True):
        consumer = app.manager.connect("consumer")
        consumer.send(m.Consume(1, "Q", 10, 1 << 30))
        with pytest.raises(TurnFailed) as caught:
            app.manager.turn()
        failed = caught.value
        assert failed.work is not None
        assert failures.add(failed.work, 0) is is_poisoned
        app.manager.crash()
    assert failed.work is not None
    app.manager.turns.set_aside(failed.work, failed.why, app.manager.now(), is_mark=False)
    consumer = app.manager.connect("consumer")
    consumer.consume("Q")
    assert is_served(app.manager)
    assert [item["what"] for item in items(app.manager)] == ["delivery from queue Q"]
    monkeypatch.undo()
    app.manager.connect().ask(m.AsideRetry, 1)
    app.manager.rest()
    assert [x.body for x in consumer.delivered()] == [b"1"]


def test_only_so_many_messages_of_a_queue_are_looked_at(app: Client, monkeypatch: Patch) -> None:
    app.put("Q", *(b"%d" % number for number in range(20)))
    manager, looked_at = app.manager, list[bytes]()
    queue_id = manager.queue("Q").id
    scan = MemoryStore.scan

    def counted(self: Any, start: bytes, stop: bytes) -> Any:
        for key, value in scan(self, start, stop):
            looked_at.append(key)
            yield key, value

    monkeypatch.setattr("qmgrd.core.requests.set_aside.LOOKED_AT_MAX", 3)
    monkeypatch.setattr(MemoryStore, "scan", counted)
    work = WorkId("queue", queue_id)
    manager.turns.set_aside(work, "Bug: planted", manager.now(), is_mark=False)
    assert sum(key[:1] == keys.SPACE_MESSAGE for key in looked_at) == 3


@pytest.mark.parametrize("is_mark", [False, True])
def test_job_that_is_set_aside_gets_no_slice(
    app: Client, monkeypatch: Patch, is_mark: bool
) -> None:
    app.put("Q", b"1")
    manager = app.manager
    manager.turns.broker.jobs.run = lambda: None  # type: ignore[method-assign]
    app.ask(m.QueueMove, "Q", "SAFE", "", 0, 0, False, 0)
    manager.crash()
    monkeypatch.setattr(move, "next_rows", planted)
    (job_id,) = manager.turns.broker.jobs.running
    manager.turns.set_aside(WorkId("job", job_id), "planted", manager.now(), is_mark=is_mark)
    assert survive(manager) == []
    monkeypatch.undo()
    app = manager.connect()
    app.ask(m.AsideRetry, 1)
    manager.rest()
    assert app.show("SAFE")["depth"] == 1


def test_message_that_fails_as_it_comes_back_is_set_aside(app: Client, monkeypatch: Patch) -> None:
    app.put("Q", b"1", b"2")
    come_back = settle.return_to_queue

    def fails_at_first(queue: Any, tx: Any, lease: Any, **terms: Any) -> Any:
        return planted() if lease.arrival == 1 else come_back(queue, tx, lease, **terms)

    monkeypatch.setattr(settle, "return_to_queue", fails_at_first)
    for is_poisoned in (False, True):
        consumer = app.manager.connect(f"consumer {is_poisoned}")
        found = consumer.get("Q", 2)
        assert len(found) == 2
        consumer.hang_up()
        with pytest.raises(TurnFailed) as caught:
            app.manager.turn()
        failed = caught.value
        assert failed.work is not None
        app.manager.crash()
    assert failed.work is not None
    app.manager.turns.set_aside(failed.work, failed.why, app.manager.now(), is_mark=False)
    app = app.manager.connect()
    assert [x.body for x in app.get("Q", 2)] == [b"2"]
    assert app.show("Q")["damaged"] == 1
    assert items(app.manager)[0]["what"] == "message 1 of queue Q"


def test_item_that_cannot_be_set_aside_is_skipped(app: Client, monkeypatch: Patch) -> None:
    manager = app.manager
    key = keys.message(manager.queue("Q").id, keys.LANE_READY, 4, 1)
    app.put("Q", b"1")
    monkeypatch.setattr("qmgrd.core.requests.set_aside.lane.set_aside", planted)
    with pytest.raises(TurnFailed):
        manager.turns.set_aside(WorkId("message", key), "why", manager.now(), is_mark=False)
    manager.crash()
    manager.turns.set_aside(WorkId("message", key), "why", manager.now(), is_mark=True)
    assert len(items(manager)) == 1


def test_counters_of_no_queue_are_dropped_with_its_messages(app: Client) -> None:
    app.put("Q", b"1")
    manager = app.manager
    queue_id = manager.queue("Q").id
    key = keys.SPACE_QUEUE + b"Q"
    tx = manager.store.begin()
    rows.put(tx, key, pack({"kind": "local", "queue_id": "none"}))
    manager.store.commit()
    manager.crash()
    app = manager.connect()
    assert {item["what"] for item in items(manager)} == {
        "the definition of queue Q",
        f"the counters of queue id {queue_id}",
    }
    for item in items(manager):
        app.ask(m.AsideDrop, item["number"])
    manager.rest()
    assert manager.scan(keys.of_queue(keys.SPACE_MESSAGE, queue_id)) == []
    manager.crash()
    assert is_served(manager)
