"""Tests of units of work: all or nothing, invisible until the commit, undone by any other end."""

from collections.abc import Callable
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Fields, Uid, encode_uid
from qmgrd.core.limits.room import unit_rows
from qmgrd.core.queue import plain
from qmgrd.core.queue import put as puts
from qmgrd.core.returns.returns import RETURNS_PER_TURN
from qmgrd.core.sessions.units import ROWS_OF_A_GET
from tests.disk_stores import disk_store
from tests.memory_store import MemoryStore
from tests.qmgrd.core.any_record import any_record, plain_record
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import AnyStore, Client, Manager, Producer, record
from tests.qmgrd.core.unit_of_work import UnitOfWork, bodies, note_of, settle

LOST = [ErrorCode.LEASE_LOST]
End = Callable[[Client, UnitOfWork], None]


def by_backout(app: Client, unit: UnitOfWork) -> None:
    assert unit.backout() == [unit.puts, unit.gets]


def by_lost_connection(app: Client, unit: UnitOfWork) -> None:
    unit.client.hang_up()
    app.manager.rest()


def by_age(app: Client, unit: UnitOfWork) -> None:
    app.manager.turn(app.manager.config.unit.age_max_ms)
    app.manager.rest()


def by_crash(app: Client, unit: UnitOfWork) -> None:
    app.manager.crash()


def by_restart(app: Client, unit: UnitOfWork) -> None:
    app.manager.restart()


ENDS = [by_backout, by_lost_connection, by_age, by_crash, by_restart]


# -- G20


def test_uncommitted_put_is_invisible_to_all_G20(app: Client) -> None:
    manager = app.manager
    other = manager.connect("other")
    unit = UnitOfWork(app)
    unit.put("Q", b"held", correlation_id=b"c", group=(b"g" * 24, 1, False))
    for client in (app, other):
        assert client.get("Q") == []
        assert client.bodies("Q") == []
        assert client.ask(m.Get, "Q", 1, 0, 0, 1_000, "", b"c") is None
        assert client.ask(m.Get, "Q", 1, 0, 0, 1_000, "", b"", b"g" * 24) is None
        assert client.ask(m.Browse, "Q", None, 9, 1_000, "", b"c")["items"] == []
    other.consume("Q")
    assert other.delivered() == []
    shown = app.show("Q")
    assert [shown[key] for key in ("depth", "ready", "held", "puts")] == [0, 0, 1, 0]
    unit.commit()
    assert bodies(other.delivered()) == [b"held"]


def test_waiting_get_has_what_a_commit_puts_there_G20(app: Client) -> None:
    other = app.manager.connect("other")
    unit = UnitOfWork(app)
    other.say(m.Get(900, "Q", 1, 60_000))
    unit.put("Q", b"held")
    assert other.delivered() == []
    unit.commit()
    assert bodies(other.delivered()) == [b"held"]


def test_uncommitted_get_is_unavailable_to_others_G20(app: Client) -> None:
    app.put("Q", b"a", b"b")
    unit = UnitOfWork(app)
    assert bodies(unit.get("Q")) == [b"a"]
    other = app.manager.connect("other")
    assert bodies(other.get("Q", 9)) == [b"b"]
    app.manager.turn(2 * app.manager.queue("Q").bounds.lease_ms)  # The lease has no deadline.
    other.get("Q", 9)
    assert not unit.commit()
    assert app.show("Q")["acked"] == 1


@pytest.mark.parametrize("end", ENDS)
def test_end_without_commit_undoes_puts_and_gets_in_place_G20(
    store: AnyStore, app: Client, end: End
) -> None:
    """The messages are in order of priority and arrival, as before the unit."""
    worker = app.manager.connect("worker")
    for priority in (4, 9, 4, 0):
        app.put("Q", b"old%d" % priority, priority=priority)
    unit = UnitOfWork(worker)
    assert bodies(unit.get("Q", 3)) == [b"old9", b"old4", b"old4"]
    unit.put("Q", b"new", bytes(9_000), priority=9)
    app.put("Q", b"young", priority=4)
    audit(app.manager)
    end(app, unit)
    audit(app.manager)
    again = app.manager.connect("again")
    found = again.get("Q", 9)
    assert bodies(found) == [b"old9", b"old4", b"old4", b"young", b"old0"]
    delivered, failed = end is not by_crash, end not in (by_crash, by_restart)
    counts = [(delivered, failed)] * 3 + [(0, 0)] * 2
    assert [(x.delivered, x.failed) for x in found] == counts
    assert again.show("Q")["held"] == 0
    assert not again.ack(*found)


def test_consumer_has_what_a_backout_returns_before_what_is_younger_G20(app: Client) -> None:
    app.put("Q", *[b"%d" % number for number in range(6)])
    unit = UnitOfWork(app)
    unit.get("Q", 3)
    other = app.manager.connect("other")
    assert bodies(other.get("Q")) == [b"3"]
    unit.backout()
    assert bodies(other.get("Q", 9)) == [b"0", b"1", b"2", b"4", b"5"]


