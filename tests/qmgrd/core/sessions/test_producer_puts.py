"""Tests that single puts of a turn are stored together, with the results that each has alone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.context.producer import Producer as OpenProducer
from qmgrd.core.puts import client_put
from qmgrd.core.sessions import producer_puts
from qmgrd.core.turn import TurnFailed
from tests.qmgrd.core.any_record import any_record, plain_record
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Manager, Producer, record

QUEUES = ["Q", "Q", "Q", "SMALL", "F@NYC", "ALIAS", "DISCARDS", "INHIBITED", "NO.SUCH"]


def with_queues(count: int) -> tuple[Manager, list[Producer]]:
    """Returns a manager with queues of several kinds, and producers on different connections."""
    manager = Manager()
    app = manager.connect("app")
    app.ask(m.QueueCreate, "Q")
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 2})
    app.ask(m.QueueCreate, "DISCARDS", {"depth_max": 2, "overflow": "discard-oldest"})
    app.ask(m.QueueCreate, "INHIBITED", {"put_inhibit": True})
    app.ask(m.QueueCreate, "ALIAS", {"alias_of": "Q"})
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    return manager, [manager.connect(f"p{i}").producer() for i in range(count)]


def send(producer: Producer, queue: str, made: bytes, *, again: bool = False) -> None:
    producer.next_id += not again
    put = m.Put(producer.stream, producer.next_id - 1, 0, queue, [made])
    producer.client.send(put)


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of records in each call that stores puts."""
    counts: list[int] = []
    store_on = client_put.store_on

    def counting(*arguments: Any) -> Any:
        counts.append(len(arguments[-1]))
        return store_on(*arguments)

    monkeypatch.setattr(client_put, "store_on", counting)
    return counts


def test_puts_of_a_turn_are_stored_queue_by_queue(stored: list[int]) -> None:
    manager, producers = with_queues(40)
    for number, producer in enumerate(producers):
        send(producer, "Q" if number % 2 else "F@NYC", record(b"%d" % number))
    manager.turn()
    assert stored == [20, 20]
    assert [producer.answer() for producer in producers] == [[]] * 40
    bodies = [records.decode(x.record).body for x in manager.connect().get("Q", 40)]
    assert bodies == [b"%d" % number for number in range(1, 40, 2)]


def test_many_puts_are_stored_in_parts(stored: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producer_puts, "WAITING_MAX", 8)
    manager, producers = with_queues(20)
    for producer in producers:
        send(producer, "Q", record(b"x"))
    manager.turn()
    assert stored == [8, 8, 4]


def test_request_of_another_kind_follows_the_puts_before_it() -> None:
    manager, producers = with_queues(3)
    for producer in producers:
        send(producer, "Q", record(b"x"))
    reader = producers[0].client
    reader.send(m.Browse(7, "Q"))
    manager.turn()
    (browsed,) = [x for x in reader.hear() if isinstance(x, m.Ok)]
    assert len(browsed.value["items"]) == 3


def test_puts_of_a_connection_to_two_queues_stay_in_order(stored: list[int]) -> None:
    manager, (one, other) = with_queues(2)
    send(one, "Q", record(b"1"))
    send(other, "Q", record(b"2"))
    send(one, "SMALL", record(b"3"))
    manager.turn()
    assert stored == [2, 1]


def test_repeated_put_of_the_turn_is_stored_once_and_refused_as_before() -> None:
    manager, (one, other) = with_queues(2)
    for producer in (one, other):
        send(producer, "SMALL", record(b"x"))
    manager.turn()
    one.answer(), other.answer()
    send(one, "SMALL", record(b"x"))
    send(one, "SMALL", record(b"x"), again=True)
    manager.turn()
    refused = one.answer()
    assert {x.code for x in refused} == {ErrorCode.QUEUE_FULL}
    assert {x.seq_id for x in refused} == {2}


def test_each_refusal_reaches_its_producer() -> None:
    manager, producers = with_queues(5)
    for producer in producers:
        send(producer, "SMALL", record(b"x"))
    manager.turn()
    answers = [[x.code for x in producer.answer()] for producer in producers]
    assert answers == [[], [], *[[ErrorCode.QUEUE_FULL]] * 3]
    assert manager.queue("SMALL").counters.refused == 3


def test_each_stamp_reaches_its_producer() -> None:
    manager, producers = with_queues(3)
    for producer in producers:
        send(producer, "Q", record(producer.client.peer.number.to_bytes(8, "big")))
    manager.turn()
    uids = {}
    for producer in producers:
        (answer,) = [x for x in producer.client.hear() if isinstance(x, m.Committed)]
        ((seq_id, timestamp, count),) = answer.stamped
        assert (seq_id, count) == (1, 1)
        uids[timestamp] = producer.client.peer.number
    found = {
        x.uid.timestamp: int.from_bytes(records.decode(x.record).body, "big")
        for x in manager.connect().get("Q", 3)
    }
    assert found == uids


def test_producer_with_too_many_unseen_refusals_is_closed() -> None:
    manager = Manager(limits={"put_window_messages": 1})
    app = manager.connect("app")
    app.ask(m.QueueCreate, "SMALL", {"depth_max": 1})
    app.put("SMALL", b"x")
    clients = [manager.connect(f"p{number}") for number in range(2)]
    streams = [
        [client.producer(bytes(14) + bytes([i, j])) for i in range(3)]
        for j, client in enumerate(clients)
    ]
    for number in range(3):
        for of_one in streams:
            send(of_one[number], "SMALL", record(b"y"))
        manager.turn()
    for client in clients:
        assert client.goaway is not None
        assert client.goaway.code == ErrorCode.CREDIT_EXCEEDED


