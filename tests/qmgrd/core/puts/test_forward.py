"""Tests that a proxy forwards publications to the same topic at another queue manager."""

from collections.abc import Iterator

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.sessions.request_part import PartLimits
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.far import Far, message
from tests.qmgrd.core.harness import AnyStore, record
from tests.qmgrd.core.pubsub import Hub, rot


@pytest.fixture
def hub(store: AnyStore) -> Iterator[Hub]:
    hub = Hub(store)
    hub.app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    hub.subscribe("t/#", ":all@NYC")
    yield hub
    hub.sound()
    audit(hub.manager)


def waiting(hub: Hub) -> list[bytes]:
    return hub.app.bodies("@NYC")


def targets(hub: Hub) -> list[str]:
    """Returns the destination of each message that waits for the link."""
    queue = hub.manager.queue("@NYC")
    found = hub.manager.scan(b"\x10" + queue.id.to_bytes(4, "big"))
    return [value[32 : 32 + value[3]].decode() for _, value in found]


def test_each_publication_is_forwarded_once_to_its_topic(hub: Hub) -> None:
    """Messages have any length, and pass one or more proxies. Nothing is stored for a proxy."""
    hub.subscribe("t/a", ":some@NYC")
    hub.publish("t/a", b"1", b"2" * 5_000)
    hub.publish("t/b", b"3")
    hub.publish("u", b"4")
    hub.manager.rest()
    assert waiting(hub) == [b"1", b"2" * 5_000, b"3"]
    assert targets(hub) == ["/t/a", "/t/a", "/t/b"]
    assert hub.stored == 0
    hub.restart()
    assert len(waiting(hub)) == 3


def test_attributes_of_a_publication_are_forwarded(hub: Hub) -> None:
    hub.publish(
        "t", b"x", priority=8, correlation_id=b"c", expiry_ms=60_000, delay_ms=1_000, retain=True
    )
    hub.publish("t", b"gone", flags=2)
    hub.manager.rest()
    assert waiting(hub) == [b"x", b"gone"]
    hub.restart()
    assert waiting(hub) == [b"x"]


def test_message_is_not_sent_back_to_its_source(hub: Hub) -> None:
    hub.app.ask(m.LinkCreate, "SFO", {"addresses": ["h:1"], "stopped": True})
    hub.subscribe("t/#", ":all@SFO")
    hub.subscribe("t/#", "S:1")
    far = Far(hub.manager, "NYC")
    far.open()
    far.send(1, message(1), queue="/t/u")
    hub.manager.rest()
    assert waiting(hub) == []
    assert hub.app.bodies("@SFO") == [b"1"]
    way = [[0, {m.EXTRA_NOTE: pack({"hops": ["SFO", "NYC"]})}]]
    far.client.say(m.Put(far.stream, 2, 0, "/t/u", [message(2)], way))
    hub.manager.rest()
    assert hub.app.bodies("@SFO") == [b"1"]
    assert hub.take("S:1") == [b"1", b"2"]


def test_full_link_refuses_the_publisher(hub: Hub) -> None:
    hub.app.ask(m.QueueAlter, "@NYC", {"depth_max": 2})
    hub.publish("t", b"1", b"2")
    (refused,) = hub.app.put_records("/t", record(b"3"))
    assert refused.code is ErrorCode.QUEUE_FULL
    hub.publish("u", b"4")
    assert waiting(hub) == [b"1", b"2"]


def test_link_that_a_proxy_needs_stays(hub: Hub) -> None:
    """Otherwise, no client could publish to the topics of the proxy."""
    assert hub.app.code_of(m.LinkDelete, "NYC") is ErrorCode.QUEUE_IN_USE
    hub.app.ask(m.Unsubscribe, ":all@NYC")
    hub.app.ask(m.LinkDelete, "NYC")
    hub.publish("t", b"x")


def test_route_that_a_proxy_needs_stays(hub: Hub) -> None:
    hub.app.ask(m.LinkAlter, "NYC", {"routes": ["BOS"]})
    hub.subscribe("t", ":b@BOS")
    assert hub.app.code_of(m.LinkAlter, "NYC", {"routes": []}) is ErrorCode.VALUE_INVALID
    hub.publish("t", b"x")
    hub.manager.rest()
    assert targets(hub) == ["/t", "/t@BOS"]


def test_proxy_is_no_queue(hub: Hub) -> None:
    for kind, fields in (
        (m.Get, (1, 0, 0, 1 << 20)),
        (m.QueuePurge, ()),
        (m.QueueAlter, ({"depth_max": 3},)),
    ):
        assert hub.app.code_of(kind, ":all@NYC", *fields) in (
            ErrorCode.QUEUE_IS_REMOTE,
            ErrorCode.VALUE_INVALID,
        )
    (refused,) = hub.app.put_records(":all@NYC", record(b"x"))
    assert refused.code is ErrorCode.QUEUE_IS_SUBSCRIPTION
    row = hub.app.ask(m.QueueShow, ":all@NYC")
    assert row["topic"] == "t/#"
    assert hub.app.ask(m.SubscriptionHealthy, ":all@NYC")["job"] is None
    (row,) = hub.app.ask(m.SubscriptionList)["subscriptions"]
    assert (row["manager"], row["durable"]) == ("NYC", True)


def test_proxy_that_ends_leaves_what_waits(hub: Hub) -> None:
    hub.publish("t", b"1")
    assert hub.app.ask(m.Unsubscribe, ":all@NYC") == {"messages": 0}
    hub.publish("t", b"2")
    assert waiting(hub) == [b"1"]


def test_damaged_publication_is_not_forwarded() -> None:
    """The entry is intact, but the record is damaged."""
    hub = Hub(limits={"turn_rows": 10})
    hub.app.ask(m.LinkCreate, "NYC", {"addresses": ["h:1"], "stopped": True})
    hub.subscribe("t", ":all@NYC")
    hub.app.peer._part_limits = PartLimits(records=300)  # All are stored before any is forwarded.
    hub.send("t", *(record(b"%d" % number) for number in range(300)))
    hub.manager.turn()
    assert hub.manager.queue("@NYC").counters.depth < 300
    rot(hub, 300)
    hub.manager.rest()
    assert waiting(hub) == [b"%d" % number for number in range(299)]