@pytest.mark.parametrize("when", ["before", "after"])
def test_commit_is_all_or_nothing_over_a_crash_G20(store: AnyStore, app: Client, when: str) -> None:
    manager = app.manager
    app.ask(m.QueueCreate, "OUT")
    app.put("Q", b"in1", bytes(9_000))
    unit = UnitOfWork(app)
    unit.get("Q", 2)
    unit.put("OUT", b"out", bytes(10_000))
    app.send(unit.message())
    if when == "before":
        manager.advance(0)
        manager.turns._apply(manager.now())  # The whole turn runs, and then its effects are lost.
    else:
        manager.turn()
    manager.crash()
    audit(manager)
    app = manager.connect()
    lengths = [[len(body) for body in app.bodies(queue)] for queue in ("Q", "OUT")]
    assert lengths == ([[3, 9_000], []] if when == "before" else [[], [3, 10_000]])
    assert [x.failed for x in app.get("Q", 9)] == ([0, 0] if when == "before" else [])


# -- plain puts, which are held and appended in batches

Step = tuple[str, str, list[bytes]]
LIMITS: list[dict[str, int]] = [
    {},
    {},
    {},
    {},
    {"messages_max": 5},
    {"bytes_max": 5_000},
    {"rows_max": 12},
    {"held_bytes_max": 12_000},
    {"connection_bytes_max": 12_000},
]
BOUNDS: list[dict[str, Any]] = [
    {},
    {},
    {"priority_default": 7},
    {"depth_max": 4},
    {"bytes_max": 6_000},
    {"depth_max": 4, "overflow": "discard-oldest"},
    {"message_max_bytes": 3_000},
    {"expiry_max_ms": 60_000},
]


def outcome(steps: list[Step], limits: dict[str, int], bounds: dict[str, Any], end: str) -> Any:
    """Returns the answers, counters and messages of puts inside and outside a unit."""
    app = limited(**limits)
    manager = app.manager
    app.ask(m.QueueAlter, "Q", bounds or {"depth_max": 10**6})
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    unit = UnitOfWork(app)
    said: list[Any] = []
    for who, name, batch in steps:
        if who == "other":
            said.append([app.put_records(name, *batch)] if batch else [])
            continue
        refused, stamped = app.ask(m.UnitPut, unit.number, name, batch)
        said.append((refused, stamped))
        unit.puts += len(batch) - len(refused)
    audit(manager)
    held = manager.turns.broker.sessions[app.peer.number].units[unit.number]
    places = [(x.queue.name, x.arrival, x.prepared.record, x.index_key) for x in held.puts]
    said.append((held.bytes, held.rows, places))
    said.append(getattr(unit, end)())
    audit(manager)
    context = manager.turns.broker.context
    return said, context.stamper.last_us, context.rows, dict(manager.scan(b""))


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["unit", "unit", "other"]),
            st.sampled_from(["Q", "Q", "F@NYC"]),
            st.lists(st.one_of(plain_record, plain_record, any_record), max_size=8),
        ),
        max_size=4,
    ),
    st.sampled_from(LIMITS),
    st.sampled_from(BOUNDS),
    st.sampled_from(["commit", "backout"]),
)
def test_plain_puts_are_held_and_committed_as_all_others_G20(
    steps: list[Step], limits: dict[str, int], bounds: dict[str, Any], end: str
) -> None:
    fast = outcome(steps, limits, bounds, end)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain, "_PLAIN_MAX_BYTES", 0)
        slow = outcome(steps, limits, bounds, end)
    assert fast == slow


def test_own_earlier_uid_after_plain_puts_keeps_their_place_without_rows() -> None:
    """The commit forgot the plain puts before it, so no lookup found them."""
    plain_put = records.encode(Fields(b""))
    earlier = records.encode(Fields(bytes(9_000), uid=Uid("QM1", 5)))
    outcome([("unit", "F@NYC", [plain_put] * 4 + [earlier])], {}, {}, "commit")


