"""Tests of which part of a publication each subscription gets: by selector, space and group."""

from collections.abc import Iterator

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Delivery, record
from tests.qmgrd.core.pubsub import Hub
from tests.qmgrd.core.unit_of_work import UnitOfWork

G = b"G".ljust(24, b"\0")


@pytest.fixture
def hub(store: AnyStore) -> Iterator[Hub]:
    hub = Hub(store)
    yield hub
    hub.sound()
    audit(hub.manager)


def members(*names: bytes) -> list[bytes]:
    """Returns records with the numbers 1, 2, ... in group G; a "!" marks the last message."""
    return [
        record(name, group=(G, int(name[1:2]), name.endswith(b"!")), correlation_id=name[:2])
        for name in names
    ]


def get_group(hub: Hub, name: str, count: int = 10) -> list[Delivery]:
    """Gets messages in logical order, but only from complete groups."""
    hub.manager.rest()
    request_id = hub.app.next_id()
    hub.app.send(
        m.Get(
            request_id,
            name,
            count,
            order=m.LOGICAL,
            all_available=True,
            bytes_max=1 << 30,
            wait_ms=0,
        )
    )
    hub.manager.rest()
    return hub.app.delivered()


def test_selector_chooses_by_message_topic_and_priority(hub: Hub) -> None:
    hub.subscribe("t/#", "S:prio", where="priority > 5", priority_default=7)
    hub.subscribe("t/#", "S:topic", where="topic = 't/b'")
    hub.subscribe("t/#", "S:body", where="correlation_id = 'c'")
    hub.publish("t/a", b"1", priority=9)
    hub.publish("t/b", b"2", priority=1)
    hub.publish("t/b", b"3", flags=records.FLAG_PRIORITY_OF_QUEUE)
    hub.publish("t/c", b"4" * 5_000, correlation_id=b"c")
    assert hub.take("S:prio") == [b"1", b"3"]
    assert hub.take("S:topic") == [b"3", b"2"] or hub.take("S:topic") == []
    assert hub.take("S:body") == [b"4" * 5_000]
    hub.take("S:topic")
    hub.empty()


def test_priority_default_is_each_subscriptions_own(hub: Hub) -> None:
    hub.subscribe("t", "S:low", priority_default=1)
    hub.subscribe("t", "S:high", priority_default=8)
    hub.publish("t", b"default", flags=records.FLAG_PRIORITY_OF_QUEUE)
    hub.publish("t", b"5", priority=5)
    assert hub.take("S:low") == [b"5", b"default"]
    assert hub.take("S:high") == [b"default", b"5"]


def test_full_subscription_misses_the_newest_publications(hub: Hub) -> None:
    hub.subscribe("t", "S:full", depth_max=2)
    hub.subscribe("t", "S:bytes", bytes_max=1_024)
    hub.subscribe("t", "S:all")
    hub.publish("t", *(b"%d" % i * 300 for i in range(5)))
    assert len(hub.take("S:full")) == 2
    assert len(hub.take("S:bytes")) == 3
    assert len(hub.take("S:all")) == 5
    assert (hub.show("S:full")["missed"], hub.show("S:bytes")["missed"]) == (3, 2)
    hub.empty()


def test_oldest_make_room(hub: Hub) -> None:
    hub.subscribe("t", "S:1", depth_max=2, overflow="discard-oldest")
    hub.subscribe("t", "S:2", depth_max=2, overflow="dead-letter-oldest")
    hub.subscribe("t", "S:3", depth_max=2, overflow="dead-letter-oldest")
    hub.publish("t", b"1", b"2" * 5_000, b"3", b"4")
    for name in ("S:1", "S:2", "S:3"):
        assert hub.take(name) == [b"3", b"4"]
    assert sorted(hub.app.bodies("SYSTEM.DEAD.LETTERS")) == [b"1", b"2" * 5_000]
    assert hub.show("S:2")["dead"] == hub.show("S:3")["dead"] == 2
    assert hub.stored == 0


def test_held_oldest_stay_and_the_newest_is_missed(hub: Hub) -> None:
    hub.subscribe("t", "S:1", depth_max=1, overflow="discard-oldest")
    hub.publish("t", b"1")
    held = hub.get("S:1")
    hub.publish("t", b"2")
    assert hub.show("S:1")["missed"] == 1
    hub.app.ack(*held)
    hub.empty()


def test_correlation_id_finds_it_on_a_subscription(hub: Hub) -> None:
    hub.subscribe("t", "S:1")
    for number in range(5):
        hub.publish("t", b"%d" % number, correlation_id=b"c%d" % number)
    request_id = hub.app.next_id()
    hub.app.send(m.Get(request_id, "S:1", 5, 0, bytes_max=1 << 20, correlation_id=b"c3"))
    hub.manager.rest()
    (found,) = hub.app.delivered()
    assert found.body == b"3"
    hub.app.release(found)
    hub.app.consume("S:1")
    assert len(hub.app.delivered()) == 5


