"""The handle that puts, beside its conversations: tests/conversations/group_put."""

import pytest

from qmgr_client.group_put import GroupPutState
from qmgr_client.outgoing import Group
from qmgr_client.units import Unit
from qmgr_protocol.errors import ErrorCode, RequestError

A = b"a" * 24


def test_several_are_refused_together() -> None:
    state, unit = GroupPutState(), Unit(1)
    state.logical(A, unit, last=False, persistent=True)
    state.logical(A, unit, last=False, persistent=True)
    state.logical(A, unit, last=False, persistent=True, is_further=True)
    state.refused()
    assert state.current == Group(A, 1)


def test_warning_is_of_the_last_call() -> None:
    """E15."""
    state = GroupPutState()
    state.logical(A, None, last=False, persistent=True)
    state.physical(None, None, persistent=True)
    assert state.warning == ErrorCode.INCOMPLETE_GROUP
    state.alone()
    assert state.warning is None


def test_other_way_of_the_same_group_is_what_a_warning_tells_first() -> None:
    """E16, E17."""
    state = GroupPutState()
    state.logical(A, None, last=False, persistent=True)
    state.physical(Group(A, 2), Unit(1), persistent=False)
    assert state.warning == ErrorCode.INCONSISTENT_PERSISTENCE
    state.physical(Group(A, 3), None, persistent=False)
    assert state.warning == ErrorCode.INCONSISTENT_UNIT
    state.physical(Group(b"b" * 24, 3), Unit(1), persistent=True)
    assert state.warning is None


def test_refusal_carries_mqs_number() -> None:
    """E15, E16, E17: the reason codes of the table."""
    state = GroupPutState()
    state.logical(A, None, last=False, persistent=True)
    found = []
    with pytest.raises(RequestError) as caught:
        state.alone()
    found.append(ErrorCode(caught.value.code).mq)
    for unit, persistent in ((None, False), (Unit(1), True)):
        with pytest.raises(RequestError) as caught:
            state.logical(b"", unit, last=False, persistent=persistent)
        found.append(ErrorCode(caught.value.code).mq)
    assert [reason[:4] for reason in found] == ["2241", "2185", "2245"]
