"""Tests of a handle's position after the end of a unit of work, and after refusals."""

from qmgr_client.groups.place import GroupPosition, HandlePosition
from qmgr_client.sansio.units import Unit

A, B = b"a" * 24, b"b" * 24


def test_backout_brings_back_the_place_before_the_first_step() -> None:
    """E24: The conversations in tests/conversations/group_put show more of this behaviour."""
    places, unit = HandlePosition(), Unit(1)
    places.move(GroupPosition(A, 1))
    places.move(GroupPosition(A, 2, unit))
    places.move(GroupPosition(A, 3, unit))
    unit.is_over = unit.is_undone = True
    places.look()
    assert places.place == GroupPosition(A, 1)


def test_step_outside_of_the_unit_is_not_undone() -> None:
    places, unit = HandlePosition(), Unit(1)
    places.move(GroupPosition(A, 2, unit))
    places.move(GroupPosition(B, 7))
    unit.is_over = unit.is_undone = True
    places.look()
    assert places.place == GroupPosition(B, 7)


def test_refusal_of_a_units_first_step_forgets_the_unit() -> None:
    places, unit = HandlePosition(), Unit(1)
    places.mark()
    places.move(GroupPosition(A, 1, unit))
    places.move_back()
    assert places.place == GroupPosition()
    places.move(GroupPosition(B, 1))
    unit.is_over = unit.is_undone = True
    places.look()
    assert places.place == GroupPosition(B, 1)


def test_refusal_after_the_unit_was_backed_out_leads_back_no_further() -> None:
    places, unit = HandlePosition(), Unit(1)
    places.move(GroupPosition(A, 1, unit))
    places.mark()
    places.move(GroupPosition(A, 2, unit))
    unit.is_over = unit.is_undone = True
    places.look()
    places.move_back()
    assert places.place == GroupPosition()


def test_nothing_is_left_of_a_lost_place() -> None:
    places, unit = HandlePosition(), Unit(1)
    places.move(GroupPosition(A, 1))
    places.move(GroupPosition(A, 2, unit))
    places.lose()
    unit.is_over = unit.is_undone = True
    places.look()
    assert places.place == GroupPosition()
