"""Tests of the turn: one transaction, durable before replies leave, limited, and repeatable."""

import random
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import lmdb
import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.context.context import Outcome
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import StoreFailed
from qmgrd.core.turn import TurnFailed
from qmgrd.store.lmdb_store import LmdbStore
from tests.disk_stores import disk_store
from tests.memory_store import MemoryStore
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Manager, record
from tests.qmgrd.core.ticking import MS_NS, Ticking

ID = b"P" * 16


# -- disk first


def test_nothing_leaves_before_it_is_durable(manager: Manager, app: Client) -> None:
    """Nothing is sent before the commit has returned."""
    producer = app.producer()
    heard: list[object] = []
    manager.store.before_commit = lambda: heard.extend(app.received)
    app.send(m.Put(producer.stream, 1, 0, "Q", [record(b"x")]), m.QueueCreate(50, "NEW"))
    manager.turn()
    assert heard == []
    assert len(app.hear()) == 2


def test_failed_commit_sends_no_answer(manager: Manager, app: Client) -> None:
    producer = app.producer(ID)

    def fail() -> None:
        raise OSError("disk")

    manager.store.before_commit = fail
    app.send(m.Put(producer.stream, 1, 0, "Q", [record(b"x")]))
    with pytest.raises(OSError, match="disk"):
        manager.turn()
    assert app.hear() == []
    manager.store.before_commit = None
    manager.crash()
    assert manager.connect().bodies("Q") == []


@pytest.mark.parametrize("durable", [False, True])
def test_outcome_of_a_failed_commit_is_unknown_but_a_resend_is_not(
    manager: Manager, app: Client, durable: bool
) -> None:
    """One message exists, with one answer, whether or not the failed commit reached the disk."""
    producer = app.producer(ID)

    def fail() -> None:
        raise OSError("disk")

    app.send(m.Put(producer.stream, 1, 0, "Q", [record(b"x")]))
    if durable:
        manager.store.after_commit = fail
    else:
        manager.store.before_commit = fail
    with pytest.raises(OSError, match="disk"):
        manager.turn()
    manager.store.before_commit = manager.store.after_commit = None
    manager.crash()
    producer = manager.connect().producer(ID, resume=True)
    assert producer.commit_id == durable
    assert producer.put_again(1, "Q", record(b"x")) == []
    assert producer.client.bodies("Q") == [b"x"]


# -- all or nothing


class Torn(Exception):
    """Raised by the fault that the test plants."""


class TearingStore(MemoryStore):
    """Raises an error at the n-th write of a turn."""

    writes_left: int | None = None

    def put(self, key: bytes, value: bytes) -> None:
        self._count()
        super().put(key, value)

    def delete(self, key: bytes) -> None:
        self._count()
        super().delete(key)

    def _count(self) -> None:
        if self.writes_left is not None:
            self.writes_left -= 1
            if self.writes_left < 0:
                raise Torn


def test_turn_torn_at_any_write_admits_no_duplicate_A16() -> None:
    """A16: Writes fail between entry, UID index, table of origins, counters and producer row."""
    for writes in range(100):
        store = TearingStore()
        manager = Manager(store)
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put_records("Q", record(b"1", uid=("A", 1)))
        producer = app.producer(ID)
        before = dict(store.rows)
        batch = [record(b"3", uid=("A", 3)), record(bytes(9_000), uid=("B", 1))]
        app.send(m.Put(producer.stream, 1, 0, "Q", batch))
        store.writes_left = writes
        try:
            manager.turn()
        except TurnFailed as failed:
            assert isinstance(failed.__cause__, Torn)  # noqa: PT017 - it need not fail
            assert dict(store.rows) == before
            done = False
        else:
            done = True
        store.writes_left = None
        manager.crash()
        again = manager.connect().producer(ID, resume=True)
        assert again.put_again(1, "Q", *batch) == []
        for uid in [("A", 1), ("A", 3), ("B", 1)]:
            (refused,) = again.client.put_records("Q", record(b"no", uid=uid))
            assert refused.code is ErrorCode.DUPLICATE_MESSAGE
        assert again.client.show("Q")["depth"] == 3
        audit(manager)
        if done:
            assert writes > 8
            return
    raise AssertionError("no turn succeeded")


