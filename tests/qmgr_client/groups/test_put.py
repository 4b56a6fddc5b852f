"""Tests of a putting handle's state, in addition to tests/conversations/group_put."""

import pytest

from qmgr_client.groups.put import GroupPutState
from qmgr_client.outgoing import Group
from qmgr_client.sansio.units import Unit
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
    """E15: The next call clears the warning."""
    state = GroupPutState()
    state.logical(A, None, last=False, persistent=True)
    state.physical(None, None, persistent=True)
    assert state.warning == ErrorCode.INCOMPLETE_GROUP
    state.alone()
    assert state.warning is None


def test_inconsistency_within_a_group_is_the_first_warning() -> None:
    """E16, E17: An inconsistency takes precedence over the warning for an incomplete group."""
    state = GroupPutState()
    state.logical(A, None, last=False, persistent=True)
    warnings = []
    for group, unit, persistent in (
        (Group(A, 2), Unit(1), False),
        (Group(A, 3), None, False),
        (Group(b"b" * 24, 3), Unit(1), True),
    ):
        state.physical(group, unit, persistent=persistent)
        warnings.append(state.warning)
    assert warnings == [ErrorCode.INCONSISTENT_PERSISTENCE, ErrorCode.INCONSISTENT_UNIT, None]


def test_refusal_carries_mqs_number() -> None:
    """E15, E16, E17: The errors have the reason codes in the table."""
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
