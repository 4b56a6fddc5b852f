"""Tests of the next messages of the groups that a consumer holds."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.queue.group.held_groups import OUT_MAX
from tests.group_player import GroupPlayer, group_id, member
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Delivery, record


def pinned(
    player: GroupPlayer, credit: int, *, whole: bool = False, name: str = "app"
) -> tuple[Client, int]:
    app = player.app(name)
    request_id = app.next_id()
    consume = m.Consume(request_id, "Q", credit, 1 << 30, order=m.PINNED, all_available=whole)
    app.send(consume)
    app.answer(request_id)
    return app, request_id


def test_member_leased_in_physical_order_holds_its_group_back() -> None:
    player = GroupPlayer()
    player("put A1 A2 A3 B1")
    other = player.app("other")
    request_id = other.next_id()
    other.send(m.Get(request_id, "Q", group_id=group_id("A"), number=2))
    player.manager.rest()
    (stray,) = other.delivered()
    app, _ = pinned(player, 9)
    assert [x.body for x in app.delivered()] == [b"A1", b"B1"]
    other.ack(stray)
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"A3"]


def test_group_that_is_stopped_while_it_is_next_is_not_delivered() -> None:
    player = GroupPlayer()
    player("put A1 B1 A2 B2 A3")
    app, request_id = pinned(player, 2)
    a1, b1 = app.delivered()
    assert (a1.body, b1.body) == (b"A1", b"B1")
    player("alter A pause")
    app.send(m.Credit(request_id, 9, 0))
    player.manager.rest()
    (b2,) = app.delivered()
    assert b2.body == b"B2"
    player("alter A resume")
    assert app.delivered() == []  # The message is delivered after the leased one is settled.
    app.ack(a1)
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"A2", b"A3"]


def test_group_is_not_left_to_an_idle_consumer_without_credit() -> None:
    """If a message did not fit its frame, the consumer holds the group only for a limited time."""
    player = GroupPlayer()
    putter, large = player.app("putter"), bytes(DELIVER_MAX_BYTES * 2 // 3)
    for letter in "AB":
        putter.put_records("Q", record(large, group=(group_id(letter), 1, False)))
    app, _ = pinned(player, 2)
    audit(player.manager)
    putter.put("Q", b"urgent", priority=9)
    player.manager.rest()
    a1, urgent = app.delivered()
    assert [len(a1.body), urgent.body] == [len(large), b"urgent"]
    other, _ = pinned(player, 9, name="other")
    assert other.delivered() == []
    app.ack(a1)
    player.manager.rest()
    assert [len(x.body) for x in other.delivered()] == [len(large)]


def test_group_stays_with_the_consumer_it_waits_for() -> None:
    player = GroupPlayer()
    player("put A1 m1 m2 m3 A2 B1 B2")
    app, request_id = pinned(player, 2)
    a1, m1 = app.delivered()
    other, _ = pinned(player, 2, name="other")
    assert [x.body for x in other.delivered()] == [b"m2", b"m3"]
    app.send(m.Credit(request_id, 1, 0))
    app.ack(a1)
    player.manager.rest()
    (a2,) = app.delivered()
    assert (a2.body, a2.state & m.STATE_TAKEN_OVER) == (b"A2", 0)
    audit(player.manager)
    app.ack(m1, a2)
    player.manager.rest()
    audit(player.manager)


@pytest.mark.parametrize("credit_first", [True, False])
def test_credit_that_arrives_with_the_ack_keeps_the_group(*, credit_first: bool) -> None:
    player = GroupPlayer()
    other, others = pinned(player, 0, name="other")
    app, request_id = pinned(player, 1)
    player.app("putter").put_records("Q", member("A1"), member("A2"))
    player.manager.rest()
    (a1,) = app.delivered()
    other.send(m.Credit(others, 9, 0))
    player.manager.rest()
    assert other.delivered() == []
    ack = m.Settle(app.next_id(), m.ACK, a1.queue_id, a1.handle)
    both = [ack, m.Credit(request_id, 1, 0)]
    app.send(*(reversed(both) if credit_first else both))
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"A2"]
    assert other.delivered() == []


def test_group_that_is_parked_while_it_is_next_is_released() -> None:
    player = GroupPlayer()
    admin = player.app("admin")
    admin.ask(m.QueueAlter, "Q", {"group_incomplete_ms": 10_000, "expiry_action": "dead-letter"})
    admin.ask(m.QueueAlter, "SYSTEM.DEAD.LETTERS", {"put_inhibit": True})
    admin.put_records("Q", *map(member, ("A1", "B1!", "A2")))
    app, request_id = pinned(player, 2)
    a1, b1 = app.delivered()
    app.ack(a1)
    player.manager.turn(16_000)
    player.manager.rest()
    app.send(m.Credit(request_id, 1, 0))
    admin.put_records("Q", member("m1"))
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"m1"]
    audit(player.manager)
    app.ack(b1)
    player.manager.rest()
    other, _ = pinned(player, 9, name="other")
    admin.ask(m.GroupAlter, "Q", group_id("A"), "resume")
    player.manager.rest()
    assert [x.body for x in other.delivered()] == [b"A2"]


def test_end_of_a_lease_releases_the_waiting_members_behind_it() -> None:
    player = GroupPlayer()
    player("put A1 m1 A2")
    app = player.app("app")
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 1, 1 << 30, 5_000, order=m.PINNED))
    app.answer(request_id)
    assert [x.body for x in app.delivered()] == [b"A1"]
    other, _ = pinned(player, 9, name="other")
    assert [x.body for x in other.delivered()] == [b"m1"]
    player.manager.turn(6_000)
    player.manager.rest()
    assert [x.body for x in other.delivered()] == [b"A1", b"A2"]


@pytest.mark.parametrize("credit", [1, 5])
def test_rest_of_a_complete_group_is_delivered_after_some_of_it_is_consumed(credit: int) -> None:
    player = GroupPlayer()
    player("put A1 m1 m2 m3 m4 m5 m6 A2!")
    app, request_id = pinned(player, credit, whole=True)
    found: list[bytes] = []
    while got := app.delivered():
        found += [x.body for x in got]
        app.ack(*got)
        app.send(m.Credit(request_id, len(got), 0))
        player.manager.rest()
    assert found == [b"A1", b"m1", b"m2", b"m3", b"m4", b"m5", b"m6", b"A2"]


def test_reader_over_its_limit_receives_nothing() -> None:
    player = GroupPlayer()
    app = player.app("app")
    batch = [record(b"x", group=(group_id("A"), n, False)) for n in range(1, OUT_MAX + 301)]
    app.put_records("Q", *batch)
    assert len(_got(app, OUT_MAX, order=m.LOGICAL)) == OUT_MAX
    assert len(_got(app, 1, group_id=group_id("A"), number=OUT_MAX + 100)) == 1
    assert _got(app, 1, order=m.LOGICAL) == []


def _got(app: Client, count: int, **wanted: Any) -> list[Delivery]:
    found: list[Delivery] = []
    for _ in range(4):
        left = count - len(found)
        if left:
            app.send(m.Get(app.next_id(), "Q", left, 0, 0, 1 << 30, reader=1, **wanted))
        app.manager.rest()
        found += app.delivered()
    return found


def test_frame_is_not_longer_than_it_may_be() -> None:
    player = GroupPlayer()
    app = player.app("app")
    body = bytes(900_000)
    for number in (1, 2, 3):
        app.put("Q", body, group=(group_id("A"), number, number == 3))
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 10, 1 << 30, order=m.LOGICAL))
    app.answer(request_id)
    player.manager.rest()
    frames = [x for x in app.hear() if type(x) is m.Deliver]
    assert [len(frame.items) for frame in frames] == [1, 1, 1]


def test_damaged_member_is_a_gap() -> None:
    player = GroupPlayer()
    player("put A1 A2 A3!")
    store = player.manager.store
    for key, value in player.manager.scan(b"\x10"):
        if b"A2" in value:
            store.rows[key] = value.replace(b"A2", b"AX")
    assert player("get count=3") == "has +A1"
    assert "A gap: 2 stored, 1 leased" in player("groups")
    assert player.manager.queue("Q").counters.damaged == 1
    player("ack A1")
    player("alter A skip")
    assert player("get") == "has A3"


def test_credit_of_bytes_bounds_what_is_handed_out() -> None:
    player = GroupPlayer()
    app = player.app("app")
    player("put A1 A2 A3 A4")
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", 10, 1, order=m.PINNED))
    app.answer(request_id)
    assert [x.body for x in app.delivered()] == [b"A1"]
    app.send(m.Credit(request_id, 0, 200))
    player.manager.rest()
    assert [x.body for x in app.delivered()] == [b"A2", b"A3"]


def test_leased_members_of_a_group_are_limited() -> None:
    """The rest is delivered once, after any kind of settle."""
    player = GroupPlayer()
    app, count = player.app("app"), 3 * OUT_MAX
    batch = [record(b"%d" % n, group=(group_id("A"), n, n == count)) for n in range(1, count + 1)]
    app.put_records("Q", *batch)
    request_id = app.next_id()
    app.send(m.Consume(request_id, "Q", count, 1 << 30, order=m.PINNED))
    app.answer(request_id)
    got: list[bytes] = []
    player.manager.rest()
    while found := app.delivered():
        assert len(found) <= OUT_MAX
        got += [x.body for x in found]
        app.ack(*reversed(found[::2]))
        app.ack(*reversed(found[1::2]))
        player.manager.rest()
    assert got == [b"%d" % n for n in range(1, count + 1)]
    assert player("groups") == "no groups"


def test_reader_that_loses_a_group_keeps_no_unrequested_members() -> None:
    """Seed 12358 of the simulator showed this bug."""
    player = GroupPlayer()
    player("put A1 B1 m1 m2 B2")
    app, _ = pinned(player, 2)
    a1, b1 = app.delivered()
    app.ack(b1)
    player.manager.rest()
    other, _ = pinned(player, 2, name="other")
    assert [x.body for x in other.delivered()] == [b"m1", b"m2"]
    player("alter A pause")
    audit(player.manager)
    last, _ = pinned(player, 2, name="last")
    assert [x.body for x in last.delivered()] == [b"B2"]
    app.ack(a1)
