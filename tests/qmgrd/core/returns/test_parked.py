"""Tests of parked publications, on which subscribers failed too often: lists and expiry."""

from collections.abc import Iterator

import pytest

from qmgr_protocol import messages as m
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore
from tests.qmgrd.core.pubsub import Hub, is_republished, topic_of


@pytest.fixture
def hub(store: AnyStore) -> Iterator[Hub]:
    hub = Hub(store)
    yield hub
    hub.sound()
    audit(hub.manager)


@pytest.mark.parametrize("limit", [0, 1, 3])
def test_permanently_failing_subscriber_sees_one_and_its_limit_of_deliveries(
    hub: Hub, limit: int
) -> None:
    """C6, C7, C22, D3: The rollback of delivery 1 + L parks the publication."""
    hub.subscribe("t", "A:bad", redelivery_limit=limit)
    hub.subscribe("t", "A:good", redelivery_limit=limit)
    hub.publish("t", b"x")
    assert hub.fail("A:bad", 100) == 1 + limit
    assert hub.take("A:good") == [b"x"]
    assert hub.listed() == ["A:bad"]
    assert hub.show("A:bad")["parked"] == 1


def test_each_rollback_is_counted(hub: Hub) -> None:
    """C5: A delivered copy shows the number of its earlier failures."""
    hub.subscribe("t", "A:bad", redelivery_limit=3)
    hub.publish("t", b"x")
    seen = []
    while found := hub.get("A:bad"):
        seen.append((found[0].failed, found[0].delivered))
        hub.app.release(*found)
    assert seen == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_limit_of_the_topic_applies_by_default(hub: Hub) -> None:
    """D3: The limit is that of the subscription, otherwise that of its topic, otherwise five."""
    for name, topic in (("A:five", "t"), ("A:two", "t/b"), ("A:below", "t/b/c")):
        hub.subscribe(topic, name)
    hub.subscribe("t/b", "A:own", redelivery_limit=1)
    hub.app.ask(m.TopicSet, "t/b", {"redelivery_limit": 2})
    for topic in ("t", "t/b", "t/b/c"):
        hub.publish(topic, b"x")
    found = {name: hub.fail(name, 100) for name in ("A:five", "A:two", "A:below", "A:own")}
    assert found == {"A:five": 6, "A:two": 3, "A:below": 3, "A:own": 2}


def test_counts_are_each_subscribers_own(hub: Hub) -> None:
    """C8, D2: The failures of A do not count for B."""
    hub.subscribe("t", "A:a", redelivery_limit=2)
    hub.subscribe("t", "B:b", redelivery_limit=2)
    hub.publish("t", b"x")
    hub.park("A:a")
    assert hub.fail("B:b", 100) == 3
    assert hub.listed() == ["A:a", "B:b"]


def test_publication_is_parked_once_with_a_list(hub: Hub) -> None:
    """C9, C10: A and B both park the publication, which is stored once, with both on its list."""
    for name in ("A:a", "B:b", "C:c"):
        hub.subscribe("t", name, redelivery_limit=0)
    hub.publish("t", b"x")
    assert hub.take("C:c") == [b"x"]
    hub.park("A:a", "B:b")
    assert hub.listed() == ["A:a", "B:b"]
    assert hub.stored == 1
    assert list(hub.holders().values()) == [2]
    hub.app.consume("A:a")
    hub.republish(subscriptions=("A:a",))
    assert hub.listed() == ["B:b"]
    (again,) = hub.app.delivered()
    hub.app.release(again)
    assert hub.listed() == ["A:a", "B:b"]
    assert hub.stored == 1


def test_list_shows_parked_publications_and_reasons(hub: Hub) -> None:
    """C24: Operators can see the id, the topic, the list and the counters."""
    hub.subscribe("t/#", "A:a", redelivery_limit=1)
    hub.publish("t/u", b"abc")
    uid = str(hub.app.browse("A:a")[0].uid)
    hub.park("A:a")
    (row,) = hub.parked()
    assert (row["uid"], row["topic"], row["subscription"]) == (uid, "t/u", "A:a")
    assert (row["failed"], row["bytes"], row["republished"]) == (2, 3, 0)
    assert row["code"] == "REDELIVERY_LIMIT_EXCEEDED"
    assert len(row["attempts"]) == 2


