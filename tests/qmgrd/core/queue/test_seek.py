"""Tests of consumers and gets with selections: wake-ups, costs of checks, and completeness."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.queue import facts, selection
from qmgrd.core.queue import seek as seeks
from qmgrd.core.queue.lease import AGAIN_MAX
from qmgrd.core.queue.seek import LOOKED_AT_MAX
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Delivery, Manager, record
from tests.qmgrd.core.jobs.test_due_work import run_due_work
from tests.qmgrd.core.queue.test_selection import GROUP, UID, got

FOREVER_MS = m.WAIT_MAX_MS
WAYS: list[dict[str, Any]] = [
    {"correlation_id": b"c"},
    {"group_id": GROUP},
    {"uid": UID},
    {"where": "correlation_id = 'c'"},
    {"correlation_id": b"c", "all_available": True},
    {"group_id": GROUP, "all_available": True},
    {"uid": UID, "all_available": True},
    {"where": "correlation_id = 'c'", "all_available": True},
]
FIELDS: dict[str, Any] = {"correlation_id": b"c", "group": (GROUP, 1, True), "uid": ("O", 7)}


def waiting(app: Client, wait_ms: int = FOREVER_MS, count: int = 1, **fields: Any) -> int:
    """Sends a get that waits; returns the id of the request."""
    request = m.Get(app.next_id(), "Q", count, wait_ms, 0, 1 << 20, **fields)
    app.say(request)
    return request.request_id


def bodies(app: Client) -> list[bytes]:
    app.manager.rest()
    return [x.body for x in app.delivered()]


# -- wake-ups of a waiting get


@pytest.mark.parametrize("way", WAYS)
def test_put_wakes_a_waiting_get(app: Client, way: dict[str, Any]) -> None:
    waiting(app, **way)
    app.put("Q", b"other")
    assert bodies(app) == []
    app.put("Q", b"1", **FIELDS)
    assert bodies(app) == [b"1"]


@pytest.mark.parametrize("way", WAYS)
def test_release_wakes_a_waiting_get(app: Client, way: dict[str, Any]) -> None:
    app.put("Q", b"1", **FIELDS)
    (held,) = app.get("Q")
    waiting(app, **way)
    assert bodies(app) == []
    app.release(held)
    assert bodies(app) == [b"1"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("long", [False, True])
def test_end_of_a_delay_wakes_a_waiting_get(app: Client, way: dict[str, Any], long: bool) -> None:
    app.put("Q", bytes(9_000 * long), delay_ms=1_000, **FIELDS)
    waiting(app, **way)
    assert bodies(app) == []
    run_due_work(app.manager, 1_000)
    assert len(bodies(app)) == 1


@pytest.mark.parametrize("way", WAYS)
def test_commit_wakes_a_waiting_get_G20(app: Client, way: dict[str, Any]) -> None:
    producer = app.producer(b"U" * 16)
    app.ask(m.UnitBegin, 7)
    app.ask(m.UnitPut, 7, "Q", [record(b"1", **FIELDS)])
    waiting(app, **way)
    assert bodies(app) == []
    app.send(m.UnitCommit(producer.stream, 1, 0, 7, 1, 0))
    app.manager.turn()
    assert bodies(app) == [b"1"]


def test_complete_group_is_found_behind_and_before_many_incomplete_ones(app: Client) -> None:
    """E11: In physical order, every group is found, whenever it becomes complete."""
    others = 2 * LOOKED_AT_MAX
    first = record(b"first", group=(b"F" * 24, 1, False))
    parts = [record(b"", group=(b"%024d" % n, 1, False)) for n in range(1, others)]
    app.put_records("Q", first, *parts, record(b"behind", group=(b"B" * 24, 1, True)))
    waiting(app, all_available=True)
    assert bodies(app) == [b"behind"]
    waiting(app, all_available=True)
    assert bodies(app) == []
    app.put_records("Q", record(b"last", group=(b"F" * 24, 2, True)))
    assert bodies(app) == [b"first"]


@pytest.mark.parametrize("fields", [{"all_available": True}, {"order": m.LOGICAL}])
def test_index_delivers_a_later_message_of_higher_priority(
    app: Client, fields: dict[str, Any]
) -> None:
    request = m.Consume(app.next_id(), "Q", 9, 1 << 20, correlation_id=b"c", **fields)
    app.send(request)
    app.answer(request.request_id)
    for body, priority in ((b"low", 4), (b"high", 9)):
        app.put("Q", body, correlation_id=b"c", priority=priority)
        assert bodies(app) == [body]


@pytest.mark.parametrize("fields", [{}, {"where": "priority = 9"}])
def test_member_put_in_a_unit_before_the_first_is_delivered_with_its_group(
    app: Client, fields: dict[str, Any]
) -> None:
    """E11: A late commit places the group before messages that arrived first."""
    producer = app.producer(b"U" * 16)
    waiting(app, all_available=True, **fields)
    app.ask(m.UnitBegin, 7)
    app.ask(m.UnitPut, 7, "Q", [record(b"A2", group=(GROUP, 2, False), priority=9)])
    app.put("Q", b"A1", group=(GROUP, 1, False), priority=9 - 8 * bool(fields))
    app.send(m.UnitCommit(producer.stream, 1, 0, 7, 1, 0))
    assert bodies(app) == []
    app.put("Q", b"A3", group=(GROUP, 3, True), priority=0)
    assert bodies(app) == [b"A2"]


def test_returned_message_behind_a_new_one_hides_nothing(app: Client) -> None:
    app.put("Q", b"A1", group=(GROUP, 1, False))
    app.put("Q", b"A2", group=(GROUP, 2, False), correlation_id=b"wanted")
    app.put("Q", b"one", correlation_id=b"one")
    (held,) = got(app, correlation_id=b"one")
    waiting(app, all_available=True, where="correlation_id = 'wanted'")
    assert bodies(app) == []
    app.send(m.Settle(app.next_id(), m.RELEASE, held.queue_id, held.handle))
    app.put("Q", b"A3", group=(GROUP, 3, True))  # This happens in the same turn.
    assert bodies(app) == [b"A2"]


def test_messages_beyond_one_slice_are_found(app: Client) -> None:
    count = AGAIN_MAX + 100
    for _ in range(0, count, 100):
        app.put("Q", *[b"x"] * 100)
    held = [x for _ in range(0, count, 100) for x in app.get("Q", 100)]
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 1, 1 << 30, where="priority >= 0"))
    app.answer(request_id)
    app.put("Q", b"last")
    assert bodies(app) == [b"last"]
    for one in reversed(held):
        app.release(one)
    app.send(m.Credit(request_id, 2 * count, 1 << 30))
    assert len(bodies(app)) == count


@pytest.mark.parametrize("way", WAYS)
def test_wait_ends_by_time_and_by_cancel(app: Client, way: dict[str, Any]) -> None:
    first, second = waiting(app, 1_000, **way), waiting(app, **way)
    app.hear()
    app.manager.turn(1_000)
    app.manager.rest()
    assert app.hear() == [m.Ok(first)]
    (ended,) = app.say(m.Cancel(second))
    assert (ended.request_id, ended.code) == (second, ErrorCode.CANCELLED)
    queue = app.manager.queue("Q")
    for left in (
        queue.waiting.seeking,
        queue.waiting.selecting,
        queue.waiting.rotation,
        queue.waiting.ending,
    ):
        assert not left


def test_two_gets_with_the_same_selection_receive_one_each(app: Client) -> None:
    waiting(app, correlation_id=b"c")
    waiting(app, correlation_id=b"c")
    app.put("Q", b"1", correlation_id=b"c")
    assert bodies(app) == [b"1"]
    app.put("Q", b"2", b"3", correlation_id=b"c")
    assert bodies(app) == [b"2"]
    assert [x.body for x in app.get("Q", 5)] == [b"3"]


# -- limits


def test_exhausted_leases_do_not_keep_a_get_waiting_for_ever() -> None:
    app = Manager(queue_defaults={"leases_max": 1}).connect()
    app.ask(m.QueueCreate, "Q")
    for name in (b"a", b"b", b"c"):
        waiting(app, correlation_id=name)
    app.send(
        m.Put(
            app.producer(b"P" * 16).stream,
            1,
            0,
            "Q",
            [
                record(b"1", correlation_id=b"a"),
                record(b"2", correlation_id=b"b"),
                record(b"3", correlation_id=b"c"),
            ],
        )
    )
    app.manager.turn()
    found: list[bytes] = []
    for _ in range(3):
        app.manager.rest()
        (delivery,) = app.delivered()
        found.append(delivery.body)
        app.ack(delivery)
    assert sorted(found) == [b"1", b"2", b"3"]
    audit(app.manager)


@pytest.mark.parametrize("way", [WAYS[0], WAYS[1], WAYS[3]])
def test_consumer_with_a_selection_respects_its_credit(app: Client, way: dict[str, Any]) -> None:
    number = app.next_id()
    app.send(m.Consume(number, "Q", 2, 1 << 20, 0, **way))
    app.put_records(
        "Q",
        *[record(b"%d" % i, correlation_id=b"c", group=(GROUP, 1 + i, False)) for i in range(5)],
    )
    assert bodies(app) == [b"0", b"1"]
    app.send(m.Credit(number, 2, 0))
    app.manager.turn()
    assert bodies(app) == [b"2", b"3"]


def test_long_messages_are_split_into_frames(app: Client) -> None:
    app.put("Q", *[bytes(400_000)] * 5, correlation_id=b"c")
    app.ask(m.Consume, *m.Consume(0, "Q", 10, 1 << 30, 0, "", b"c")[1:])
    app.manager.rest()
    frames = [x for x in app.hear() if type(x) is m.Deliver]
    assert [len(x.items) for x in frames] == [2, 2, 1]


def test_many_gets_of_one_turn_all_find_their_messages() -> None:
    """The gets do not wait. If a turn uses up its rows, a later turn answers them."""
    manager = Manager(limits={"turn_rows": 500})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    count = 300
    app.put_records("Q", *[record(bytes(3_000), correlation_id=b"%d" % i) for i in range(count)])
    app.send(
        *[
            m.Get(app.next_id(), "Q", 1, 0, 0, 1 << 20, correlation_id=b"%d" % i)
            for i in range(count)
        ]
    )
    manager.turn()
    manager.rest()
    assert len(app.delivered()) == count


def test_damaged_message_is_set_aside_and_the_next_one_delivered(
    manager: Manager, app: Client
) -> None:
    app.put("Q", b"1", b"2", correlation_id=b"c")
    key, value = manager.scan(b"\x10")[0]
    manager.store.rows[key] = value[:-12] + bytes([value[-12] ^ 1]) + value[-11:]
    assert [x.body for x in got(app, correlation_id=b"c")] == [b"2"]
    assert app.show("Q")["damaged"] == 1


# -- consumers that hold many of their selected messages


BY_INDEX = WAYS[:2]
MANY = 2 * LOOKED_AT_MAX + 100


def put_many(app: Client) -> None:
    app.put_records(
        "Q",
        *[record(b"%d" % i, correlation_id=b"c", group=(GROUP, 2 + i, False)) for i in range(MANY)],
    )


@pytest.mark.parametrize("way", BY_INDEX)
def test_consumer_by_index_holds_as_many_as_its_credit_allows(
    app: Client, way: dict[str, Any]
) -> None:
    put_many(app)
    app.ask(m.Consume, *m.Consume(0, "Q", MANY + 1, 1 << 30, 0, **way)[1:])
    assert bodies(app) == [b"%d" % i for i in range(MANY)]


@pytest.mark.parametrize("way", BY_INDEX)
def test_get_by_index_finds_messages_behind_many_leased_ones(
    app: Client, way: dict[str, Any]
) -> None:
    put_many(app)
    app.ask(m.Consume, *m.Consume(0, "Q", MANY - 1, 1 << 30, 0, **way)[1:])
    assert len(bodies(app)) == MANY - 1
    assert [x.body for x in got(app, **way)] == [b"%d" % (MANY - 1)]


@pytest.mark.parametrize("way", BY_INDEX)
@pytest.mark.parametrize("wait_ms", [0, 1_000])
def test_wait_ends_if_all_selected_messages_are_leased(
    app: Client, way: dict[str, Any], wait_ms: int
) -> None:
    put_many(app)
    app.put("Q", b"of no interest", priority=0)
    assert len(app.get("Q", MANY)) == 256
    app.ask(m.Consume, *m.Consume(0, "Q", MANY, 1 << 30, 0, **way)[1:])
    assert len(bodies(app)) == MANY - 256
    heard = app.say(m.Get(app.next_id(), "Q", 1, wait_ms, 0, 1 << 20, **way))
    app.manager.rest()  # While it waits, the get is not checked again.
    app.manager.turn(wait_ms)
    app.manager.rest()
    assert [type(x) for x in heard + app.hear()] == [m.Ok]


@pytest.mark.parametrize("way", BY_INDEX)
def test_returned_message_before_the_position_is_found_at_once(
    app: Client, way: dict[str, Any]
) -> None:
    put_many(app)
    app.ask(m.Consume, *m.Consume(0, "Q", MANY + 1, 1 << 30, 0, **way)[1:])
    app.manager.rest()
    held = app.delivered()
    assert len(held) == MANY
    app.release(held[-1], held[3])
    app.manager.rest()
    assert [x.body for x in app.delivered()] == [b"3"]
    app.put("Q", b"late", priority=9, correlation_id=b"c", group=(GROUP, 1, False))
    app.ask(m.Consume, *m.Consume(0, "Q", 9, 1 << 30, 0, **way)[1:])
    app.manager.rest()
    assert [x.body for x in app.delivered()] == [b"late", b"%d" % (MANY - 1)]


@pytest.mark.parametrize("way", BY_INDEX)
def test_equal_selections_share_the_rows_of_a_turn(way: dict[str, Any]) -> None:
    manager = Manager(limits={"turn_rows": 500})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    put_many(app)
    for _ in range(8):
        app.send(m.Consume(app.next_id(), "Q", MANY // 8, 1 << 30, 0, **way))
    deliveries, turns = 0, 0
    while manager.turns.has_work:
        manager.turn()
        turns += 1
        found = len([x for x in app.hear() if type(x) is m.Deliver])
        assert found <= 5
        deliveries += found
    assert deliveries == 8
    assert turns > 2


@pytest.mark.parametrize("way", WAYS)
def test_position_is_forgotten_with_the_last_selection(app: Client, way: dict[str, Any]) -> None:
    app.put("Q", b"1", **FIELDS)
    assert [x.body for x in got(app, **way)] == [b"1"]
    assert app.manager.queue("Q").waiting.reached == {}


# -- number of checks


def test_put_wakes_only_its_own_get_among_thousands(
    manager: Manager, app: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reply therefore costs the same for any number of waiting clients."""
    per_connection = manager.config.limits.request_window
    count, clients = 5_000, []
    for start in range(0, count, per_connection):
        client = manager.connect("waits")
        clients.append(client)
        for number in range(start, min(start + per_connection, count)):
            client.send(
                m.Get(
                    client.next_id(), "Q", 1, FOREVER_MS, 0, 1 << 20, correlation_id=b"%d" % number
                )
            )
        manager.turn()
        manager.rest()
    looked: list[bytes] = []

    def counting(queue: Any, tx: Any, now: Any, consumer: Any, n: int) -> Any:
        looked.append(consumer.prefix)
        return kept(queue, tx, now, consumer, n)

    kept = seeks.seek
    monkeypatch.setattr("qmgrd.core.sessions.pump.seek", counting)
    app.put("Q", b"mine", correlation_id=b"4321")
    manager.rest()
    assert len(looked) == 1
    assert [x.body for client in clients for x in client.delivered()] == [b"mine"]


