"""Tests of the answers to operators about topics, subscriptions and parked publications."""

from collections.abc import Iterator

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import encode_uid
from qmgrd.core.requests import topics as topic_admin
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.pubsub import Hub


@pytest.fixture
def hub() -> Iterator[Hub]:
    hub = Hub()
    yield hub
    hub.sound()
    audit(hub.manager)


def test_missing_subscribers_of_a_publication_are_listed_with_their_state(hub: Hub) -> None:
    for name in ("S:done", "S:leased", "S:parked", "S:ready", "S:failed"):
        hub.subscribe("t", name, redelivery_limit=0 if "parked" in name else 5)
    hub.publish("t", b"x")
    uid = encode_uid(hub.app.browse("S:ready")[0].uid)
    hub.take("S:done")
    hub.get("S:leased")
    hub.park("S:parked")
    hub.fail("S:failed", 2)
    value = hub.app.ask(m.TopicLacks, uid)
    assert value["topic"] == "t"
    assert {row["subscription"]: row["state"] for row in value["subscriptions"]} == {
        "S:leased": "leased",
        "S:parked": "parked",
        "S:ready": "ready",
        "S:failed": "ready",
    }
    assert {row["subscription"]: row["failed"] for row in value["subscriptions"]}["S:failed"] == 2


def test_missing_subscribers_are_found_after_a_change_of_the_default_priority(hub: Hub) -> None:
    hub.subscribe("t", "S:1", priority_default=7)
    hub.publish("t", b"x", flags=1)
    (held,) = hub.app.browse("S:1")
    assert held.priority == 7
    hub.app.ask(m.QueueAlter, "S:1", {"priority_default": 2})
    value = hub.app.ask(m.TopicLacks, encode_uid(held.uid))
    assert [row["subscription"] for row in value["subscriptions"]] == ["S:1"]


def test_delayed_publication_is_reported_and_consumed_one_is_unknown(hub: Hub) -> None:
    hub.subscribe("t", "S:1")
    hub.publish("t", b"x", delay_ms=1_000, uid=("MINE", 1))
    uid = b"MINE" + (1).to_bytes(8, "big")
    assert hub.app.ask(m.TopicLacks, uid)["subscriptions"][0]["state"] == "delayed"
    hub.manager.turn(1_001)
    hub.take("S:1")
    assert hub.app.code_of(m.TopicLacks, uid) is ErrorCode.PUBLICATION_UNKNOWN


def test_parked_publications_are_listed_in_pages(hub: Hub) -> None:
    """C24: the list of parked publications is divided into pages."""
    for name in ("A:a", "B:b", "C:c"):
        hub.subscribe("t/#", name, redelivery_limit=0)
    hub.publish("t/1", b"1")
    hub.publish("t/2", b"2")
    hub.park("A:a", "B:b", "C:c")
    found, after = [], None
    for _ in range(10):
        value = hub.app.ask(m.RepublishList, after, 2)
        found += [(row["topic"], row["subscription"]) for row in value["parked"]]
        after = value["next"]
        if after is None:
            break
    assert found == [(f"t/{i}", name) for i in (1, 2) for name in ("A:a", "B:b", "C:c")]
    assert hub.listed(subscription="B:b") == ["B:b", "B:b"]
    assert len(hub.listed(where="topic = 't/2'")) == 3
    assert hub.listed(where="topic LIKE 'u%'") == []


def test_page_of_what_is_parked_looks_at_a_limited_part(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_admin, "LOOKED_AT_MAX", 2)
    hub.subscribe("t", "A:a", redelivery_limit=0)
    hub.publish("t", *(b"%d" % i for i in range(5)))
    hub.park("A:a")
    pages: list[int] = []
    after = None
    while not pages or after is not None:
        value = hub.app.ask(m.RepublishList, after, 10)
        pages.append(len(value["parked"]))
        after = value["next"]
    assert sum(pages) == 5
    assert max(pages) == 2


def test_subscriptions_are_listed_in_order_and_by_topic(hub: Hub) -> None:
    hub.subscribe("t/#", "B:b")
    hub.subscribe("t/u", "A:a", where="priority = 3")
    hub.subscribe("x", "C:c")
    page = hub.app.ask(m.SubscriptionList, "", 2)
    assert [row["subscription"] for row in page["subscriptions"]] == ["A:a", "B:b"]
    page = hub.app.ask(m.SubscriptionList, page["next"], 2)
    assert ([row["subscription"] for row in page["subscriptions"]], page["next"]) == (["C:c"], None)
    page = hub.app.ask(m.SubscriptionList, "", 10, "t/u")
    assert [row["where"] for row in page["subscriptions"]] == ["priority = 3", ""]
    assert hub.app.code_of(m.SubscriptionList, "", 10, "t//u") is ErrorCode.TOPIC_INVALID


def test_oldest_waiting_message_is_reported(hub: Hub) -> None:
    hub.subscribe("t", "A:a")
    hub.publish("t", b"9", priority=2)
    first = hub.app.browse("A:a")[0].put_us
    hub.manager.turn(1_000)
    hub.publish("t", b"1", priority=8)
    (row,) = hub.app.ask(m.SubscriptionList)["subscriptions"]
    assert row["oldest_us"] == first
    hub.take("A:a")
    (row,) = hub.app.ask(m.SubscriptionList)["subscriptions"]
    assert row["oldest_us"] is None


def test_topics_are_listed_that_something_is_known_of(hub: Hub) -> None:
    hub.app.ask(m.TopicSet, "b", {"redelivery_limit": 3})
    hub.publish("c", b"x", retain=True)
    hub.publish("a", b"x", retain=True)
    hub.publish("b", b"x", retain=True)
    first = hub.app.ask(m.TopicList, "", 2)
    assert [row["topic"] for row in first["topics"]] == ["a", "b"]
    rest = hub.app.ask(m.TopicList, first["next"], 2)
    assert ([row["topic"] for row in rest["topics"]], rest["next"]) == (["c"], None)


def test_topic_shows_whom_it_fits(hub: Hub) -> None:
    for number in range(30):
        hub.subscribe("t/+", f"S:{number:02}")
    row = hub.app.ask(m.TopicShow, "t/u")
    assert row["subscriptions"] == 30
    assert row["first_subscriptions"] == [f"S:{number:02}" for number in range(20)]
    assert hub.app.code_of(m.TopicShow, "t/+") is ErrorCode.TOPIC_INVALID


def test_position_with_fields_of_a_later_version_is_accepted(hub: Hub) -> None:
    for name in ("S:a", "S:b"):
        hub.subscribe("t", name, redelivery_limit=0)
    hub.publish("t", b"x")
    hub.park("S:a", "S:b")
    first = hub.app.ask(m.RepublishList, None, 1)
    value = hub.app.ask(m.RepublishList, [*first["next"], 3])
    assert [row["subscription"] for row in value["parked"]] == ["S:b"]
