"""Tests that a subscription is created from its row."""

from typing import Any

import pytest

from qmgr_protocol.errors import RequestError
from qmgrd.core.catalogue.subscription import Subscription
from tests.qmgrd.core.pubsub import Hub


def row(**more: Any) -> dict[str, Any]:
    return {"topic": "a/+/#", "first": 5} | more


def test_kinds_are_reported_by_name() -> None:
    queue = object()
    found = {
        name: Subscription(name, row(), None if "@" in name else queue)  # type: ignore[arg-type]
        for name in ("B:late", ":late", "~4f.1", ":p@NYC")
    }
    assert [one.is_durable for one in found.values()] == [True, True, False, True]
    assert [one.manager for one in found.values()] == ["", "", "", "NYC"]
    assert {one.filter for one in found.values()} == {("a", "+", "#")}
    assert {one.first for one in found.values()} == {5}


def test_state_is_that_of_its_row() -> None:
    found = Subscription("B:late", row(), None)
    assert not found.is_suspended
    found.row = row(suspended=True)
    assert found.is_suspended


def test_selector_is_compiled_once_and_kept_over_a_restart() -> None:
    hub = Hub()
    hub.subscribe("t", "B:late", where="priority > 5")
    hub.restart()
    found = hub.manager.turns.broker.catalogue.topics.subscriptions["B:late"]
    assert found.selector is not None
    with pytest.raises(RequestError):
        hub.subscribe("t", "C:c", where="(")
