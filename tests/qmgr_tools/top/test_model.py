"""Tests of the conversion of samples into rows with rates."""

from typing import Any

import pytest

from qmgr_tools.top.model import TREND_MAX, Frame, Model, Sample, rate

STATUS = {
    "name": "NYC",
    "boot": 3,
    "turn": 100,
    "cpu_ms": 1_000,
    "store_used_bytes": 250,
    "store_map_bytes": 1_000,
}


def queue(name: str = "Q", **told: Any) -> dict[str, Any]:
    known = {
        "kind": "local",
        "queue_id": 1,
        "depth": 0,
        "bytes": 0,
        "puts": 0,
        "delivered": 0,
        "acked": 0,
        "depth_max": 10,
        "bytes_max": 100,
    }
    return {"queue": name} | known | told


def sample(time_ms: int, *queues: dict[str, Any], **more: Any) -> Sample:
    status = STATUS | more.pop("status", {})
    return Sample(time_ms, status, queues, **more)


def row(frame: Frame, view: str = "queues", number: int = 0) -> dict[str, Any]:
    return frame.rows[view][number]


def test_rate_is_the_rise_by_the_second() -> None:
    model = Model()
    first = model.take(sample(1_000, queue(puts=100, delivered=50, acked=10)))
    assert [row(first)[f"{name}_rate"] for name in ("put", "get", "ack")] == [None] * 3
    second = model.take(sample(3_000, queue(puts=300, delivered=51, acked=10)))
    assert [row(second)[f"{name}_rate"] for name in ("put", "get", "ack")] == [100.0, 0.5, 0.0]


@pytest.mark.parametrize(
    ("now", "before", "elapsed_ms"),
    [
        ({"n": 5}, {}, 1_000),
        ({}, {"n": 5}, 1_000),
        ({"n": 4}, {"n": 5}, 1_000),
        ({"n": 5}, {"n": 5}, 0),
    ],
)
def test_rate_that_nobody_knows_is_none(
    now: dict[str, int], before: dict[str, int], elapsed_ms: int
) -> None:
    assert rate(now, before, "n", elapsed_ms) is None


def test_queue_that_was_made_anew_begins_anew() -> None:
    model = Model()
    model.take(sample(0, queue(puts=5)))
    assert row(model.take(sample(1_000, queue(puts=9, queue_id=2))))["put_rate"] is None


def test_rates_do_not_reach_over_a_restart() -> None:
    model = Model()
    model.take(sample(0, queue(puts=5)))
    frame = model.take(sample(1_000, queue(puts=9), status={"boot": 4, "turn": 200}))
    assert (row(frame)["put_rate"], frame.head["turn_rate"]) == (None, None)
    frame = model.take(sample(2_000, queue(puts=10), status={"boot": 4, "turn": 201}))
    assert (row(frame)["put_rate"], frame.head["turn_rate"]) == (1.0, 1.0)


def test_head_sums_the_queues_and_tells_shares() -> None:
    model = Model()
    assert model.take(sample(0, queue("A"), queue("B"))).head["put_rate"] is None
    status = {"cpu_ms": 1_500, "turn": 130}
    frame = model.take(sample(2_000, queue("A", puts=4), queue("B", puts=2), status=status))
    head = frame.head
    assert (head["put_rate"], head["get_rate"], head["turn_rate"]) == (3.0, 0.0, 15.0)
    assert (head["cpu_percent"], head["store_percent"], head["name"]) == (25.0, 25.0, "NYC")


def test_trend_has_the_depths_and_an_end() -> None:
    model = Model()
    for depth in range(TREND_MAX + 5):
        frame = model.take(sample(depth, queue(depth=depth)))
    assert row(frame)["trend"] == tuple(range(5, TREND_MAX + 5))


def test_trend_of_a_queue_that_was_gone_begins_anew() -> None:
    model = Model()
    model.take(sample(0, queue(depth=7)))
    model.take(sample(1))
    assert row(model.take(sample(2, queue(depth=3))))["trend"] == (3,)


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ({}, "open"),
        ({"depth": 10}, "full"),
        ({"bytes": 100}, "full"),
        ({"put_inhibit": True, "get_inhibit": False}, "no puts"),
        ({"get_inhibit": True}, "no gets"),
        ({"put_inhibit": True, "get_inhibit": True, "depth": 10}, "closed"),
        ({"queue": "@HUB", "kind": "transmission"}, "blocked"),
        ({"queue": "@HUB", "kind": "transmission", "depth": 10}, "full"),
        ({"queue": "@GONE", "kind": "transmission"}, "no link"),
    ],
)
def test_state_of_a_queue(told: dict[str, Any], state: str) -> None:
    links = [{"link": "HUB", "state": "blocked"}]
    assert row(Model().take(sample(0, queue() | told, links=links)))["state"] == state


def test_remote_queue_has_the_state_of_its_link_and_no_counters() -> None:
    remote = {"queue": "F@HUB", "kind": "remote", "target": "F", "manager": "HUB"}
    shown = row(Model().take(sample(0, remote, links=[{"link": "HUB", "state": "up"}])))
    assert (shown["state"], shown["put_rate"], shown["trend"]) == ("up", None, ())


def test_links_of_both_directions_have_rates() -> None:
    def at(time_ms: int, transferred: int, commit_id: int) -> Sample:
        return sample(
            time_ms,
            links=[{"link": "HUB", "state": "up", "transferred": transferred}],
            inbound=[
                {"peer": "EWR", "stream": "aa", "commit_id": commit_id},
                {"peer": "JFK", "stream": "bb", "commit_id": 0},
                {"peer": "EWR", "stream": "cc", "commit_id": 0, "blocked_id": 1},
            ],
            connections=[{"connection": 4, "kind": "inbound", "name": "EWR", "address": "h:1"}],
        )

    model = Model()
    model.take(at(0, 10, 100))
    out, there, away, held = model.take(at(2_000, 30, 106)).rows["links"]
    assert (out["direction"], out["rate"], out["key"]) == ("out", 10.0, "out HUB")
    assert (there["link"], there["direction"], there["state"]) == ("EWR", "in", "up")
    assert (there["rate"], there["addresses"]) == (3.0, ["h:1"])
    assert (away["state"], away["addresses"]) == ("away", [])
    assert held["state"] == "blocked"


def test_what_is_told_is_not_changed() -> None:
    told = queue()
    Model().take(sample(0, told))
    assert "state" not in told
