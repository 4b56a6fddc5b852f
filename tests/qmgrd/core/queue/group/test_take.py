"""Tests of takes in logical and pinned order. tests/conversations/group tests the table."""

from collections.abc import Iterator
from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.layout.kv import Now
from qmgrd.core.queue.group.held_groups import Reader
from qmgrd.core.queue.group.take import take_in_order
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.seek import LOOKED_AT_MAX
from qmgrd.core.sessions.request_part import SETTLE_HANDLES
from tests.group_player import GroupPlayer, group_id, member
from tests.memory_store import MemoryStore
from tests.qmgrd.core.harness import Client, Manager, items, lessee, record


class CountingStore(MemoryStore):
    """A store that counts the rows read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads = 0

    def get(self, key: bytes) -> bytes | None:
        self.reads += 1
        return super().get(key)

    def scan(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        for row in super().scan(start, stop):
            self.reads += 1
            yield row


def filled(others: int) -> tuple[CountingStore, Client]:
    """Returns a queue with messages before group Z, half of which are in incomplete groups."""
    store = CountingStore()
    manager = Manager(store, queue_defaults={"depth_max": 10**6})
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    for number in range(others // 2):
        odd = number.to_bytes(4, "big").rjust(24, b"o")
        app.put_records("Q", record(b"free"), record(b"", group=(odd, 2, False)))
    app.put_records("Q", *(member(x) for x in ("Z1", "Z2", "Z3", "Z4!")))
    return store, app


def reads_of(others: int, *, all_available: bool) -> list[int]:
    """Returns the number of rows that each step of a reader of group Z reads."""
    store, app = filled(others)
    found = []
    for number in range(1, 5):
        before = store.reads
        request = m.Get(
            app.next_id(),
            "Q",
            1,
            0,
            group_id=group_id("Z") if number == 1 else b"",
            order=m.LOGICAL,
            all_available=all_available,
            reader=1,
        )
        app.send(request)
        app.manager.rest()
        (delivery,) = app.delivered()
        assert delivery.body == f"Z{number}".encode()
        found.append(store.reads - before)
    return found


@pytest.mark.parametrize("all_available", [False, True])
def test_next_member_costs_the_same_whatever_else_is_on_the_queue(all_available: bool) -> None:
    """E29: Each get reads the same number of rows, with 100 and with 10,000 other messages."""
    few = reads_of(100, all_available=all_available)
    assert reads_of(10_000, all_available=all_available) == few
    assert max(few) < 20


def test_check_of_completeness_does_not_read_the_group() -> None:
    """E30: The first get from a group of 10,000 costs as much as from a group of four."""
    costs = []
    for size in (4, 10_000):
        store = CountingStore()
        manager = Manager(store, queue_defaults={"depth_max": 10**6})
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        batch = [record(b"", group=(group_id("A"), n, n == size)) for n in range(1, size + 1)]
        app.put_records("Q", *batch)
        manager.rest()
        before = store.reads
        app.send(m.Get(app.next_id(), "Q", 1, 0, order=m.LOGICAL, all_available=True, reader=1))
        manager.rest()
        assert len(app.delivered()) == 1
        costs.append(store.reads - before)
    assert costs[0] == costs[1]


def test_start_does_not_depend_on_the_number_of_members() -> None:
    """E34 (D16): The index is stored, and is not rebuilt at a start."""
    costs = []
    for others in (10, 2_000):
        store, app = filled(others)
        store.reads = 0
        app.manager.crash()
        costs.append(store.reads)
    assert costs[0] == costs[1]


def test_groups_held_by_others_are_skipped_once() -> None:
    store = CountingStore()
    manager = Manager(store)
    app, other = manager.connect(), manager.connect()
    app.ask(m.QueueCreate, "Q", {"depth_max": 10_000})
    ids = [number.to_bytes(24, "big").replace(b"\0", b"a") for number in range(1, 201)]
    app.put_records("Q", *(record(b"", group=(x, 1, False)) for x in ids[:-1]))
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 1_000, 1 << 30, order=m.PINNED))
    app.answer(request_id)
    app.put_records("Q", record(b"free"), record(b"free"))
    manager.rest()
    other.send(m.Get(1, "Q", 1, 0, order=m.LOGICAL, reader=1))
    manager.rest()
    before = store.reads
    other.send(m.Get(2, "Q", 1, 0, order=m.LOGICAL, reader=1))
    manager.rest()
    assert store.reads - before < 30


def test_unread_release_in_many_pieces_counts_no_delivery() -> None:
    player = GroupPlayer()
    app, count = player.app("app"), 3 * SETTLE_HANDLES + 5
    app.put_records(
        "Q", *(record(b"x", group=(group_id("A"), n, False)) for n in range(1, count + 1))
    )
    app.send(m.Consume(app.next_id(), "Q", count, 1 << 30, order=m.PINNED))
    app.manager.rest()
    held = app.delivered()
    assert len(held) == count
    assert app.settle(m.UNREAD, *held) == []
    app.manager.rest()
    assert {x.delivered for x in app.browse("Q")} == {0}


def test_unread_release_by_a_consumer_of_groups_counts_no_delivery() -> None:
    player = GroupPlayer()
    player("put A1 A2 A3")
    app = player.app("app")
    for _ in range(2):
        request_id = app.next_id()
        app.send(m.Consume(request_id, "Q", 3, 1 << 30, order=m.PINNED))
        app.manager.rest()
        held = app.delivered()
        assert [(x.body, x.delivered, x.state & m.STATE_REDELIVERED) for x in held] == [
            (b"A1", 0, 0),
            (b"A2", 0, 0),
            (b"A3", 0, 0),
        ]
        app.say(m.Cancel(request_id))
        assert app.settle(m.UNREAD, *held) == []
        app.manager.rest()


def test_group_without_an_available_member_is_new_to_its_reader() -> None:
    """The delivery has the taken-over flag, because another reader got the first message."""
    play = GroupPlayer()
    assert play("put A1") == "stored"
    assert play("other: get physical reader=0") == "has A1"
    assert play("consume pinned") == "a consumer is open"
    assert play("other: ack A1") == "done"
    assert play("put A2") == "stored\nhas +A2"


@pytest.mark.parametrize("where", ["", "JMSPriority >= 0"])
@pytest.mark.parametrize("order", [m.LOGICAL, m.PINNED])
def test_message_that_does_not_fit_a_frame_is_the_first_of_the_next(order: int, where: str) -> None:
    """The message may be in a group, in a group that is new to the reader, or in no group."""
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    for group in (None, (group_id("A"), 1, True), None):
        assert app.put_records("Q", record(b"x" * 700_000, group=group)) == []
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 100, 1 << 30, where=where, order=order))
    app.answer(request_id)
    manager.rest()
    frames = [x for x in app.hear() if type(x) is m.Deliver]
    states = [[x.state & m.STATE_TAKEN_OVER for x in items(frame)] for frame in frames]
    assert states == [[0], [m.STATE_TAKEN_OVER], [0]]


def test_consumer_that_selects_looks_at_a_slice_a_turn() -> None:
    """E7: On a deep queue, messages that are not due are checked once."""
    player = GroupPlayer()
    app = player.app("app")
    many = LOOKED_AT_MAX + 100
    app.put_records("Q", *(record(b"", group=(group_id("O"), n + 2, False)) for n in range(many)))
    player("put Z1 Z2!")
    assert player("get where=group_number<3") == "has +Z1"
    assert player("get") == "has Z2"


def test_selected_first_member_is_found_when_it_becomes_due() -> None:
    """The consumer has already checked number 2 when number 1 is consumed."""
    player = GroupPlayer()
    player("put A1 A2!")
    assert player("other: get") == "has +A1"
    player("other: close")
    assert player("one: consume logical where=group_number=2") == "a consumer is open"
    assert player("other: ack A1") == "done\none has +A2"


def test_refused_selection_leases_nothing() -> None:
    player = GroupPlayer()
    player("put A1 A2! m1")
    player("get")
    answer = player("get body=m1")
    assert answer.startswith(ErrorCode.MATCH_INCONSISTENT.name)
    assert len(player.manager.queue("Q").leases) == 1
    assert player("get body=A2") == "has A2"


def test_only_a_consumer_with_a_reader_is_taken_in_order() -> None:
    """Without a reader, a consumer has no order."""
    consumer = Consumer(1, 1, lessee(_queue()), 1, 1)
    consumer.order = m.LOGICAL
    with pytest.raises(AssertionError, match="only a reader has an order"):
        take_in_order(consumer.queue, MemoryStore(), Now(1, 1), consumer, 1)
    consumer.reader = Reader(1, "", 1, m.LOGICAL)
    assert take_in_order(consumer.queue, MemoryStore(), Now(1, 1), consumer, 1).items == []


def _queue() -> Queue:
    player = GroupPlayer()
    return player.manager.queue("Q")


@pytest.mark.parametrize("way", [{"group_id": group_id("A")}, {"correlation_id": b"k"}])
def test_many_members_that_are_not_due_do_not_hide_available_ones(way: Any) -> None:
    """A get with a selector ends, and finds messages beyond the first slice."""
    player = GroupPlayer()
    app = player.app("app")
    many = [
        record(b"", correlation_id=b"k", group=(group_id("A"), n, False)) for n in range(2, 900)
    ]
    app.put_records("Q", *many)
    if "correlation_id" in way:
        app.put_records("Q", record(b"free", correlation_id=b"k"))
    app.send(m.Get(99, "Q", 1, 0, order=m.LOGICAL, reader=1, **way))
    player.manager.rest()
    found = [x.body for x in app.delivered()]
    assert found == ([b"free"] if "correlation_id" in way else [])
    app.put_records("Q", record(b"one", correlation_id=b"k", group=(group_id("A"), 1, False)))
    app.send(m.Get(100, "Q", 1, 0, order=m.LOGICAL, reader=1, **way))
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"one"]


def test_waiting_selection_by_correlation_id_sees_members_that_become_due() -> None:
    player = GroupPlayer()
    player("put A2 A3!")
    assert player("get body=A2 wait=1000") == "asks"
    assert player("put A1") == "stored"
    player("other: get")
    assert "has +A2" in player("other: ack A1") + player("other: close")


def test_message_that_does_not_fit_is_not_overtaken() -> None:
    """E6: a message that does not fit is not overtaken."""
    player = GroupPlayer()
    app = player.app("app")
    app.put("Q", b"1" * 600_000, b"2" * 600_000)
    player("put A1!")
    app.send(m.Get(99, "Q", 10, 0, bytes_max=1 << 30, order=m.LOGICAL, reader=1))
    player.manager.rest()
    assert [x.body[:1] for x in app.delivered()] == [b"1"]
    app.send(m.Get(100, "Q", 10, 0, bytes_max=1 << 30, order=m.LOGICAL, reader=1))
    player.manager.rest()
    assert [x.body[:2] for x in app.delivered()] == [b"22", b"A1"]


def test_group_left_to_another_reader_hides_nothing() -> None:
    """Other readers skip the group. The new reader finds it before their positions."""
    player = GroupPlayer()
    player("one: consume pinned credit=1")
    player("put A1 B1")
    player("two: consume pinned credit=0")
    assert player("alter A reassign to=two") == "open, next 1"
    assert "A1" not in player("one: release A1")
    assert player("three: consume pinned credit=1").endswith("three has +B1")
    player.app("two").send(m.Credit(1, 1, 0))
    assert "two has +A1" in player("groups")


def test_credit_does_not_search_groups_of_other_consumers() -> None:
    """A single search suffices for a credit of one, however many groups have more messages."""
    store = CountingStore()
    manager = Manager(store)
    app = manager.connect()
    app.ask(m.QueueCreate, "Q", {"depth_max": 10_000})
    ids = [str(number).encode().rjust(24, b"g") for number in range(300)]
    app.put_records("Q", *(record(b"", group=(x, 1, False)) for x in ids))
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 300, 1 << 30, order=m.PINNED))
    app.answer(request_id)
    app.put_records("Q", *(record(b"", group=(x, 2, False)) for x in ids))
    manager.rest()
    before = store.reads
    app.send(m.Credit(request_id, 1, 0))
    manager.rest()
    assert store.reads - before < 30


@pytest.mark.parametrize("action", [m.RENEW, m.REJECT])
def test_member_that_is_taken_back_cannot_be_settled(action: int) -> None:
    """The preceding message returned in the same turn."""
    player = GroupPlayer()
    app = player.app("app")
    player("put A1 A2 A3!")
    player("get count=3")
    first, second = player._held["A1"], player._held["A2"]
    app.ask(m.UnitBegin, 1)
    app.send(
        m.Settle(90, m.RELEASE, first.queue_id, first.handle),
        m.Settle(91, action, second.queue_id, second.handle),
        m.Settle(92, m.ACK, second.queue_id, second.handle, 1),
    )
    player.manager.rest()
    (answer,) = [x for x in app.hear() if type(x) is m.Settled]
    assert [x[0] for x in answer.exceptions] == [91, 92]
    assert player("get count=3") == "has A1 A2 A3"


def test_reader_that_is_closed_ends_its_waiting_gets() -> None:
    """Otherwise, a closed reader could hold a new group."""
    player = GroupPlayer()
    assert player("get wait=10000") == "asks"
    assert player("close") == "closed\nreceived no message"
    player("put A1 A2!")
    assert player("other: get count=2") == "has +A1 A2"


def test_incomplete_groups_do_not_let_others_pass() -> None:
    """E6, E11: Even after a slice of these, a complete group precedes a later message."""
    player = GroupPlayer()
    app = player.app("app")
    many = LOOKED_AT_MAX + 100
    ids = [str(number).encode().rjust(24, b"g") for number in range(many)]
    app.put_records("Q", *(record(b"", group=(x, 1, False)) for x in ids))
    player("put Z1 Z2! m1")
    app.send(m.Get(99, "Q", 3, 0, bytes_max=1 << 30, order=m.LOGICAL, all_available=True, reader=1))
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"Z1", b"Z2", b"m1"]


@pytest.mark.parametrize("order", [m.LOGICAL, m.PINNED])
def test_group_at_the_end_of_a_slice_is_not_skipped(order: int) -> None:
    """The group begins with the last message that the slice may check."""
    manager = Manager()
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    app.put("Q", *[b"x"] * (LOOKED_AT_MAX - 1))
    app.put_records("Q", record(b"A1", group=(group_id("A"), 1, False), priority=3))
    app.send(m.Consume(app.next_id(), "Q", 5, 1 << 20, order=order, where="priority = 3"))
    manager.rest()
    assert [x.body for x in app.delivered()] == [b"A1"]


def test_messages_without_a_group_are_available_during_the_sweep_of_a_start() -> None:
    """Until the sweep, lost messages count as part of their groups, but not in the depth."""
    free = 0
    for _ in range(2):  # The second round has as many messages as the first one counts.
        app = _sweeping(free).connect("app")
        app.send(m.Get(app.next_id(), "Q", 1, 0, 0, 1 << 20, order=m.LOGICAL))
        app.manager.turn()
        free = app.manager.queue("Q").counters.grouped
    assert free > 0
    assert [x.body for x in app.delivered()] == [b"free"]


def _sweeping(free: int) -> Manager:
    """Returns a manager that has begun its sweep, with *plain* messages without a group."""
    manager, count = Manager(), 3_000
    app = manager.connect()
    app.ask(m.QueueCreate, "Q")
    batch = [
        record(b"x", group=(group_id("A"), n, False), flags=records.FLAG_NOT_PERSISTENT)
        for n in range(1, count + 1)
    ]
    app.put_records("Q", *batch)
    if free:
        app.put("Q", *[b"free"] * free)
    manager.crash()
    manager.turn()
    return manager
