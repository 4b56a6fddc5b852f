"""Tests that each operation requires a right."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.operation import Right
from qmgr_protocol.transitions import FROM_DIALLER
from qmgrd.core.requests.rights import RIGHTS, allowed
from qmgrd.core.sessions.settle_part import SettlePart

HEARTBEATS = {m.Ping, m.Pong}
ANSWERS = {m.Ok, m.Error, m.Committed, m.Blocked}  # Either end of a link may send these requests.
REQUESTS = FROM_DIALLER - HEARTBEATS - ANSWERS | {SettlePart}


def test_table_has_each_request_and_nothing_else() -> None:
    assert set(RIGHTS) == REQUESTS


@pytest.mark.parametrize("kind", sorted(REQUESTS, key=str))
def test_all_clients_have_all_rights_without_authentication(kind: type) -> None:
    assert allowed(kind)


def test_operation_without_a_right_is_a_bug() -> None:
    with pytest.raises(KeyError):
        allowed(m.Welcome)


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        (m.Put, Right.PUT),
        (m.Get, Right.GET),
        (m.Settle, Right.GET),
        (m.Browse, Right.BROWSE),
        (m.QueuePurge, Right.ADMIN),
        (m.LinkOpen, Right.LINK),
        (m.Status, Right.SHOW),
        (m.ConnectionList, Right.SHOW),
        (m.ConnectionClose, Right.ADMIN),
        (m.TemplateSet, Right.ADMIN),
        (m.TemplateDelete, Right.ADMIN),
        (m.TemplateList, Right.SHOW),
    ],
)
def test_right_of_an_operation(kind: type, right: Right) -> None:
    assert RIGHTS[kind] is right
