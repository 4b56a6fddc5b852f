"""Tests that a new subscription begins with the retained publications of its topics."""

from collections.abc import Iterator

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.selector import selector
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, record
from tests.qmgrd.core.pubsub import Hub, faults

KEPT = records.FLAG_RETAINED


@pytest.fixture
def hub(store: AnyStore) -> Iterator[Hub]:
    hub = Hub(store)
    yield hub
    hub.sound()
    audit(hub.manager)


def has(hub: Hub, name: str) -> list[bytes]:
    hub.manager.rest()
    return hub.take(name)


def test_late_subscriber_has_the_last_of_each_topic_once(hub: Hub) -> None:
    for topic, body in (("t/a", b"old"), ("t/b", b"b"), ("t/a", b"a"), ("u", b"other")):
        hub.publish(topic, body, retain=True)
    hub.publish("t/a", b"plain")
    assert hub.stored == 3
    hub.subscribe("t/+", "S:1")
    hub.subscribe("t/a", "S:2")
    hub.subscribe("#", "S:3")
    hub.subscribe("t/+", "S:none", retained=False)
    assert has(hub, "S:1") == [b"b", b"a"]
    assert has(hub, "S:2") == [b"a"]
    assert has(hub, "S:3") == [b"b", b"a", b"other"]
    assert has(hub, "S:none") == []
    hub.restart()
    # The subscription exists already, and has received the retained publications.
    hub.subscribe("t/+", "S:1")
    assert has(hub, "S:1") == []


def test_publication_retained_at_the_same_time_arrives_once(hub: Hub) -> None:
    """A publication in the same turn as the subscription, before or after it, arrives once."""
    hub.publish("t", b"old", retain=True)
    hub.send("t", record(b"before", flags=KEPT))
    hub.app.send(m.Subscribe(90, "t", "S:1"))
    hub.manager.rest()
    assert has(hub, "S:1") == [b"before"]
    hub.app.send(m.Subscribe(91, "t", "S:2"))
    hub.send("t", record(b"behind", flags=KEPT))
    assert has(hub, "S:2") in ([b"behind"], [b"before", b"behind"])
    assert has(hub, "S:1") == [b"behind"]


def test_subscription_waits_for_pending_retained_publications() -> None:
    hub = Hub(limits={"turn_rows": 10})
    for number in range(40):
        hub.subscribe("t", f"S:{number}")
    hub.publish("t", b"old", retain=True)
    hub.manager.rest()
    hub.send("t", record(b"new", flags=KEPT))
    hub.manager.turn()
    hub.app.send(m.Subscribe(90, "t", "S:late"))
    hub.manager.turn()
    hub.crash()
    assert has(hub, "S:late") == [b"new"]
    hub.sound()


def test_empty_publication_clears_it(hub: Hub) -> None:
    hub.publish("t", b"x" * 5_000, retain=True)
    hub.publish("t", b"", retain=True)
    hub.subscribe("t", "S:1")
    assert has(hub, "S:1") == []
    hub.empty()


def test_operator_clears_a_retained_publication_and_receivers_keep_it(hub: Hub) -> None:
    hub.publish("t", b"x", retain=True)
    hub.subscribe("t", "S:1")
    assert hub.app.ask(m.TopicShow, "t")["retained"] is True
    hub.app.ask(m.TopicDelete, "t", True)
    assert hub.app.code_of(m.TopicDelete, "t", True) is ErrorCode.TOPIC_UNKNOWN
    assert has(hub, "S:1") == [b"x"]
    hub.empty()


def test_selector_and_limits_of_the_subscription_hold(hub: Hub) -> None:
    for topic, priority in (("t/a", 1), ("t/b", 9), ("t/c", 9)):
        hub.publish(topic, topic.encode(), retain=True, priority=priority)
    hub.subscribe("t/#", "S:1", where="priority = 9", depth_max=1)
    assert has(hub, "S:1") == [b"t/b"]
    assert hub.show("S:1")["missed"] == 1


def test_lost_non_persistent_publication_is_harmless(hub: Hub) -> None:
    hub.publish("t", b"x", retain=True, flags=records.FLAG_NOT_PERSISTENT)
    hub.subscribe("t", "S:1")
    hub.restart()
    hub.sound()
    hub.subscribe("t", "S:2")
    assert has(hub, "S:2") in ([], [b"x"])
    hub.publish("t", b"", retain=True)
    assert has(hub, "S:1") == [b""]
    assert has(hub, "S:2") == [b""]
    hub.empty()


def test_expired_publication_is_not_delivered(hub: Hub) -> None:
    hub.publish("t", b"x", retain=True, expiry_ms=1_000)
    hub.manager.turn(1_001)
    hub.subscribe("t", "S:1")
    assert has(hub, "S:1") == []
    hub.manager.turn(1)
    hub.manager.rest()
    hub.sound()


@pytest.mark.parametrize("turns", range(1, 10))
def test_crash_while_they_are_given_gives_each_once(turns: int) -> None:
    hub = Hub(limits={"turn_rows": 10})
    for number in range(40):
        hub.publish(f"t/{number:02}", b"%02d" % number, retain=True)
    hub.app.send(m.Subscribe(90, "t/#", "S:1"))
    for _ in range(turns):
        hub.manager.turn()
    hub.crash()
    assert faults(hub.manager) == []
    expected = [b"%02d" % i for i in range(40)]
    assert sorted(has(hub, "S:1")) == expected
    hub.sound()


def test_expired_publication_is_not_retained(hub: Hub) -> None:
    hub.send("t", record(b"old", flags=KEPT, expiry_ms=1_000))
    hub.manager.rest()
    hub.subscribe("t", "S:1")
    assert has(hub, "S:1") == [b"old"]
    hub.manager.turn(2_000)
    hub.subscribe("t", "S:2")
    assert has(hub, "S:2") == []
    assert hub.stored == 0


def test_non_persistent_retained_copies_are_lost_in_a_crash() -> None:
    """The other copies are lost as well. Otherwise, a lost copy would count but never arrive."""
    hub = Hub(limits={"turn_rows": 10})
    for number in range(60):
        hub.publish(f"t/{number:02}", b"x", retain=True, flags=records.FLAG_NOT_PERSISTENT)
    hub.app.send(m.Subscribe(90, "t/#", "S:1"))
    hub.manager.turn()
    hub.manager.turn()
    assert 0 < hub.manager.queue("S:1").counters.depth < 60
    hub.crash()
    hub.sound()
    assert hub.show("S:1")["depth"] == 0
    assert has(hub, "S:1") == []


def test_slice_is_short_if_the_selector_is_costly(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The selector takes about 0.6 ms for each publication, which is as long as 60 rows."""
    where = " OR ".join(["t LIKE '%" + "a" * 60 + "_b%'"] * 10) + " OR correlation_id = 'c'"
    header = {"headers": {"t": "a" * 4_096}}
    for number in range(40):
        hub.publish(
            f"t/{number}", b"%d" % number, retain=True, correlation_id=b"c", envelope=header
        )
    # As if an older daemon, which had no limit, had created the subscription.
    monkeypatch.setattr(selector, "SUBSCRIPTION_STEPS_MAX", 1 << 40)
    hub.app.send(m.Subscribe(90, "t/#", "S:1", where))
    hub.manager.turn()
    hub.manager.turn()
    assert 0 < hub.manager.queue("S:1").counters.depth < 20
    assert sorted(has(hub, "S:1")) == sorted(b"%d" % number for number in range(40))