class Looks:
    """Counts how often each message is checked against a selector."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        kept = facts.MessageFacts

        def counting(*args: Any) -> Any:
            self.count += 1
            return kept(*args)

        monkeypatch.setattr(selection, "MessageFacts", counting)


def test_selector_checks_each_message_once(app: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """Puts and gets happen in between. A returned message is checked once more."""
    looks = Looks(monkeypatch)
    app.put("Q", *[b"x"] * 1_200)
    app.ask(m.Consume, *m.Consume(0, "Q", 10, 1 << 20, 0, "priority = 8")[1:])
    app.manager.rest()
    assert looks.count == 1_200
    app.put("Q", *[b"y"] * 10, priority=9)
    app.put("Q", b"wanted", priority=8)
    assert bodies(app) == [b"wanted"]
    assert looks.count == 1_211
    app.release(*app.get("Q", 5))
    app.manager.rest()
    assert looks.count == 1_216


def test_get_without_a_wait_checks_all_messages_in_slices(manager: Manager, app: Client) -> None:
    app.put("Q", *[b"x"] * 5_000)
    request = app.next_id()
    app.send(m.Get(request, "Q", 1, 0, 0, 1 << 20, "priority = 8"))
    turns = 0
    while not (heard := app.hear()):
        manager.turn()
        turns += 1
    assert heard == [m.Ok(request)]
    assert 5_000 / LOOKED_AT_MAX / 2 <= turns <= 5_000 / LOOKED_AT_MAX + 2


def test_slices_are_smaller_if_the_selector_takes_long(manager: Manager, app: Client) -> None:
    """The time that a check takes counts as rows, for the slice and for the turn."""
    app.put("Q", *[b"x"] * 24, envelope={"headers": {"g": "a" * 4_000}})
    request = app.next_id()
    where = " OR ".join(["h LIKE '%" + "_" * 250 + "b%'"] * 14)
    app.send(m.Get(request, "Q", 1, 0, 0, 1 << 20, where))
    turns = 0
    while not (heard := app.hear()):
        manager.turn()
        turns += 1
    assert heard == [m.Ok(request)]
    assert turns >= 24 / (manager.config.limits.turn_rows // 1_000)


def test_last_of_many_is_found_by_a_get_without_a_wait(app: Client) -> None:
    app.put("Q", *[b"x"] * 5_000)
    app.put("Q", b"wanted", priority=1)
    assert [x.body for x in got(app, where="priority = 1")] == [b"wanted"]


@pytest.fixture
def small() -> Client:
    """Returns a client of a queue manager with a small limit of rows per turn."""
    app = Manager(limits={"turn_rows": 500}).connect()
    app.ask(m.QueueCreate, "Q")
    return app


def test_many_searches_in_vain_share_the_rows_of_many_turns(
    small: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All searches check the unwanted messages, but no turn takes longer."""
    looks, messages, consumers = Looks(monkeypatch), 100, 50
    for number in range(consumers):
        small.ask(m.Consume, *m.Consume(0, "Q", 9, 1 << 20, 0, f"n = {number}")[1:])
    producer = small.producer(b"P" * 16)
    small.send(m.Put(producer.stream, 1, 0, "Q", [record(b"x")] * messages))
    most = 0
    while small.manager.turns.has_work:
        before = looks.count
        small.manager.turn()
        most = max(most, looks.count - before)
    assert looks.count == messages * consumers
    assert most <= 500 + messages