@pytest.mark.parametrize("name", ["Q", "F@NYC"])
def test_plain_puts_take_the_tight_loops(
    app: Client, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Otherwise, the test above would compare the slow loops with themselves."""
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    unit = UnitOfWork(app)
    with monkeypatch.context() as patch:
        patch.setattr(puts, "prepare", None)
        patch.setattr(puts, "append", None)
        unit.put(name, *[b"%d" % number for number in range(300)], correlation_id=b"c")
        assert unit.commit() == []
    found = app.browse("Q" if name == "Q" else "@NYC")
    assert [int(x.body) for x in found] == list(range(300))


def test_stamps_of_a_unit_are_reported_in_runs(app: Client) -> None:
    UnitOfWork(app)
    batch = [record(b"plain"), record(b"plain"), record(b"timed", expiry_ms=9_000), b"rotten"]
    batch += [record(b"stamped", uid=("B", 1)), record(b"plain")]
    refused, stamped = app.ask(m.UnitPut, 1, "Q", batch)
    first = stamped[0][1]
    assert [index for index, _, _ in refused] == [3]
    assert stamped == [[0, first, 3], [5, first + 3, 1]]


def test_own_uid_of_a_plain_put_that_is_held_is_a_duplicate_A12(app: Client) -> None:
    """The producer knows the UID from the answer, and may send the message to another queue."""
    UnitOfWork(app)
    _, ((_, timestamp, _),) = app.ask(m.UnitPut, 1, "Q", [record(b"x")] * 3)
    again = record(b"x", uid=("QM1", timestamp + 2))
    assert [x.code for x in app.put_records("Q", again)] == [ErrorCode.DUPLICATE_UNCOMMITTED]


@pytest.mark.parametrize("sought", ["uid", "correlation_id", "where"])
def test_selecting_get_receives_a_commit_before_its_position_G20(app: Client, sought: str) -> None:
    other = app.manager.connect("other")
    UnitOfWork(app)
    batch = [
        record(b"%d" % priority, priority=priority, correlation_id=b"c") for priority in (3, 4)
    ]
    _, ((_, timestamp, _),) = app.ask(m.UnitPut, 1, "Q", batch)
    app.put("Q", b"passed", priority=3)
    select: dict[str, dict[str, Any]] = {
        "uid": {"uid": encode_uid(Uid("QM1", timestamp))},
        "correlation_id": {"correlation_id": b"c"},
        "where": {"where": "priority = 3 AND correlation_id = 'c'"},
    }
    other.say(m.Get(900, "Q", 2, 60_000, **select[sought]))
    assert other.delivered() == []
    producer = app.producer()
    app.say(m.UnitCommit(producer.stream, producer.next_id, 0, 1, 2, 0))
    wanted = [b"4", b"3"] if sought == "correlation_id" else [b"3"]
    assert bodies(other.delivered()) == wanted


# -- G23, D11


def test_what_was_put_first_and_committed_later_is_first_G23(store: AnyStore, app: Client) -> None:
    other = app.manager.connect("other")
    unit = UnitOfWork(app)
    unit.put("Q", b"A")
    unit.put("Q", b"A low", priority=1)
    other.put("Q", b"B")
    other.put("Q", b"B low", priority=1)
    assert bodies(other.get("Q")) == [b"B"]
    unit.commit()
    assert app.bodies("Q") == [b"A", b"B", b"A low", b"B low"]
    assert bodies(other.get("Q", 9)) == [b"A", b"A low", b"B low"]
    app.manager.crash()
    assert app.manager.connect().bodies("Q") == [b"A", b"B", b"A low", b"B low"]


def test_place_of_a_unit_that_was_backed_out_stays_empty_G23(app: Client) -> None:
    unit = UnitOfWork(app)
    unit.put("Q", b"A")
    app.put("Q", b"B")
    unit.backout()
    app.put("Q", b"C")
    assert [x.arrival for x in app.get("Q", 9)] == [2, 3]


def test_ids_of_a_link_are_given_by_commits_without_holes_D11_G23(app: Client) -> None:
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    other = app.manager.connect("other")
    first, second = UnitOfWork(app, 1), UnitOfWork(app, 2)
    first.put("F@NYC", b"first")
    second.put("F@NYC", b"never")
    other.put("F@NYC", b"outside")
    assert app.manager.queue("@NYC").counters.next_arrival == 2
    second.backout()
    first.commit()
    assert [(x.arrival, x.body) for x in app.browse("@NYC")] == [(1, b"outside"), (2, b"first")]
    assert app.manager.queue("@NYC").counters.next_arrival == 3


# -- A12, A13


def test_duplicate_of_what_a_unit_holds_is_refused_for_later_A12(app: Client) -> None:
    uid = record(b"x", uid=("B", 9))
    unit = UnitOfWork(app)
    assert not unit.put_records("Q", uid)
    assert [x.code for x in app.put_records("Q", uid)] == [ErrorCode.DUPLICATE_UNCOMMITTED]
    assert unit.put_records("Q", uid) == [ErrorCode.DUPLICATE_UNCOMMITTED]
    unit.backout()
    assert not app.put_records("Q", uid)
    assert [x.code for x in app.put_records("Q", uid)] == [ErrorCode.DUPLICATE_MESSAGE]


def test_duplicate_of_a_hidden_message_is_refused_A12(app: Client) -> None:
    """The message may be leased, delayed, got in a unit, or returned by a backout."""
    for number in (1, 2, 3):
        assert not app.put_records("Q", record(b"x", uid=("B", number)))
    leased, delayed, taken = app.get("Q", 3)
    settle(app, m.RELEASE, delayed, delay_ms=60_000)
    unit = UnitOfWork(app)
    unit.take(taken)
    again = [record(b"x", uid=("B", number)) for number in (1, 2, 3)]
    codes = [ErrorCode.DUPLICATE_MESSAGE] * 3
    assert [x.code for x in app.put_records("Q", *again)] == codes
    assert unit.put_records("Q", *again) == codes
    audit(app.manager)
    assert app.ack(leased) == []
    unit.backout()
    assert [x.code for x in app.put_records("Q", *again)] == codes[1:]


def test_entry_is_not_lowered_by_a_backout_A13(store: AnyStore, app: Client) -> None:
    unit = UnitOfWork(app)
    assert not unit.put_records("Q", record(b"x", uid=("B", 9)))
    unit.backout()
    assert not app.put_records("Q", record(b"x", uid=("B", 9)), record(b"x", uid=("B", 8)))
    shown = app.show("Q")
    assert (shown["puts"], shown["slow"], shown["origins"]["B"]) == (2, 1, 9)


def test_link_waits_for_a_unit_that_holds_its_message_A12(app: Client) -> None:
    """If the message counted as stored, a backout of the unit would lose it."""
    far = Far(app.manager)
    far.open()
    unit = UnitOfWork(app)
    assert not unit.put_records("Q", message(1))
    (answer,) = far.send(1, message(1))
    assert type(answer) is m.Blocked
    assert (answer.seq_id, answer.code) == (1, ErrorCode.DUPLICATE_UNCOMMITTED)
    assert far.committed() == []
    unit.backout()
    assert far.send(1, message(1)) == []
    assert far.committed() == [1]
    assert app.bodies("Q") == [b"1"]


def test_link_takes_what_a_unit_committed_as_stored_A12(app: Client) -> None:
    far = Far(app.manager)
    far.open()
    unit = UnitOfWork(app)
    unit.put_records("Q", message(1))
    far.send(1, message(1))
    unit.commit()
    assert far.send(1, message(1)) == []
    assert far.committed() == [1]
    assert app.bodies("Q") == [b"1"]


# -- commits sent again


def test_commit_sent_again_is_done_once(store: AnyStore, app: Client) -> None:
    app.put("Q", b"in")
    unit = UnitOfWork(app)
    unit.get("Q")
    unit.put("Q", b"out")
    commit = unit.message()
    app.say(commit)
    for restart in ("crash", "restart", "now"):
        getattr(app.manager, restart)()
        again = app.manager.connect()
        producer = Producer(again, b"%016d" % app.peer.number, True)
        assert producer.commit_id == commit.seq_id
        again.send(commit._replace(stream=producer.stream))
        assert producer.answer() == []
        assert again.bodies("Q") == [b"out"]
        audit(app.manager)


def test_commit_of_a_unit_that_was_lost_is_answered_the_same_each_time(
    store: AnyStore, app: Client
) -> None:
    unit = UnitOfWork(app)
    unit.put("Q", b"x")
    commit = unit.message()
    app.manager.crash()
    for restart in ("now", "crash", "restart"):
        getattr(app.manager, restart)()
        again = app.manager.connect()
        producer = Producer(again, b"%016d" % app.peer.number, True)
        again.send(commit._replace(stream=producer.stream))
        assert [x.code for x in producer.answer()] == [ErrorCode.UNIT_BACKED_OUT]
        # A new unit with the same number is a different unit.
        again.ask(m.UnitBegin, commit.unit)
        again.send(commit._replace(stream=producer.stream))
        assert [x.code for x in producer.answer()] == [ErrorCode.UNIT_BACKED_OUT]
        assert again.bodies("Q") == []


def test_commit_on_a_stream_that_is_not_open_breaks_the_protocol(app: Client) -> None:
    unit = UnitOfWork(app)
    unit.put("Q", b"x")
    app.say(unit.message()._replace(stream=77))
    assert app.goaway is not None
    assert app.goaway.code == ErrorCode.STREAM_UNKNOWN
    assert app.manager.queue("Q").uncommitted.messages == 0


# -- refused commits


@pytest.mark.parametrize(("puts", "gets"), [(1, 1), (3, 1), (2, 0), (2, 2)])
def test_commit_of_an_incomplete_unit_backs_it_out(app: Client, puts: int, gets: int) -> None:
    app.put("Q", b"in")
    unit = UnitOfWork(app)
    unit.get("Q")
    unit.put("Q", b"1", b"2")
    unit.puts, unit.gets = puts, gets
    assert unit.commit() == [ErrorCode.UNIT_INCOMPLETE]
    assert [(x.body, x.failed) for x in app.browse("Q")] == [(b"in", 1)]
    assert unit.commit() == [ErrorCode.UNIT_BACKED_OUT]


def small_disk(app: Client, *, is_full: bool) -> None:
    assert isinstance(app.manager.store, MemoryStore)
    app.manager.store.disk_free_bytes = 0 if is_full else 1 << 40


def test_full_store_leaves_a_unit_open_until_it_can_be_committed(app: Client) -> None:
    unit = UnitOfWork(app)
    unit.put("Q", b"x")
    small_disk(app, is_full=True)
    assert unit.put_records("Q", record(b"y")) == [ErrorCode.STORE_FULL]
    assert unit.commit() == [ErrorCode.STORE_FULL]
    small_disk(app, is_full=False)
    assert unit.commit() == []
    assert app.bodies("Q") == [b"x"]


def test_gets_alone_are_committed_in_a_full_store(app: Client) -> None:
    """Gets free space, which a full store needs."""
    app.put("Q", b"x")
    unit = UnitOfWork(app)
    unit.get("Q")
    small_disk(app, is_full=True)
    assert unit.commit() == []
    assert app.show("Q")["depth"] == 0


def test_reason_of_a_backout_is_in_the_note_of_what_was_got(app: Client) -> None:
    app.put("Q", b"x")
    unit = UnitOfWork(app)
    unit.get("Q")
    app.ask(m.UnitBackout, unit.number, "ValueError", "no such carrier")
    (found,) = app.get("Q")
    ((_, code, reason, text, *_),) = note_of(found)["attempts"]
    assert (code, reason, text) == (ErrorCode.UNIT_BACKED_OUT, "ValueError", "no such carrier")


@pytest.mark.parametrize("what", ["put", "get"])
def test_queue_that_was_deleted_meanwhile_undoes_all_of_a_unit(app: Client, what: str) -> None:
    app.ask(m.QueueCreate, "GONE")
    app.put("GONE", b"x")
    app.put("Q", b"in")
    unit = UnitOfWork(app)
    unit.get("Q")
    unit.put("Q", b"out")
    if what == "put":
        unit.put("GONE", b"y")
    else:
        unit.get("GONE")
    app.ask(m.QueueDelete, "GONE", True)
    app.ask(m.QueueCreate, "GONE")
    assert unit.commit() == [ErrorCode.UNIT_BACKED_OUT]
    assert app.bodies("Q") == [b"in"]
    assert app.bodies("GONE") == []
    app.manager.rest()


@pytest.mark.parametrize("end", ENDS)
def test_unit_bound_for_a_link_that_was_deleted_comes_to_rest(app: Client, end: End) -> None:
    worker = app.manager.connect("worker")
    app.ask(m.LinkCreate, "NYC", {"addresses": ["nyc:1"], "stopped": True})
    app.ask(m.QueueCreate, "F@NYC")
    unit = UnitOfWork(worker)
    unit.put("F@NYC", b"x")
    app.ask(m.QueueDelete, "F@NYC")
    app.ask(m.LinkDelete, "NYC")
    end(app, unit)
    assert app.manager.rest() < 10


def test_held_messages_count_as_depth_G13(app: Client) -> None:
    """The depth counts messages in all states: held, leased, delayed, ready, or got in a unit."""
    app.ask(m.QueueAlter, "Q", {"depth_max": 5})
    app.put("Q", b"1", b"2", b"3", b"4")
    leased, delayed, taken = app.get("Q", 3)
    settle(app, m.RELEASE, delayed, delay_ms=60_000)
    unit = UnitOfWork(app)
    unit.take(taken)
    unit.put("Q", b"5")
    full = [ErrorCode.QUEUE_FULL]
    assert unit.put_records("Q", record(b"6")) == full
    assert [x.code for x in app.put_records("Q", record(b"6"))] == full
    assert app.ack(leased) == []
    assert not app.put_records("Q", record(b"6"))
    assert [x.code for x in app.put_records("Q", record(b"7"))] == full
    assert unit.commit() == []
    assert not app.put_records("Q", record(b"7"))
    assert app.show("Q")["refused"] == 3


def test_held_bytes_count(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"bytes_max": 10_000})
    unit = UnitOfWork(app)
    unit.put("Q", bytes(6_000))
    code = [ErrorCode.QUEUE_BYTES_FULL]
    assert [x.code for x in app.put_records("Q", record(bytes(4_500)))] == code
    assert unit.put_records("Q", record(bytes(4_500))) == code
    unit.backout()
    assert not app.put_records("Q", record(bytes(9_000)))


def test_full_queue_that_makes_room_does_so_for_what_it_takes_only(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"depth_max": 2, "overflow": "discard-oldest"})
    app.put_records("Q", *(record(b"%d" % number, uid=("B", number)) for number in (1, 2)))
    unit = UnitOfWork(app)
    refused = unit.put_records("Q", record(b"2", uid=("B", 2)), b"rotten")
    assert refused == [ErrorCode.DUPLICATE_MESSAGE, ErrorCode.RECORD_MALFORMED]
    assert app.bodies("Q") == [b"1", b"2"]
    unit.put("Q", b"3")
    assert bodies(app.browse("Q")) == [b"1", b"2"]  # A unit that is backed out evicts nothing.
    assert unit.commit() == []
    assert app.bodies("Q") == [b"2", b"3"]


def test_unit_may_not_hold_more_than_its_queue_may_have_G13(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"depth_max": 2, "overflow": "dead-letter-oldest"})
    app.put("Q", b"1", b"2")
    unit = UnitOfWork(app)
    refused = unit.put_records("Q", *(record(b"%d" % number) for number in (3, 4, 5)))
    assert refused == [ErrorCode.QUEUE_FULL]
    assert bodies(unit.get("Q")) == [b"1"]
    assert unit.commit() == []
    assert app.bodies("Q") == [b"3", b"4"]
    assert app.bodies("SYSTEM.DEAD.LETTERS") == [b"2"]  # The get in this unit has also made space.


def test_commit_keeps_to_the_limit_where_all_else_is_leased_G13(app: Client) -> None:
    app.ask(m.QueueAlter, "Q", {"depth_max": 2, "overflow": "discard-oldest"})
    app.put("Q", b"1", b"2")
    unit = UnitOfWork(app.manager.connect("other"))
    unit.put("Q", b"3", b"4")
    assert bodies(app.get("Q")) == [b"1"]
    assert unit.commit() == []
    assert bodies(app.browse("Q")) == [b"1", b"4"]
    assert bodies(app.get("Q")) == [b"4"]
    another = UnitOfWork(app)
    another.put("Q", b"later", delay_ms=1_000)
    assert another.commit() == []
    assert app.show("Q")["delayed"] == 0


def test_message_that_another_connection_holds_is_not_taken_into_a_unit(app: Client) -> None:
    other = app.manager.connect("other")
    app.put("Q", b"1")
    (held,) = app.get("Q")
    UnitOfWork(other)
    settle_id = other.next_id()
    (answer,) = other.say(m.Settle(settle_id, m.ACK, held.queue_id, held.handle, 1))
    assert answer.exceptions == [[settle_id, 0, ErrorCode.LEASE_LOST]]
    assert not app.ack(held)


def test_refusals_of_a_unit_are_counted_and_stored(app: Client) -> None:
    unit = UnitOfWork(app)
    assert unit.put_records("Q", b"rotten") == [ErrorCode.RECORD_MALFORMED]
    audit(app.manager)
    app.ask(m.QueueAlter, "Q", {"put_inhibit": True})
    assert app.code_of(m.UnitPut, 1, "Q", [record(b"1"), record(b"2")]) == ErrorCode.PUT_INHIBITED
    audit(app.manager)
    assert app.show("Q")["refused"] == 3


# -- limits


def limited(**limits: object) -> Client:
    app = Manager(unit=limits).connect()
    app.ask(m.QueueCreate, "Q")
    return app


def test_messages_of_a_unit_are_bounded() -> None:
    app = limited(messages_max=3)
    app.put("Q", b"1", b"2")
    unit = UnitOfWork(app)
    unit.get("Q", 2)
    too_large = [ErrorCode.UNIT_TOO_LARGE]
    assert unit.put_records("Q", record(b"3"), record(b"4")) == too_large
    app.put("Q", b"5")
    (left,) = app.get("Q")
    assert unit.take(left) == too_large
    assert app.release(left) == []
    assert unit.commit() == []
    assert app.bodies("Q") == [b"3", b"5"]
    audit(app.manager)


def test_bytes_of_a_unit_are_bounded() -> None:
    app = limited(bytes_max=2_048)
    unit = UnitOfWork(app)
    unit.put("Q", bytes(1_500))
    assert unit.put_records("Q", record(bytes(600))) == [ErrorCode.UNIT_TOO_LARGE]
    unit.put("Q", bytes(100))
    assert unit.commit() == []
    audit(app.manager)


@pytest.mark.parametrize("what", ["put", "get"])
def test_rows_of_a_unit_are_bounded_by_those_of_long_bodies(what: str) -> None:
    """A message of 40 KB counts as 11 rows, whether it is put or got."""
    app = limited(rows_max=38)
    app.put("Q", *[bytes(40_000)] * 3)
    unit = UnitOfWork(app)
    if what == "put":
        unit.put("Q", bytes(40_000), bytes(40_000))
        assert unit.put_records("Q", record(bytes(40_000))) == [ErrorCode.UNIT_TOO_LARGE]
    else:
        found = app.get("Q", 3)
        assert unit.take(*found) == [ErrorCode.UNIT_TOO_LARGE]
        assert app.release(found[2]) == []
    assert unit.commit() == []
    assert app.show("Q")["depth"] == (5 if what == "put" else 1)
    audit(app.manager)


def test_rows_by_which_a_message_is_found_count() -> None:
    app = limited(rows_max=16)
    unit = UnitOfWork(app)
    for number in (1, 2):  # 8 rows for each message
        group = (b"g" * 24, number, False)
        unit.put("Q", b"x", correlation_id=b"c", group=group, expiry_ms=60_000)
    assert unit.put_records("Q", record(b"3")) == [ErrorCode.UNIT_TOO_LARGE]
    assert unit.commit() == []
    unit = UnitOfWork(app)
    unit.put("Q", *[b"plain"] * 8)
    assert unit.put_records("Q", record(b"9")) == [ErrorCode.UNIT_TOO_LARGE]
    assert unit.commit() == []
    found = app.get("Q", 10)
    unit = UnitOfWork(app)
    assert unit.take(*found[:2]) == []
    assert unit.take(found[2]) == [ErrorCode.UNIT_TOO_LARGE]
    unit.backout()
    unit = UnitOfWork(app)
    assert unit.take(*found[2:4]) == []
    audit(app.manager)


def test_rows_of_plain_puts_that_come_together_are_bounded() -> None:
    app = limited(rows_max=10)
    unit = UnitOfWork(app)
    batch = [record(b"x", correlation_id=b"c")] * 4  # 3 rows for each message
    assert unit.put_records("Q", *batch) == [ErrorCode.UNIT_TOO_LARGE]
    assert unit.commit() == []
    audit(app.manager)


def test_units_of_a_connection_are_bounded_and_numbers_are_free_again() -> None:
    app = limited(units_per_connection_max=2)
    first = UnitOfWork(app, 1)
    UnitOfWork(app, 2)
    assert app.code_of(m.UnitBegin, 3) == ErrorCode.UNITS_EXHAUSTED
    assert app.code_of(m.UnitBegin, 2) == ErrorCode.VALUE_INVALID
    assert first.commit() == []
    UnitOfWork(app, 1).put("Q", b"x")
    # Each connection has a separate limit.
    assert app.manager.connect().ask(m.UnitBegin, 1) is None
    audit(app.manager)


def test_one_connection_cannot_hold_the_memory_of_all_units() -> None:
    app = limited(connection_bytes_max=10_000, held_bytes_max=30_000)
    units = [UnitOfWork(app, number) for number in (1, 2)]
    units[0].put("Q", bytes(4_000))
    units[1].put("Q", b"", b"", b"")  # Each put takes memory, even with an empty body.
    with_puts = units[1].put_records("Q", *[record(b"")] * 2)
    assert with_puts == [ErrorCode.UNITS_EXHAUSTED]  # The first put still fits.
    other = app.manager.connect()
    UnitOfWork(other).put("Q", bytes(8_000))
    third = app.manager.connect()
    one = UnitOfWork(third)
    assert one.put_records("Q", record(bytes(8_000))) == [ErrorCode.UNITS_EXHAUSTED]
    units[0].backout()
    assert one.put_records("Q", record(bytes(7_000))) == []
    audit(app.manager)


@pytest.mark.parametrize("end", [by_backout, by_age])
def test_nothing_can_be_done_in_a_unit_that_is_over(app: Client, end: End) -> None:
    app.put("Q", b"x")
    unit = UnitOfWork(app)
    end(app, unit)
    assert app.code_of(m.UnitPut, 1, "Q", [record(b"y")]) == ErrorCode.UNIT_UNKNOWN
    assert app.code_of(m.UnitBackout, 1) == ErrorCode.UNIT_UNKNOWN
    (found,) = app.get("Q")
    assert unit.take(found) == [ErrorCode.UNIT_UNKNOWN]
    assert app.ack(found) == []
    assert unit.commit() == [ErrorCode.UNIT_BACKED_OUT]


def test_age_counts_from_the_begin_and_is_reported_to_operators(app: Client) -> None:
    manager = app.manager
    unit = UnitOfWork(app)
    manager.turn(manager.config.unit.age_max_ms - 1)
    unit.put("Q", b"x")
    assert manager.queue("Q").uncommitted.messages == 1
    manager.turn(1)
    assert manager.queue("Q").uncommitted.messages == 0
    assert b"unit of work backed out" in app.bodies("SYSTEM.EVENTS")[0]


def test_commit_in_the_turn_of_its_age_is_in_time(app: Client) -> None:
    unit = UnitOfWork(app)
    unit.put("Q", b"x")
    app.send(unit.message())
    app.manager.turn(10 * app.manager.config.unit.age_max_ms)
    assert app.bodies("Q") == [b"x"]
    assert app.manager.turns.broker.sessions[app.peer.number].units == {}


def test_unit_that_is_over_leaves_no_timer(app: Client) -> None:
    timers = app.manager.turns.broker.context.timers
    before = timers.next_ms()
    for end in ("commit", "backout"):
        unit = UnitOfWork(app)
        getattr(unit, end)()
    assert timers.next_ms() == before


# -- old handles


@pytest.mark.parametrize("action", [m.ACK, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT, m.RENEW])
@pytest.mark.parametrize("fields", [{}, {"correlation_id": b"c"}], ids=["plain", "indexed"])
def test_message_in_a_unit_is_settled_only_by_the_commit(
    app: Client, action: int, fields: dict[str, bytes]
) -> None:
    """Otherwise, an ack with the old handle would delete a message that a backout returned."""
    app.put("Q", b"x", **fields)
    unit = UnitOfWork(app)
    (found,) = unit.get("Q")
    assert settle(app, action, found) == LOST
    assert unit.take(found) == LOST
    assert settle(app.manager.connect(), action, found) == LOST
    audit(app.manager)
    assert unit.backout() == [0, 1]
    (again,) = app.get("Q")
    assert (again.body, again.failed) == (b"x", 1)


def test_handle_of_an_ended_lease_cannot_join_a_unit(app: Client) -> None:
    app.put("Q", b"x")
    unit = UnitOfWork(app)
    (found,) = app.get("Q", lease_ms=1_000)
    app.manager.turn(1_000)
    assert unit.take(found) == LOST
    assert unit.commit() == []
    assert app.bodies("Q") == [b"x"]


# -- breaker


def test_breaker_counts_what_units_do(app: Client) -> None:
    """A backout counts as failures. A commit ends the test phase of the breaker."""
    changes = {"breaker_percent": 50, "breaker_messages_min": 2, "breaker_pause_ms": 1_000}
    app.ask(m.QueueAlter, "Q", changes)
    app.put("Q", b"1", b"2", b"3")
    unit = UnitOfWork(app)
    unit.get("Q", 2)
    unit.backout()
    assert app.show("Q")["breaker"] == "open"
    assert app.get("Q") == []
    app.manager.turn(1_000)
    unit = UnitOfWork(app)
    assert bodies(unit.get("Q", 3)) == [b"1"]
    assert app.show("Q")["breaker"] == "probing"
    unit.commit()
    assert app.show("Q")["breaker"] == "closed"
    assert bodies(app.get("Q", 3)) == [b"2", b"3"]


# -- large numbers


def test_backout_of_as_many_gets_as_a_unit_may_have() -> None:
    app = limited()
    count = app.manager.config.unit.messages_max
    app.put("Q", *[b"%d" % number for number in range(count)])
    unit = UnitOfWork(app)
    while len(unit.get("Q", 1_000)):
        pass
    assert unit.backout() == [0, count]
    returned = [app.manager.queue("Q").counters.returned]
    while returned[-1] < count:
        app.manager.turn()
        returned.append(app.manager.queue("Q").counters.returned)
    assert returned[0] == RETURNS_PER_TURN
    assert max(b - a for a, b in pairwise(returned)) <= RETURNS_PER_TURN
    assert [(int(x.body), x.failed) for x in app.browse("Q")] == [(n, 1) for n in range(count)]
    audit(app.manager)


@pytest.mark.parametrize("end", [by_lost_connection, by_age])
def test_a_hundred_units_end_in_slices(end: End) -> None:
    """A turn returns no more messages than its share, even if many units end together."""
    app = limited()
    worker = app.manager.connect("worker")
    units = [UnitOfWork(worker, number) for number in range(1, 101)]
    app.put("Q", *[b"%d" % number for number in range(2_000)])
    for unit in units:
        unit.get("Q", 20)
        unit.put("Q", b"never")
    queue, most = app.manager.queue("Q"), 0
    assert (len(queue.leases), queue.uncommitted.messages) == (2_000, 100)
    if end is by_age:
        app.manager.advance(app.manager.config.unit.age_max_ms)
    else:
        worker.hang_up()
    while queue.leases:
        before = len(queue.leases)
        app.manager.turn()
        most = max(most, before - len(queue.leases))
    assert most <= RETURNS_PER_TURN
    assert queue.uncommitted.messages == 0
    audit(app.manager)
    assert [(int(x.body), x.failed) for x in app.browse("Q")] == [(n, 1) for n in range(2_000)]


def full_and_small(directory: Path, map_bytes: int) -> Client:
    """Returns a client of a manager whose store is full."""
    app = Manager(disk_store(directory, map_bytes), store={"map_bytes": map_bytes}).connect()
    app.ask(m.QueueCreate, "Q")
    batch = [record(bytes(900), correlation_id=b"c%d" % number) for number in range(8)]
    while not app.put_records("Q", *batch):
        pass
    return app


def test_commit_in_a_small_map_is_bounded_by_what_that_can_bear(tmp_path: Path) -> None:
    """Otherwise, the commit would stop the daemon: each row may need a page that is freed later."""
    app = full_and_small(tmp_path, 1 << 21)
    unit = UnitOfWork(app)
    found = app.get("Q", 200)
    refused = unit.take(*found)
    assert set(refused) == {ErrorCode.UNIT_TOO_LARGE}
    assert unit.gets == unit_rows(app.manager.config) // ROWS_OF_A_GET == 3
    assert unit.commit() == []
    audit(app.manager)
    app.manager.store.close()


def test_full_store_that_is_small_bears_the_end_of_many_units(tmp_path: Path) -> None:
    """Above the mark, the store has space for the counters, in slices, but not for history."""
    app = full_and_small(tmp_path, 1 << 21)
    manager = app.manager
    workers = [manager.connect("worker") for _ in range(20)]
    each = unit_rows(manager.config) // ROWS_OF_A_GET
    for worker, number in product(workers, range(1, 101)):
        if not UnitOfWork(worker, number).get("Q", each):
            break
    assert app.show("Q")["leased"] > 300
    for worker in workers:
        worker.hang_up()
    manager.rest()
    assert {x.failed for x in app.browse("Q")} == {1}
    audit(manager)
    manager.store.close()


# Rights that were revoked before the commit


LINK = {"addresses": ["nyc:1"], "stopped": True, "routes": ["BOS"]}
DESTINATIONS = {  # and the right to put there
    "Q": "put queue Q",
    "SALES": "put queue Q",
    "/a/b": "publish topic a/#",
    "FLIGHTS@NYC": "put queue FLIGHTS@NYC",
    "ROUTED@BOS": "put queue ROUTED@BOS",
}


@pytest.mark.parametrize("is_revoked", [False, True])
@pytest.mark.parametrize("name", DESTINATIONS)
def test_commit_without_the_right_to_put_backs_the_unit_out(
    app: Client, name: str, is_revoked: bool
) -> None:
    app.ask(m.LinkCreate, "NYC", LINK)
    for remote in ("FLIGHTS@NYC", "ROUTED@BOS"):
        app.ask(m.QueueCreate, remote)
    app.ask(m.QueueCreate, "SALES", {"alias_of": "Q"})
    app.put("Q", b"1")
    guarded = Guarded(app.manager)
    bob = guarded.user("bob", "get queue Q", "show queue Q", DESTINATIONS[name])
    unit = UnitOfWork(bob)
    assert bodies(unit.get("Q")) == [b"1"]
    unit.put(name, b"2")
    guarded.revoke("bob", DESTINATIONS[name] if is_revoked else "show queue Q")
    assert unit.commit() == ([ErrorCode.NOT_AUTHORIZED] if is_revoked else [])
    assert bob.code_of(m.UnitBackout, unit.number) == ErrorCode.UNIT_UNKNOWN
    assert (b"1" in app.bodies("Q")) == is_revoked
    assert not app.manager.queue("Q").leases


def test_commit_without_the_right_to_get_backs_the_unit_out(app: Client) -> None:
    app.put("Q", b"1")
    app.ask(m.QueueCreate, "OTHER")
    guarded = Guarded(app.manager)
    bob = guarded.user("bob", "get queue Q", "put queue OTHER")
    unit = UnitOfWork(bob)
    unit.get("Q")
    unit.put("OTHER", b"2")
    guarded.revoke("bob", "get queue Q")
    assert unit.commit() == [ErrorCode.NOT_AUTHORIZED]
    app.manager.rest()
    assert (app.bodies("Q"), app.bodies("OTHER")) == ([b"1"], [])


def test_commit_that_was_repeated_has_the_same_answer_after_the_right_returns(app: Client) -> None:
    guarded = Guarded(app.manager)
    bob = guarded.user("bob", "put queue Q")
    unit = UnitOfWork(bob)
    unit.put("Q", b"1")
    guarded.revoke("bob", "put queue Q")
    commit = unit.message()
    bob.send(commit)
    assert [x.code for x in unit.producer.answer()] == [ErrorCode.NOT_AUTHORIZED]
    guarded.grant("bob", "put queue Q")
    bob.send(commit._replace(seen=0))
    assert app.bodies("Q") == []
