from typing import Any

import pytest

from qmgr_tools.queue import state as queue_state


@pytest.mark.parametrize(
    ("more", "state"),
    [
        ({}, "open"),
        ({"depth": 10}, "full"),
        ({"bytes": 100}, "full"),
        ({"breaker": "closed"}, "open"),
        ({"breaker": "open"}, "breaker"),
        ({"breaker": "probing", "depth": 10}, "breaker"),
        ({"breaker": "open", "get_inhibit": True}, "no gets"),
        ({"put_inhibit": True, "depth": 10}, "no puts"),
        ({"get_inhibit": True}, "no gets"),
        ({"put_inhibit": True, "get_inhibit": True}, "closed"),
    ],
)
def test_state_is_what_keeps_messages_away(more: dict[str, Any], state: str) -> None:
    row = {"queue": "Q", "kind": "local", "depth": 9, "bytes": 99}
    assert queue_state.of(row | {"depth_max": 10, "bytes_max": 100} | more) == state


def test_remote_queue_has_no_limits() -> None:
    assert queue_state.of({"queue": "Q@NYC", "kind": "remote"}) == "open"


@pytest.mark.parametrize(
    ("row", "state"),
    [
        ({"queue": "Q@NYC", "kind": "remote", "manager": "NYC"}, "blocked"),
        ({"queue": "@NYC", "kind": "transmission"}, "blocked"),
        ({"queue": "@NYC", "kind": "transmission", "get_inhibit": True}, "no gets"),
        ({"queue": "Q@EWR", "kind": "remote", "manager": "EWR"}, "no link"),
        ({"queue": "NYC", "kind": "local"}, "open"),
    ],
)
def test_way_over_a_link_is_as_the_link(row: dict[str, Any], state: str) -> None:
    assert queue_state.with_link(row, {"NYC": "blocked"}) == state
