"""Tests that valid rows are accepted, and invalid rows are refused."""

from typing import Any

import pytest

from qmgr_protocol.codec import unpack
from qmgr_protocol.errors import RequestError
from qmgrd.core.catalogue import row_checks
from qmgrd.core.jobs.job import KINDS, new_row, read_row
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.counters import Counters
from tests.poison.filled import filled

LOCAL = {"kind": "local", "queue_id": 3}
LINK = {"addresses": ["h:1"], "stopped": False, "queue_id": 3}
WRONG = (ValueError, KeyError, RequestError)


def stored(space: bytes) -> list[tuple[str, Any]]:
    """Returns the rows that a running queue manager has stored under the prefix."""
    return [
        (key[1:].decode(errors="replace"), unpack(rows.unseal(key, value)))
        for key, value in filled().items()
        if key[:1] == space
    ]


def test_stored_rows_are_valid() -> None:
    for name, row in stored(keys.SPACE_QUEUE):
        assert row_checks.queue(name, row, 1_000) == row
    for name, row in stored(keys.SPACE_LINK):
        assert row_checks.link(name, row) == row
    for name, row in stored(keys.SPACE_TEMPLATE):
        assert row_checks.template(name, row) == row
    for name, row in stored(keys.SPACE_TOPIC):
        assert row_checks.topic(name, row) == row
    for _, row in stored(keys.SPACE_JOB):
        assert read_row(row).items() >= row.items()


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("Q", None),
        ("Q", {}),
        ("Q", {"kind": "remote", "queue_id": 3}),
        ("Q", {"kind": "local"}),
        ("Q", LOCAL | {"queue_id": 0}),
        ("Q", LOCAL | {"queue_id": 9}),
        ("Q", LOCAL | {"queue_id": keys.PUBLICATIONS_ID}),
        ("Q", LOCAL | {"depth_max": "many"}),
        ("Q", LOCAL | {"overflow": "explode"}),
        ("Q", LOCAL | {"put_inhibit": 1}),
        ("Q", LOCAL | {"lease_ms": 2**60}),
        ("Q@NYC", LOCAL),
        ("@NYC", LOCAL),
        ("a b", LOCAL),
        ("Q", {"kind": "alias", "queue_id": 0, "alias_of": 7}),
        ("Q", {"kind": "alias", "queue_id": 0, "alias_of": "@NYC"}),
        ("Q", {"kind": "publications", "queue_id": keys.PUBLICATIONS_ID}),
        ("SYSTEM.PUBLICATIONS", LOCAL),
        ("B:late", LOCAL),
        ("B:late", {"kind": "subscription", "queue_id": 3, "topic": "#/x", "first": 1}),
        ("B:late", {"kind": "subscription", "queue_id": 3, "topic": "x", "first": -1}),
    ],
)
def test_definition_of_a_queue_that_cannot_be_true(name: str, row: Any) -> None:
    with pytest.raises(WRONG):
        row_checks.queue(name, row, 9)


def test_limits_of_another_time_and_what_a_newer_version_knows_are_left_alone() -> None:
    row = LOCAL | {"depth_max": 10**13, "colour": "red"}
    assert row_checks.queue("Q", row, 9) == row


@pytest.mark.parametrize(
    "changes",
    [
        {"addresses": 7},
        {"stopped": 1},
        {"queue_id": -1},
        {"connections": 99},
        {"routes": ["a b"]},
        {"stream": "x"},
    ],
)
def test_definition_of_a_link_that_cannot_be_true(changes: dict[str, Any]) -> None:
    row_checks.link("NYC", LINK)
    with pytest.raises(WRONG):
        row_checks.link("NYC", LINK | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "dance"},
        {"state": "tired"},
        {"cursor": ""},
        {"done": -1},
        {"queue_id": 2**40},
        {"whys": {"x": "y"}},
        {"subscriptions": [1]},
        {"lane": "ready"},
        {"rate": True},
    ],
)
def test_job_that_cannot_be_true(changes: dict[str, Any]) -> None:
    with pytest.raises(WRONG):
        read_row(new_row("move", 0, {}) | changes)


def test_jobs_of_every_kind_make_sense() -> None:
    facts: dict[str, Any] = {"group": bytes(24), "first": 1}
    for kind in KINDS:
        assert read_row(new_row(kind, 0, facts))["kind"] == kind


def test_counters_beyond_all_bounds_cannot_be_true() -> None:
    row_checks.counters(Counters(next_arrival=7, depth=3))
    with pytest.raises(ValueError, match="depth in the counters"):
        row_checks.counters(Counters(depth=2**60))


@pytest.mark.parametrize(("pattern", "row"), [("a b", {}), ("A.*", []), ("A.*", {"depth_max": ""})])
def test_template_that_cannot_be_true(pattern: str, row: Any) -> None:
    with pytest.raises(WRONG):
        row_checks.template(pattern, row)


@pytest.mark.parametrize(("topic", "row"), [("a/#", {}), ("a", None), ("a", {"republish": "x"})])
def test_topic_that_cannot_be_true(topic: str, row: Any) -> None:
    with pytest.raises(WRONG):
        row_checks.topic(topic, row)