def with_room(manager: Manager, room_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits the room in the store in each turn."""
    room, context = manager.turns.broker._room, manager.turns.broker.context
    divide = room.divide

    def divided(store: Any) -> int:
        map_bytes = divide(store)
        context.room_bytes = room_bytes
        return map_bytes

    monkeypatch.setattr(room, "divide", divided)


def test_put_that_fits_by_itself_is_stored_in_a_store_that_is_nearly_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager, producers = with_queues(40)
    with_room(manager, 100_000, monkeypatch)
    for number, producer in enumerate(producers):
        send(producer, "Q", record(bytes(3_000 if number else 10)))
    manager.turn()
    refused = [[x.code for x in producer.answer()] for producer in producers]
    assert refused == [*[[]] * 16, *[[ErrorCode.STORE_FULL]] * 24]


def test_refused_put_to_a_remote_queue_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    manager, producers = with_queues(3)
    with_room(manager, 0, monkeypatch)
    for producer in producers:
        send(producer, "F@NYC", record(b"x"))
    manager.turn()
    assert manager.queue("@NYC").counters.refused == 3


def test_time_of_waiting_puts_is_charged_to_their_connections(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise, the next connection would wait as if it had put all of them."""
    clock = [0]
    manager = Manager(clock_ns=lambda: clock[0])
    app = manager.connect("app")
    app.ask(m.QueueCreate, "Q")
    producers = [manager.connect(f"p{i}").producer() for i in range(4)]
    reader = manager.connect("reader")
    intake = manager.turns.intake
    used_ns = {number: pending.used_ns for number, pending in intake._pending.items()}
    store_on = client_put.store_on

    def slow(*arguments: Any) -> Any:
        clock[0] += 4_000
        return store_on(*arguments)

    monkeypatch.setattr(client_put, "store_on", slow)
    for producer in producers:
        send(producer, "Q", record(b"x"))
    reader.send(m.Browse(7, "Q"))
    manager.turn()
    more_ns = {
        number: pending.used_ns - used_ns.get(number, 0)
        for number, pending in intake._pending.items()
    }
    slot_ns = min(more_ns.values())
    assert [more_ns[producer.client.peer.number] - slot_ns for producer in producers] == [1_000] * 4
    assert more_ns[reader.peer.number] == slot_ns


def test_id_that_is_marked_as_seen_before_its_answer_is_not_kept() -> None:
    manager, (producer, _) = with_queues(2)
    for client in (manager.connect("a"), manager.connect("b")):
        client.put("SMALL", b"x")
    for number in (1, 2):
        producer.client.send(m.Put(producer.stream, number, number - 1, "SMALL", [record(b"y")]))
    manager.turn()
    (stream,) = manager.turns.broker.sessions[producer.client.peer.number].streams.values()
    assert isinstance(stream, OpenProducer)
    assert sorted(stream.refused) == [2]


def test_failure_of_joined_puts_accuses_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    manager, producers = with_queues(2)
    for producer in producers:
        send(producer, "Q", record(b"x"))
    producers[0].client.send(m.Browse(7, "Q"))

    def fail(*arguments: Any) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(client_put, "store_on", fail)
    with pytest.raises(TurnFailed) as failed:
        manager.turns.run(manager.now())
    assert failed.value.connection == 0


def test_failure_of_a_put_by_itself_accuses_its_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    manager, producers = with_queues(2)
    manager.turns.broker.streams.puts.joins_from_ms = manager.now().ms + 1
    send(producers[1], "Q", record(b"x"))

    def fail(*arguments: Any) -> None:
        raise ValueError("planted")

    monkeypatch.setattr(client_put, "store_on", fail)
    with pytest.raises(TurnFailed) as failed:
        manager.turns.run(manager.now())
    assert failed.value.connection == producers[1].client.peer.number


def outcome(steps: list[tuple[int, str, bytes, bool]], *, joins: bool) -> Any:
    """Returns the answers and the messages after *steps*, which are one turn."""
    manager, producers = with_queues(4)
    manager.turns.broker.streams.puts.joins_from_ms = 0 if joins else 1 << 62
    for number, queue, made, again in steps:
        producer = producers[number]
        send(producer, queue, made, again=again and producer.next_id > 1)
    manager.turn()
    audit(manager)
    answers = []
    for producer in producers:
        found = [x for x in producer.client.hear() if isinstance(x, m.Committed)]
        answers.append(
            [
                (x.commit_id, sorted(y[:2] for y in x.refused), sum(y[2] for y in x.stamped))
                for x in found
            ]
        )
    reader = manager.connect("reader")
    queues = {name: reader.bodies(name) for name in ("Q", "SMALL", "DISCARDS")}
    counters = {name: manager.queue(name).counters.as_dict() for name in (*queues, "@NYC")}
    return answers, queues, counters


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from(QUEUES),
            st.one_of(plain_record, plain_record, any_record),
            st.booleans(),
        ),
        max_size=10,
    )
)
def test_joined_puts_have_the_outcome_of_single_puts(
    steps: list[tuple[int, str, bytes, bool]],
) -> None:
    assert outcome(steps, joins=True) == outcome(steps, joins=False)
