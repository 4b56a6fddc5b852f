"""Tests of the attributes of queues."""

import dataclasses
from typing import Any

import pytest

from qmgr_config.model import Config, QueueDefaults
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import QUEUE_ATTRIBUTES, QUEUE_LIMITS, SUBSCRIPTION_ATTRIBUTES
from qmgrd.core.catalogue.attribute import INHIBITS
from qmgrd.core.catalogue.attributes import (
    altered,
    bounds,
    in_force,
    is_same,
    queue_attributes,
    template_attributes,
)
from qmgrd.core.layout.bounds import Bounds


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"depth_max": 1},
        {"depth_max": 10**12, "bytes_max": 1024},
        {"lease_ms": 100},
        {"bytes_max": 2**44},
        {"put_inhibit": True, "get_inhibit": False},
        {"exclusive": False},
        {"expiry_action": "dead-letter", "overflow": "discard-oldest"},
        {"backout_queue": "Q.BACK"},
        {"backout_queue": "BACK@NYC"},
        {"backout_queue": ""},
        {"retry_factor": 1.5},
        {"retry_factor": 100},
    ],
)
def test_queue_attributes_in_range_are_kept(given: dict[str, Any]) -> None:
    assert queue_attributes("Q", given, "local") == given


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"dept_max": 1}, "queues.Q.dept_max: unknown attribute; did you mean depth_max?"),
        ({"zzz": 1}, "queues.Q.zzz: unknown attribute; known: depth_max, bytes_max, lease_ms"),
        ({"depth_max": 0}, "depth max of queue Q: 0 is too small (1 to 1,000,000,000,000)"),
        ({"depth_max": -1}, "depth max of queue Q: -1 is too small"),
        ({"depth_max": True}, "depth max of queue Q: True is not an integer"),
        ({"depth_max": "9"}, "depth max of queue Q: '9' is not an integer"),
        ({"lease_ms": 99}, "lease of queue Q: 99 ms is too small (100 ms to 1 d)"),
        ({"lease_ms": 259_200_000}, "lease of queue Q: 3 d is too large (100 ms to 1 d)"),
        ({"bytes_max": 1}, "bytes max of queue Q: 1 B is too small (1 KiB to 16 TiB)"),
        ({"put_inhibit": 1}, "queues.Q.put_inhibit: 1 is neither true nor false"),
        ({"put_inhibit": None}, "queues.Q.put_inhibit: None is neither"),
        ({"exclusive": "yes"}, "queues.Q.exclusive: 'yes' is neither true nor false"),
        ({"priority_default": 10}, "priority default of queue Q: 10 is too large (0 to 9)"),
        ({"expiry_max_ms": -1}, "expiry max of queue Q: -1 ms is too small (0 ms to 3650 d)"),
        ({"message_max_bytes": 2**31}, "message max of queue Q: 2 GiB is too large (0 B to 1 GiB)"),
        ({"retry_factor": 0.5}, "retry factor of queue Q: 0.5 is too small (1 to 100)"),
        ({"retry_factor": 101}, "retry factor of queue Q: 101 is too large (1 to 100)"),
        ({"retry_factor": float("nan")}, "retry factor of queue Q: nan is too large (1 to 100)"),
        ({"retry_factor": True}, "retry factor of queue Q: True is not a number (1 to 100)"),
        ({"breaker_percent": 1.5}, "breaker percent of queue Q: 1.5 is not an integer"),
        ({"breaker_percent": 101}, "101 % is too large (0 % to 100 %)"),
        ({"overflow": "drop"}, "overflow of queue Q: 'drop' is not one of refuse, discard-oldest"),
        (
            {"expiry_action": ["discard"]},
            "expiry action of queue Q: ['discard'] is not one of discard, dead",
        ),
        (
            {"backout_queue": "Q"},
            "backout queue of queue Q: the value is the name of the queue itself",
        ),
        (
            {"backout_queue": "@NYC"},
            "backout queue of queue Q: @NYC receives messages only from puts to remote",
        ),
        ({"backout_queue": "a b"}, "backout queue of queue Q: 'a b' is not a valid name"),
        ({"backout_queue": 7}, "backout queue of queue Q: 7 is not the name of a queue"),
        ({"alias_of": "R"}, "queues.Q.alias_of: unknown attribute"),
        ({"get_inibit": True}, "queues.Q.get_inibit: unknown attribute; did you mean get_inhibit?"),
    ],
)
def test_queue_attribute_out_of_range_is_named(given: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        queue_attributes("Q", given, "local")
    assert words in caught.value.text
    assert caught.value.code == ErrorCode.VALUE_INVALID


@pytest.mark.parametrize("attribute", sorted(QUEUE_LIMITS.keys() & QueueDefaults.model_fields))
def test_defaults_are_held_to_the_same_limits(attribute: str) -> None:
    (quantity,) = QueueDefaults.model_fields[attribute].metadata
    assert QUEUE_LIMITS[attribute] == (quantity.low, quantity.high)


@pytest.mark.parametrize(
    ("kind", "attribute", "known"),
    [
        ("remote", "depth_max", "put_inhibit"),
        ("remote", "get_inhibit", "put_inhibit"),
        ("transmission", "lease_ms", "depth_max, bytes_max, accounting, put_inhibit, get_inhibit"),
    ],
)
def test_other_kinds_have_fewer_attributes(kind: str, attribute: str, known: str) -> None:
    with pytest.raises(RequestError, match=f"(known: {known}|did you mean)"):
        queue_attributes("Q@B", {attribute: 1}, kind)


@pytest.mark.parametrize(
    ("changes", "row"),
    [
        ({}, {"kind": "local", "depth_max": 3}),
        ({"depth_max": 4, "lease_ms": 100}, {"kind": "local", "depth_max": 4, "lease_ms": 100}),
        ({"depth_max": None, "lease_ms": None}, {"kind": "local"}),
        ({"put_inhibit": True}, {"kind": "local", "depth_max": 3, "put_inhibit": True}),
        ({"put_inhibit": False}, {"kind": "local", "depth_max": 3}),
        ({"put_inhibit": None}, {"kind": "local", "depth_max": 3}),
    ],
)
def test_alteration_changes_what_it_names(changes: dict[str, Any], row: dict[str, Any]) -> None:
    assert altered("Q", {"kind": "local", "depth_max": 3}, changes) == row


@pytest.mark.parametrize("changes", [{"kind": "remote"}, {"queue_id": 1}, {"colour": None}])
def test_alteration_changes_nothing_else(changes: dict[str, Any]) -> None:
    with pytest.raises(RequestError, match="unknown attribute"):
        altered("Q", {"kind": "local"}, changes)


@pytest.mark.parametrize(
    ("row", "given", "same"),
    [
        ({}, {}, True),
        ({"depth_max": 3}, {}, False),
        ({"put_inhibit": True}, {}, True),
        ({"put_inhibit": True}, {"put_inhibit": True}, True),
        ({"put_inhibit": True}, {"put_inhibit": False}, False),
        ({"put_inhibit": True}, {"get_inhibit": True}, False),
        ({}, {"put_inhibit": False}, True),
        ({}, {"put_inhibit": True}, False),
        ({"depth_max": 3, "get_inhibit": True}, {"depth_max": 3}, True),
    ],
)
def test_inhibit_is_part_of_a_definition_that_names_it(
    row: dict[str, Any], given: dict[str, Any], same: bool
) -> None:
    assert is_same({"kind": "local", "queue_id": 1} | row, given) is same


def test_flag_of_the_definition_is_part_of_it_even_if_it_is_false() -> None:
    assert altered("Q", {"kind": "local"}, {"exclusive": False})["exclusive"] is False
    assert not is_same({"kind": "local", "queue_id": 1}, {"exclusive": False})


def test_every_attribute_is_one_of_the_bounds_and_the_other_way_round() -> None:
    fields = {field.name for field in dataclasses.fields(Bounds)}
    others = {*SUBSCRIPTION_ATTRIBUTES} - {*QUEUE_ATTRIBUTES}
    assert {*QUEUE_ATTRIBUTES, *INHIBITS, "leases_max"} == fields - others
    assert others == {"redelivery_limit"} < fields
    row = {"kind": "local", "queue_id": 1, "retry_factor": 1.5}
    found = in_force(Config(), row)
    assert found.keys() == fields - others - {"leases_max"}
    assert (found["retry_factor"], found["overflow"], found["depth_max"]) == (
        1.5,
        "refuse",
        100_000_000,
    )
    assert queue_attributes("Q", found, "local") == found


def test_template_has_the_attributes_of_a_queue_and_no_state() -> None:
    given = {"depth_max": 3, "lease_ms": None}
    assert template_attributes("APP.*", given) == {"depth_max": 3}
    for wrong, words in (
        ({"put_inhibit": True}, r"templates\.APP\.\*\.put_inhibit: unknown attribute"),
        ({"alias_of": "Q"}, r"templates\.APP\.\*\.alias_of: unknown attribute"),
        ({"depth_max": 0}, r"depth max of template APP\.\*: 0 is too small"),
    ):
        with pytest.raises(RequestError, match=words):
            template_attributes("APP.*", wrong)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"alias_of": ""}, "queues.S.alias_of: empty"),
        ({"alias_of": "S"}, "queues.S.alias_of: the value is the name of the queue itself"),
        ({"alias_of": "@NYC"}, "only from puts to remote queues"),
        ({"alias_of": "Q", "depth_max": 3}, "queues.S.depth_max: unknown attribute"),
    ],
)
def test_alias_names_a_queue_and_has_no_limits(given: dict[str, Any], words: str) -> None:
    with pytest.raises(RequestError) as caught:
        queue_attributes("S", given, "alias")
    assert words in caught.value.text


def test_alias_keeps_what_it_names() -> None:
    row = {"kind": "alias", "alias_of": "Q"}
    assert altered("S", row, {"alias_of": "R@NYC"}) == row | {"alias_of": "R@NYC"}
    with pytest.raises(RequestError, match=r"queues\.S\.alias_of: this attribute has no default"):
        altered("S", row, {"alias_of": None})


def test_bounds_fall_back_to_the_defaults() -> None:
    found = bounds(Config(), {"depth_max": 7})
    assert (found.depth_max, found.lease_ms, found.leases_max) == (7, 30_000, 10_000)