def test_each_subscription_has_a_group_whole_and_in_order(hub: Hub) -> None:
    """E38 (D16): each subscription receives a group complete and in order."""
    hub.subscribe("t", "S:1")
    hub.subscribe("t", "S:2")
    for body in (b"G2", b"G1"):
        hub.send("t", *members(body))
    hub.publish("t", b"x")
    assert get_group(hub, "S:1")[0].body == b"x"
    hub.send("t", *members(b"G3!"))
    hub.manager.rest()
    for name in ("S:1", "S:2"):
        found = [one.body for one in get_group(hub, name) if one.body != b"x"]
        assert found == [b"G1", b"G2", b"G3!"]


def test_member_may_be_published_twice(hub: Hub) -> None:
    """D7 applies to queues. A topic has no groups, so the second copy arrives without a group."""
    hub.subscribe("t", "S:1")
    hub.send("t", *members(b"G1", b"G1", b"G2!", b"G2!"))
    hub.sound()
    audit(hub.manager)
    assert sorted(hub.take("S:1")) == [b"G1", b"G1", b"G2!", b"G2!"]
    hub.empty()


def test_subscription_may_begin_in_the_middle_of_a_group(hub: Hub) -> None:
    hub.send("t", *members(b"G1"))
    hub.subscribe("t", "S:1")
    hub.send("t", *members(b"G2", b"G3!"))
    hub.sound()
    assert get_group(hub, "S:1") == []
    assert sorted(hub.take("S:1")) == [b"G2", b"G3!"]
    hub.empty()


@pytest.mark.parametrize("crashes", [False, True])
def test_poison_member_parks_its_whole_group_which_is_sent_again_whole(
    hub: Hub, *, crashes: bool
) -> None:
    """D10, C18: Other subscriptions continue. A republish delivers the group in order."""
    hub.subscribe("t", "S:1", redelivery_limit=0)
    hub.subscribe("t", "S:2", redelivery_limit=0)
    hub.send("t", *members(b"G1", b"G2", b"G3!"))
    first, *others = get_group(hub, "S:1")
    assert first.body == b"G1"
    hub.app.release(first, *others)
    hub.manager.rest()
    hub.sound()
    assert hub.listed() == ["S:1"] * 3
    hub.publish("t", b"x")
    assert hub.take("S:1") == [b"x"]
    if crashes:
        hub.crash()
    hub.app.consume("S:1", messages=0)
    assert hub.republish()["done"] == 3
    hub.sound()
    audit(hub.manager)
    again = get_group(hub, "S:1")
    assert [one.body for one in again] == [b"G1", b"G2", b"G3!"]
    hub.app.ack(*again)
    assert [one.body for one in hub.get("S:2")] == [b"G1", b"G2", b"G3!", b"x"]


def test_group_that_fails_again_is_parked_again(hub: Hub) -> None:
    hub.subscribe("t", "S:1", redelivery_limit=0)
    hub.send("t", *members(b"G1", b"G2!"))
    hub.app.consume("S:1", messages=0)
    for _ in range(3):
        found = get_group(hub, "S:1")
        assert [one.body for one in found] == [b"G1", b"G2!"]
        hub.app.release(*found)
        hub.manager.rest()
        hub.sound()
        audit(hub.manager)
        assert hub.listed() == ["S:1"] * 2
        assert hub.republish()["done"] == 2


def test_group_consumed_in_a_unit(hub: Hub) -> None:
    hub.subscribe("t", "S:1")
    unit = UnitOfWork(hub.app)
    for one in members(b"G1", b"G2!"):
        unit.put_records("/t", one)
    assert not unit.commit()
    unit = UnitOfWork(hub.app)
    unit.take(*get_group(hub, "S:1"))
    assert not unit.commit()
    hub.empty()


@pytest.mark.parametrize("copies", [False, True])
def test_moves_and_copies_are_messages_of_their_own(hub: Hub, *, copies: bool) -> None:
    """The record moves with the copies. The publication is deleted with its last reference."""
    hub.app.ask(m.QueueCreate, "Q")
    hub.subscribe("t", "S:1")
    hub.subscribe("t", "S:2")
    hub.publish("t", b"short", b"long" * 2_000)
    hub.publish("t", b"timed", expiry_ms=60_000, correlation_id=b"c")
    hub.app.ask(m.QueueMove, "S:1", "Q", "", 0, 0, copies)
    hub.sound()
    assert hub.app.bodies("Q") == [b"short", b"long" * 2_000, b"timed"]
    audit(hub.manager)
    for name in ("S:1", "S:2"):
        hub.take(name)
    assert hub.stored == 0
    found = hub.get("Q")
    assert [one.body for one in found] == [b"short", b"long" * 2_000, b"timed"]
    assert not any(one.state & (m.STATE_TOPIC | m.STATE_REPUBLISHED) for one in found)
    hub.app.ack(*found)
    hub.empty()


def test_purge_leaves_what_others_hold_and_what_is_parked(hub: Hub) -> None:
    hub.subscribe("t", "S:1", redelivery_limit=0)
    hub.subscribe("t", "S:2")
    hub.publish("t", b"parked")
    hub.park("S:1")
    hub.publish("t", b"1", b"2", b"3" * 5_000)
    hub.publish("t", b"late", delay_ms=60_000)
    assert hub.app.ask(m.QueuePurge, "S:1") == {"messages": 4}
    hub.sound()
    assert hub.listed() == ["S:1"]
    assert len(hub.take("S:2")) == 4
    hub.republish(drop=True)
    hub.app.ask(m.QueuePurge, "S:2")
    hub.manager.rest()
    hub.empty()