def test_bug_undoes_the_turn_and_names_the_connection(manager: Manager, app: Client) -> None:
    guilty = manager.connect("guilty")
    producer = app.producer(ID)
    manager.turn()
    before = dict(manager.store.rows)

    def broken(session: object, message: object) -> None:
        raise ZeroDivisionError("a bug")

    handlers: Any = manager.turns.broker._handlers
    handlers[m.Status] = broken
    app.send(m.Put(producer.stream, 1, 0, "Q", [record(b"x")]))
    guilty.send(m.Status(1))
    with pytest.raises(TurnFailed, match="ZeroDivisionError while serving connection 2") as caught:
        manager.turn()
    assert caught.value.connection == guilty.peer.number
    assert dict(manager.store.rows) == before
    assert app.hear() == []
    manager.crash()
    producer = manager.connect().producer(ID, resume=True)
    assert producer.put_again(1, "Q", record(b"x")) == []
    assert producer.client.bodies("Q") == [b"x"]


def test_turn_that_fails_leaves_nothing_for_the_collector(
    manager: Manager, app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generator of arrivals reads the clock when it ends, so it must end within its turn."""
    intake, yielding = manager.turns.intake, list[Any]()
    take = intake.take

    def noted(*args: Any) -> Any:
        yielding.append(take(*args))
        return yielding[0]

    monkeypatch.setattr(intake, "take", noted)
    monkeypatch.setattr(manager.turns.broker, "received", lambda *_: 1 / 0)
    app.send(m.Status(1))
    with pytest.raises(TurnFailed):
        manager.turn()
    assert yielding[0].gi_frame is None


def test_bug_outside_of_a_request_names_no_connection(manager: Manager, app: Client) -> None:
    def broken() -> None:
        raise ZeroDivisionError("a bug")

    manager.turns.broker.context.timers.at(0, broken)
    app.send(m.Status(1))
    with pytest.raises(TurnFailed) as caught:
        manager.turn()
    assert caught.value.connection == 0


def test_full_store_undoes_the_turn_and_blames_no_client(tmp_path: Path) -> None:
    """The request that reached the end of the map did not cause the shortage."""
    manager = Manager(disk_store(tmp_path, 1 << 20))
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    before = manager.scan(b"")

    def fill(session: object, message: object) -> None:
        manager.turns.broker.context.tx.put(b"x", bytes(2 << 20))

    handlers: Any = manager.turns.broker._handlers
    handlers[m.Status] = fill
    app.send(m.QueueCreate(50, "NEW"), m.Status(51))
    with pytest.raises(StoreFailed, match="map of 1048576 bytes is full"):
        manager.turn()
    assert manager.scan(b"") == before
    assert app.hear() == []
    manager.crash()
    manager.connect().put("Q", b"goes on")
    manager.store.close()


def test_start_on_a_full_store_says_so(tmp_path: Path) -> None:
    manager = Manager(LmdbStore(tmp_path, 1 << 20))
    pin = manager.store.pin()  # The pin prevents freed pages from being used again.
    with suppress(lmdb.MapFullError, StoreFailed):
        for number in range(1_000):
            manager.store.begin().put(b"f%d" % number, bytes(3_000))
            manager.store.commit()
    manager.store.abort()
    with pytest.raises(StoreFailed, match=r"raise store\.map_bytes"):
        manager.start()
    pin.release()
    manager.start()
    manager.store.close()


# -- flushes


def test_turn_that_wrote_nothing_costs_no_flush(manager: Manager, app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    app.get("Q")
    manager.store.flushes = 0
    consumer = app.consume("Q")
    requests = [
        m.Status(50),
        m.QueueList(51),
        m.QueueShow(52, "Q"),
        m.Browse(53, "Q"),
        m.Get(54, "Q"),
        m.Get(55, "Q", 1, 100),
        m.Cancel(55),
        m.Credit(consumer, 1, 1),
        m.LinkList(56),
        m.QueueShow(57, "NONE"),
        m.QueueCreate(58, "Q"),
    ]
    for request in requests:
        app.say(request)
        manager.turn(10)
    assert manager.store.flushes == 0


def test_turn_costs_one_flush_for_any_contents(manager: Manager, app: Client) -> None:
    clients = [manager.connect(f"c{i}") for i in range(20)]
    producers = [client.producer() for client in clients]
    manager.store.flushes = 0
    for producer in producers:
        batch = [record(b"x")] * 10
        producer.client.send(m.Put(producer.stream, 1, 0, "Q", batch))
    manager.turn()
    assert manager.store.flushes == 1
    held = app.get("Q", 200)
    assert manager.store.flushes == 1
    app.ack(*held)
    assert manager.store.flushes == 2


def test_delivery_writes_nothing(manager: Manager, app: Client) -> None:
    app.put("Q", *[b"x"] * 100)
    before = dict(manager.store.rows)
    app.get("Q", 50)
    app.consume("Q")
    manager.rest()
    assert dict(manager.store.rows) == before


# -- bounds


def test_turn_applies_a_limited_number_of_requests() -> None:
    manager = Manager(limits={"turn_requests": 10})
    app = manager.connect()
    manager.turn()
    app.send(*(m.Status(i) for i in range(1, 26)))
    answered = []
    while manager.turns.has_work:
        manager.turn()
        answered.append(len(app.hear()))
    assert answered == [10, 10, 5]


def test_turn_writes_a_limited_number_of_rows() -> None:
    manager = Manager(limits={"turn_rows": 100})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    producer = app.producer()
    app.send(*(m.Put(producer.stream, 1 + 20 * i, 0, "Q", [record(b"x")] * 20) for i in range(18)))
    depths = []
    while manager.turns.has_work:
        manager.turn()
        depths.append(manager.queue("Q").counters.depth)
    assert depths[:3] == [120, 240, 360]


def test_loud_connection_does_not_starve_a_quiet_one() -> None:
    manager = Manager(limits={"turn_requests": 10})
    loud, quiet = manager.connect("loud"), manager.connect("quiet")
    manager.turn()
    loud.send(*(m.Status(i) for i in range(1, 1_000)))
    quiet.send(m.Status(1))
    manager.turn()
    assert len(quiet.hear()) == 1
    assert len(loud.hear()) == 9


def test_turn_takes_a_limited_time() -> None:
    """Half of the 10 ms is for arrivals, and each arrival takes one millisecond here."""
    manager = Manager(limits={"turn_ms": 10}, clock_ns=Ticking(MS_NS))
    app = manager.connect()
    manager.rest()
    app.send(*(m.Status(i) for i in range(1, 12)))
    answered = []
    while manager.turns.has_work:
        manager.turn()
        answered.append(len(app.hear()))
    assert sum(answered) == 11
    assert max(answered) <= 5


def test_rest_of_a_turn_is_not_charged_to_its_last_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Ticking()
    manager = Manager(limits={"turn_rows": 1}, clock_ns=clock)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    producer = app.producer()
    producer.put("Q", b"x")
    broker = manager.turns.broker
    end = broker.end

    def long_end() -> Outcome:
        clock.now_ns += 1_000 * MS_NS
        return end()

    monkeypatch.setattr(broker, "end", long_end)
    app.send(m.Put(producer.stream, 2, 0, "Q", [record(b"x")] * 30))
    manager.turn()
    assert max(pending.used_ns for pending in manager.turns.intake._pending.values()) < MS_NS * 100


def test_everything_has_a_slice_of_turns_whose_time_arrivals_use_up() -> None:
    """In each turn, a job, returned leases, a publication and a consumer all make progress."""
    clock = Ticking()
    manager = Manager(limits={"turn_ms": 1}, clock_ns=clock)
    flood, quiet, lost = (manager.connect(name) for name in ("flood", "quiet", "lost"))
    for queue in ("Q", "OLD", "BACK"):
        quiet.ask(m.QueueCreate, queue)
        quiet.put(queue, *[b"x"] * 700)
    quiet.ask(m.Subscribe, "t", "B:s")
    assert len(lost.get("BACK", 700)) > 200
    quiet.put("/t", b"published")
    flood.send(*(m.Status(i) for i in range(1, 1_000)))
    clock.step_ns = MS_NS
    quiet.send(
        m.QueuePurge(50, "OLD"), m.Consume(51, "Q", 10_000, 1 << 20), m.Consume(52, "B:s", 9, 999)
    )
    lost.hang_up()
    for _ in range(150):
        manager.turn()
    assert manager.turns.intake
    assert manager.queue("OLD").counters.depth == 0
    assert manager.queue("BACK").leases == {}
    assert len(quiet.delivered()) == 701


def saturated() -> tuple[Manager, Client, Client]:
    """Returns a manager, a client that puts more than a turn can apply, and a quiet client."""
    manager = Manager(limits={"turn_rows": 100})
    loud, quiet = manager.connect("loud"), manager.connect("quiet")
    quiet.ask(m.QueueCreate, "Q")
    quiet.ask(m.QueueCreate, "OLD")
    producer = loud.producer()
    loud.send(*(m.Put(producer.stream, 1 + 60 * i, 0, "Q", [record(b"x")] * 60) for i in range(60)))
    return manager, loud, quiet


def test_consumers_are_served_while_puts_fill_every_turn() -> None:
    manager, _, quiet = saturated()
    quiet.consume("Q")
    for _ in range(10):
        manager.turn()
    assert manager.turns.intake
    assert len(quiet.delivered()) > 300


def test_jobs_go_on_while_puts_fill_every_turn() -> None:
    manager, _, quiet = saturated()
    quiet.ask(m.QueueDelete, "OLD")
    quiet.send(m.QueuePurge(50, "OLD"))
    for _ in range(10):
        manager.turn()
    assert manager.turns.intake
    assert manager.turns.broker.jobs.running == {}


# -- determinism


def converse(manager: Manager, seed: int) -> None:
    """Runs a long conversation that depends only on the seed."""
    rng = random.Random(seed)
    clients = [manager.connect(f"c{i}") for i in range(3)]
    for queue in ("Q", "R"):
        clients[0].ask(m.QueueCreate, queue, {"depth_max": 60})
    held = []
    for step in range(150):
        client, queue = rng.choice(clients), rng.choice("QR")
        body = bytes(rng.choice([5, 50, 6_000]))
        match rng.randrange(6):
            case 0 | 1:
                client.put_records(queue, *[record(body, priority=rng.randrange(10))] * 3)
            case 2:
                held += client.get(queue, 4, lease_ms=500)
            case 3 if held:
                client.ack(held.pop(rng.randrange(len(held))))
            case 4 if held:
                client.release(held.pop(rng.randrange(len(held))))
            case 5 if step % 9 == 0:
                client.ask(m.QueuePurge, queue)
        manager.turn(rng.randrange(200))


def test_same_requests_at_the_same_times_leave_the_same_bytes() -> None:
    first, second, other = Manager(), Manager(), Manager()
    converse(first, 1)
    converse(second, 1)
    converse(other, 2)
    assert dict(first.store.rows) == dict(second.store.rows)
    assert dict(first.store.rows) != dict(other.store.rows)


def test_both_stores_end_with_the_same_bytes(store: AnyStore) -> None:
    here, memory = Manager(store), Manager()
    converse(here, 3)
    converse(memory, 3)
    stored = dict(here.scan(b""))
    stored.pop(keys.CHECKPOINT, None)
    assert stored == dict(memory.store.rows)
    here.store.abort()


# -- start and stop


class CountingStore(MemoryStore):
    """A store that counts its reads."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: Counter[str] = Counter()

    def get(self, key: bytes) -> bytes | None:
        self.reads["get"] += 1
        return super().get(key)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        for pair in super().scan(start, stop):
            self.reads["row"] += 1
            yield pair


@pytest.mark.parametrize("clean", [True, False])
def test_start_reads_as_much_at_any_depth(clean: bool) -> None:
    """A start scans no messages: it makes the same number of reads with 10 and 10,000 messages."""
    costs = []
    for depth in (10, 10_000):
        manager = Manager(CountingStore())
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put("Q", *[b"x"] * depth)
        app.get("Q", 5)
        if clean:
            manager.restart()
            manager.store.reads.clear()
            manager.start()
        else:
            manager.store.reads.clear()
            manager.crash()
        costs.append(dict(manager.store.reads))
        manager.store.reads.clear()
        manager.connect().get("Q")
        costs[-1]["first get"] = sum(manager.store.reads.values())
    assert costs[0] == costs[1]


def test_stop_says_goodbye_brings_leases_back_and_marks_clean(
    store: AnyStore, manager: Manager, app: Client
) -> None:
    app.put("Q", *[b"x"] * 700)
    for _ in range(3):
        app.get("Q", 256)
    outcomes = manager.turns.stop(manager.now())
    closes = [close for outcome in outcomes for close in outcome.closes]
    assert [(number, goaway.code) for number, goaway in closes] == [
        (app.peer.number, ErrorCode.SHUTTING_DOWN)
    ]
    assert manager.queue("Q").leases == {}
    manager.crash()
    assert not manager.boot.unclean
    assert {x.state for x in manager.connect().get("Q", 256)} == {m.STATE_REDELIVERED}


def test_each_start_has_a_number_of_its_own(store: AnyStore, manager: Manager) -> None:
    numbers = [manager.boot.number]
    for _ in range(2):
        manager.crash()
        numbers.append(manager.boot.number)
    manager.restart()
    numbers.append(manager.boot.number)
    assert numbers == [1, 2, 3, 4]


def test_clean_mark_is_of_one_stop(manager: Manager) -> None:
    assert not manager.boot.unclean
    manager.restart()
    assert not manager.boot.unclean
    manager.crash()
    assert manager.boot.unclean
    manager.restart()
    assert not manager.boot.unclean
    assert rows.unseal(*manager.scan(keys.CLEAN)[0]) == (3).to_bytes(8, "big")