def test_parked_publication_is_out_of_the_way(hub: Hub) -> None:
    """The publication is neither delivered nor counted in the depth. Others are delivered."""
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.publish("t", b"bad")
    hub.park("A:a")
    hub.publish("t", b"good")
    assert hub.take("A:a") == [b"good"]
    assert hub.show("A:a")["depth"] == 0


def test_parked_publication_expires(hub: Hub) -> None:
    """C23: The publication is deleted with its list, and no row remains."""
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.subscribe("t", "B:b", redelivery_limit=0)
    hub.publish("t", b"x", expiry_ms=1_000)
    hub.park("A:a", "B:b")
    hub.manager.turn(1_001)
    assert hub.listed() == []
    assert hub.show("A:a")["expired"] == 1
    hub.empty()


def test_parked_publication_expires_without_a_subscriber(hub: Hub) -> None:
    """C23, C20: The lifetime continues across a restart."""
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.publish("t", b"x", expiry_ms=60_000)
    hub.park("A:a")
    hub.restart(away_ms=60_001)
    hub.manager.turn()
    assert hub.listed() == []
    hub.empty()


def test_publication_parked_by_several_becomes_a_dead_letter_at_expiry(hub: Hub) -> None:
    """C23: With the dead-letter policy, one publication becomes one dead letter."""
    for name in ("A:a", "B:b"):
        hub.subscribe("t", name, redelivery_limit=0, expiry_action="dead-letter")
    hub.publish("t", b"x", expiry_ms=1_000)
    hub.park("A:a", "B:b")
    hub.manager.turn(1_001)
    hub.manager.rest()
    assert hub.listed() == []
    assert hub.app.bodies("SYSTEM.DEAD.LETTERS") == [b"x"]
    assert hub.stored == 0


def test_counter_survives_a_restart(hub: Hub) -> None:
    """C20: After two of three redeliveries and a crash, the next rollback counts as the third."""
    hub.subscribe("t", "A:a", redelivery_limit=3)
    hub.publish("t", b"x")
    hub.fail("A:a", 2)
    hub.crash()
    (third,) = hub.get("A:a")
    assert third.failed == 2
    hub.app.release(third)
    assert hub.fail("A:a", 100) == 1
    assert hub.listed() == ["A:a"]


def test_parked_non_persistent_publication_survives_a_restart(hub: Hub) -> None:
    """A restart does not undo a failure, even if the publication is not persistent."""
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.subscribe("t", "B:b", redelivery_limit=0)
    hub.publish("t", b"x", flags=2)
    hub.park("A:a")
    hub.restart()
    hub.sound()
    assert hub.listed() == ["A:a"]
    assert hub.take("B:b") == []
    hub.republish()
    (again,) = hub.get("A:a")
    assert (again.body, topic_of(again), is_republished(again)) == (b"x", "t", True)
    assert hub.app.ack(again) == []
    hub.empty()


def test_reject_parks_at_once(hub: Hub) -> None:
    hub.subscribe("t", "A:a", redelivery_limit=3)
    hub.publish("t", b"x")
    hub.app.settle(m.REJECT, *hub.get("A:a"))
    assert [row["code"] for row in hub.parked()] == ["MESSAGE_REJECTED"]


def test_delivery_limit_parks(hub: Hub) -> None:
    hub.subscribe("t", "A:a", delivery_limit=2)
    hub.publish("t", b"x")
    for _ in range(2):
        hub.app.settle(m.RETURN, *hub.get("A:a"))
    assert [row["code"] for row in hub.parked()] == ["DELIVERY_LIMIT_REACHED"]


def test_unknown_rollback_changes_nothing(hub: Hub) -> None:
    """C23: The client never held the message, or no longer holds it."""
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.publish("t", b"x")
    held = hub.get("A:a")
    assert hub.app.ack(*held) == []
    # As on a queue, the release succeeds because the message is not leased.
    assert hub.app.release(*held) == []
    stranger = m.HANDLE.pack(4, 77, 1)
    hub.app.send(m.Settle(99, m.RELEASE, 4711, stranger))
    hub.manager.rest()
    assert hub.listed() == []
    hub.empty()