def test_no_search_starves_among_many_in_vain(small: Client) -> None:
    for number in range(50):
        small.ask(
            m.Consume, *m.Consume(0, "Q", 9, 1 << 20, 0, f"priority = 9 AND n = {number}")[1:]
        )
    last = small.manager.connect("last")
    last.ask(m.Consume, *m.Consume(0, "Q", 9, 1 << 20, 0, "priority = 8")[1:])
    producer = small.producer(b"P" * 16)
    small.send(m.Put(producer.stream, 1, 0, "Q", [record(b"x")] * 200))
    for number in range(60):  # A new message in each turn keeps each search running.
        small.send(
            m.Put(producer.stream, 201 + number, 0, "Q", [record(b"%d" % number, priority=8)])
        )
        small.manager.turn()
    found = [x.body for x in last.delivered()]
    assert found == [b"%d" % number for number in range(9)]
    small.manager.rest()


def test_new_message_is_found_by_a_search_that_passed_its_place(small: Client) -> None:
    first = small.manager.connect("first")
    first.ask(m.Consume, *m.Consume(0, "Q", 9, 1 << 20, 0, "priority = 8")[1:])
    for number in range(50):
        small.ask(m.Consume, *m.Consume(0, "Q", 9, 1 << 20, 0, f"n = {number}")[1:])
    producer = small.producer(b"P" * 16)
    small.send(m.Put(producer.stream, 1, 0, "Q", [record(b"x")] * 200))
    small.manager.turn()
    assert small.manager.queue("Q").waiting.unasked > 0
    small.send(m.Put(producer.stream, 201, 0, "Q", [record(b"new", priority=8)]))
    small.manager.rest()
    assert [x.body for x in first.delivered()] == [b"new"]


