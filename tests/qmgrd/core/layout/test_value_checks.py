"""Tests that values of stored rows must have the right type and a size safe for arithmetic."""

from typing import Any

import pytest

from qmgr_protocol.window import runs_of
from qmgrd.core.layout.value_checks import IDS_MAX, NUMBER_MAX, number, stored_ids, typed


@pytest.mark.parametrize("value", [-1, NUMBER_MAX + 1, True, 1.0, "1", None, b"1"])
def test_invalid_number_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="the depth is "):
        number(value, "the depth")


def test_number_within_limits_is_returned() -> None:
    assert [number(x, "x") for x in (0, NUMBER_MAX)] == [0, NUMBER_MAX]
    assert number(-1, "x", -1) == -1


def test_value_of_another_type_is_refused() -> None:
    assert typed(str, "a", "x") == "a"
    with pytest.raises(ValueError, match="not of type bool"):
        typed(bool, 1, "x")


def test_ids_match_the_runs_they_were_made_from() -> None:
    assert stored_ids(runs_of({3, 4, 9})) == {3, 4, 9}


@pytest.mark.parametrize("runs", ["x", [1], [[1]], [[1, -1]], [[0, 2**40]], [[1, IDS_MAX], [9, 1]]])
def test_invalid_or_endless_runs_are_refused_at_once(runs: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        stored_ids(runs)
