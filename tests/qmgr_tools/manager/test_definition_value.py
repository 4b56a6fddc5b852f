"""Tests of the checks of values in a file of definitions."""

from typing import Any

import pytest

from qmgr_tools.manager import definition_value


@pytest.mark.parametrize(
    ("name", "value", "is_valid"),
    [
        ("depth_max", 5, True),
        ("depth_max", 0, False),
        ("depth_max", "5", False),
        ("retry_factor", 1.5, True),
        ("retry_factor", float("nan"), False),
        ("exclusive", 1, False),
        ("overflow", "drop", False),
        ("backout_queue", "", True),
        ("backout_queue", "Q", False),
        ("backout_queue", "@NYC", False),
        ("backout_queue", "SYSTEM.EVENTS", False),
    ],
)
def test_attribute_of_a_queue(name: str, value: Any, is_valid: bool) -> None:
    assert (definition_value.attribute_fault("Q", name, value) == "") is is_valid


@pytest.mark.parametrize(
    ("name", "value", "is_valid"),
    [
        ("addresses", [], True),
        ("addresses", ["h:1", "unix:/x"], True),
        ("addresses", ["h"], False),
        ("addresses", None, False),
        ("connections", 17, False),
        ("routes", ["*", "NYC"], True),
        ("routes", ["a b"], False),
        ("ordered", 1, False),
    ],
)
def test_attribute_of_a_link(name: str, value: Any, is_valid: bool) -> None:
    assert (definition_value.link_fault(name, value) == "") is is_valid
