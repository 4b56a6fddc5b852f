"""Tests of which messages a group admits. test_groups.py tests refusals against stored rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.queue.group.admission import NO_GROUP, UncommittedMembers, check_number, check_row
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.row import GroupRow

A, B = b"A".ljust(24, b"\0"), b"B".ljust(24, b"\0")
members = st.builds(Member, st.sampled_from([A, B]), st.integers(1, 6))


def refusal(pending: UncommittedMembers, member: Member, *, is_last: bool = False) -> str:
    error = pending.error("Q", member, is_last=is_last)
    return "" if error is None else ErrorCode(error.code).name


@given(st.lists(members, unique=True), members)
def test_number_held_by_a_unit_is_refused_to_others(held: list[Member], other: Member) -> None:
    pending = UncommittedMembers()
    for member in held:
        pending.keep(member, is_last=False)
    assert refusal(pending, other) == ("GROUP_NUMBER_TAKEN" if other in held else "")
    assert len(pending) == len({member.group_id for member in held})
    for member in held:
        pending.give_up(member)
    assert len(pending) == 0
    assert refusal(pending, other) == ""


def test_last_member_in_a_unit_ends_its_group() -> None:
    pending = UncommittedMembers()
    pending.keep(Member(A, 3), is_last=True)
    assert refusal(pending, Member(A, 4)) == "GROUP_ENDED"
    assert refusal(pending, Member(A, 2)) == ""
    assert refusal(pending, Member(A, 2), is_last=True) == "GROUP_ENDED"
    assert refusal(pending, Member(B, 4)) == ""
    pending.keep(Member(A, 1), is_last=False)
    pending.give_up(Member(A, 3))
    assert refusal(pending, Member(A, 4)) == ""
    assert refusal(pending, Member(A, 4), is_last=True) == ""


@pytest.mark.parametrize("number", [0, -1, 1_000_000_000, 2**32 - 1])
def test_number_out_of_range_is_refused(number: int) -> None:
    """E19: a number out of range is refused."""
    with pytest.raises(RequestError, match="GROUP_NUMBER_INVALID"):
        check_number(Member(A, number))


def test_invalid_group_id_is_refused() -> None:
    with pytest.raises(RequestError, match="24 zero bytes is not valid"):
        check_number(Member(NO_GROUP, 1))


def test_row_gives_the_reason() -> None:
    """E36 (D7): the answer states the reason."""
    row = GroupRow(done=2, highest=5)
    with pytest.raises(
        RequestError, match="number 2 of group A on queue Q has already left the queue, and"
    ):
        check_row("Q", row, Member(A, 2), is_last=False)
    with pytest.raises(RequestError, match="continues to number 5, so 4 cannot be the last"):
        check_row("Q", row, Member(A, 4), is_last=True)
    check_row("Q", row, Member(A, 5), is_last=True)
    row.last = 5
    with pytest.raises(RequestError, match="group A on queue Q ends with number 5"):
        check_row("Q", row, Member(A, 6), is_last=False)
    row.is_closed = True
    with pytest.raises(RequestError, match="was closed with number 5"):
        check_row("Q", row, Member(A, 6), is_last=False)