def test_many_waits_that_end_at_once_cost_one_check_each(
    small: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, messages, count = Looks(monkeypatch), 100, 50
    small.put("Q", *[b"x"] * messages)
    gets = [m.Get(small.next_id(), "Q", 1, 0, 0, 1 << 20, "priority = 8") for _ in range(count)]
    small.send(*gets)
    small.manager.rest()
    assert small.hear() == [m.Ok(get.request_id) for get in gets]
    assert looks.count == messages * count


def test_get_can_be_cancelled_during_its_search(manager: Manager, app: Client) -> None:
    app.put("Q", *[b"x"] * 5_000)
    request = app.next_id()
    app.say(m.Get(request, "Q", 1, 0, 0, 1 << 20, "priority = 8"))
    (ended,) = app.say(m.Cancel(request))
    assert (ended.request_id, ended.code) == (request, ErrorCode.CANCELLED)
    assert manager.rest() <= 2
    assert app.hear() == []


def test_connection_lost_during_a_search_leaves_nothing(manager: Manager, app: Client) -> None:
    app.put("Q", *[b"x"] * 5_000)
    app.say(m.Get(app.next_id(), "Q", 1, 0, 0, 1 << 20, "priority = 8"))
    app.hang_up()
    manager.rest()
    queue = manager.queue("Q")
    for left in (queue.waiting.selecting, queue.waiting.rotation, queue.waiting.ending):
        assert not left


# -- completeness


steps = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put late", "ack", "release", "get", "delay", "wait"]),
        st.integers(0, 9),
        st.integers(0, 2),
    ),
    max_size=40,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "ways",
    [
        [{"where": "priority < 4"}, {"where": "priority > 2"}],
        [{"correlation_id": b"c"}, {"correlation_id": b"c"}],
        [{"group_id": GROUP}, {"where": "priority < 4"}],
    ],
)
@given(steps)
def test_each_message_goes_to_one_of_those_who_want_it(
    ways: list[dict[str, Any]], steps: list[Any]
) -> None:
    """Two consumers with selectors, and sometimes one without, are compared with a plain filter."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeks, "LOOKED_AT_MAX", 2)
        hand_out(ways, steps)


def hand_out(ways: list[dict[str, Any]], steps: list[Any]) -> None:
    manager = Manager()
    app, plain = manager.connect("selects"), manager.connect("plain")
    app.ask(m.QueueCreate, "Q")
    producer = app.producer(b"U" * 16)
    for way in ways:
        app.ask(m.Consume, *m.Consume(0, "Q", 10_000, 1 << 30, 0, **way)[1:])
    free: dict[bytes, int] = {}
    held: list[tuple[Client, Delivery]] = []
    late = 0
    for number, (step, priority, pick) in enumerate(steps):
        body = b"%d" % number
        fields: dict[str, Any] = {
            "priority": priority,
            "correlation_id": b"c",
            "group": (GROUP, 100 - 2 * number, False),
        }
        if step == "put":
            app.put("Q", body, **fields)
            free[body] = priority
        # The message keeps the position of its put, but becomes visible last.
        elif step == "put late":
            late += 1
            app.ask(m.UnitBegin, late)
            app.ask(m.UnitPut, late, "Q", [record(body, **fields)])
            fields["group"] = (GROUP, 99 - 2 * number, False)
            app.put("Q", b"before" + body, **fields)
            app.send(m.UnitCommit(producer.stream, late, 0, late, 1, 0))
            free[body] = free[b"before" + body] = priority
        elif step == "delay":
            app.put("Q", body, delay_ms=100, **fields)
            run_due_work(manager, 100)
            free[body] = priority
        elif step == "get":
            held += [(plain, x) for x in plain.get("Q", 1 + pick)]
        elif step == "wait":
            manager.turn(10)
        elif held:
            client, found = held.pop(pick % len(held))
            if step == "ack":
                client.ack(found)
                free.pop(found.body)
            else:
                client.release(found)
        run_due_work(manager)
        held += [(app, x) for x in app.delivered()]
        taken = {x.body for _, x in held}
        left = {body for body in free if body not in taken}
        assert not left, "the message is available, but no matching consumer received it"
        assert all(x.body in free for _, x in held)
        assert len(taken) == len(held), "sent twice"
        audit(manager)
