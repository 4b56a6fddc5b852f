"""Tests that the definition of a topic applies to all topics below it."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue import topics
from tests.qmgrd.core.harness import AnyStore
from tests.qmgrd.core.pubsub import Hub


@pytest.fixture
def hub(store: AnyStore) -> Hub:
    return Hub(store)


def test_nearest_definition_is_in_force(hub: Hub) -> None:
    hub.app.ask(m.TopicSet, "a", {"redelivery_limit": 1, "republish": "healthy"})
    hub.app.ask(m.TopicSet, "a/b", {"redelivery_limit": 2})
    hub.restart()
    found = {
        topic: hub.app.ask(m.TopicShow, topic)["redelivery_limit"]
        for topic in ("a", "a/x", "a/b", "a/b/c", "ab", "z")
    }
    assert found == {"a": 1, "a/x": 1, "a/b": 2, "a/b/c": 2, "ab": 5, "z": 5}
    row = hub.app.ask(m.TopicShow, "a/b")
    assert (row["republish"], row["given"]) == ("healthy", ["redelivery_limit"])
    hub.app.ask(m.TopicDelete, "a/b")
    assert hub.app.ask(m.TopicShow, "a/b/c")["redelivery_limit"] == 1
    assert hub.app.code_of(m.TopicDelete, "a/b") is ErrorCode.TOPIC_UNKNOWN
    hub.sound()


def test_nil_inherits_the_value_of_the_topic_above(hub: Hub) -> None:
    hub.app.ask(m.TopicSet, "a", {"redelivery_limit": 1})
    hub.app.ask(m.TopicSet, "a/b", {"redelivery_limit": None})
    assert hub.app.ask(m.TopicShow, "a/b")["redelivery_limit"] == 1


@pytest.mark.parametrize(
    "given",
    [
        {"redelivery_limit": -1},
        {"redelivery_limit": "x"},
        {"republish": "now"},
        {"republish_interval_ms": 1},
        {"put_inhibit": 1},
        {"depth_max": 3},
    ],
)
def test_values_that_are_none_are_refused(hub: Hub, given: dict[str, Any]) -> None:
    assert hub.app.code_of(m.TopicSet, "a", given) is ErrorCode.VALUE_INVALID
    assert hub.app.ask(m.TopicList)["topics"] == []


def test_puts_are_inhibited_below_a_topic(hub: Hub) -> None:
    hub.app.ask(m.TopicSet, "a", {"put_inhibit": True})
    hub.app.ask(m.TopicSet, "a/b", {"put_inhibit": False})
    hub.publish("a/b/c", b"x")
    (refused,) = hub.app.put_records("/a/c", b"")
    assert refused.code is ErrorCode.PUT_INHIBITED


def test_definitions_have_a_limit(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topics, "TOPICS_MAX", 1)
    hub.app.ask(m.TopicSet, "a", {})
    hub.app.ask(m.TopicSet, "a", {"redelivery_limit": 3})
    with pytest.raises(RequestError, match="which is the limit"):
        hub.app.ask(m.TopicSet, "b", {})
