"""Tests of a reader's state, in addition to tests/conversations/group_get."""

import pytest

from qmgr_client.groups.get import GroupGetState
from qmgr_client.outgoing import Group
from qmgr_client.sansio.units import Unit
from qmgr_protocol.errors import ErrorCode, RequestError

A = b"a" * 24


def test_message_of_no_group_is_a_group_of_one() -> None:
    """E3: After a message without a group, no group is current."""
    state = GroupGetState()
    state.logical(None)
    state.got(None, None, logical=True)
    assert state.current is None
    state.logical(Unit(1))


def test_refusal_leaves_the_reader_where_it_is() -> None:
    """E17: The refused get does not change the current group."""
    state = GroupGetState()
    state.logical(None)
    state.got(Group(A, 1), None, logical=True)
    with pytest.raises(RequestError, match="was read without units of work so far") as caught:
        state.logical(Unit(1))
    assert caught.value.code == ErrorCode.INCONSISTENT_UNIT
    assert state.current == Group(A, 1)


def test_get_that_brings_nothing_is_no_cause_to_warn() -> None:
    """E15: Only a get that returns a message can cause a warning."""
    state = GroupGetState()
    state.logical(None)
    state.got(Group(A, 1), None, logical=True)
    state.physical()
    assert state.warning is None
    state.got(Group(b"b" * 24, 4), None, logical=False)
    assert state.warning == ErrorCode.INCOMPLETE_GROUP
