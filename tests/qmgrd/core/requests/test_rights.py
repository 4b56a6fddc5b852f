"""Each request needs rights on the objects that its fields name."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.need import EACH, Kind, Need, Right
from qmgr_protocol.transitions import FROM_DIALLER
from qmgrd.core.requests.rights import NEEDS
from qmgrd.core.sessions.settle_part import SettlePart

HEARTBEATS = {m.Ping, m.Pong}
ANSWERS = {m.Ok, m.Error, m.Committed, m.Blocked}  # Either end of a link may send these requests.
REQUESTS = FROM_DIALLER - HEARTBEATS - ANSWERS | {SettlePart}


def test_table_has_each_request_and_nothing_else() -> None:
    assert set(NEEDS) == REQUESTS


@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        (m.Put, [Need(Right.PUT, Kind.DESTINATION, "queue")]),
        (m.Get, [Need(Right.GET, Kind.SOURCE, "queue")]),
        (m.Settle, [Need(Right.CONNECT)]),
        (m.Browse, [Need(Right.BROWSE, Kind.SOURCE, "queue")]),
        (m.QueuePurge, [Need(Right.PURGE, Kind.SOURCE, "queue")]),
        (
            m.QueueMove,
            [
                Need(Right.MOVE, Kind.SOURCE, "queue"),
                Need(Right.PUT, Kind.DESTINATION, "target", or_all=True),
            ],
        ),
        (m.LinkOpen, [Need(Right.LINK, Kind.PEER)]),
        (m.Status, [Need(Right.SHOW)]),
        (m.QueueList, [Need(Right.SHOW, Kind.SOURCE, EACH)]),
        (m.ConnectionClose, [Need(Right.ADMIN)]),
    ],
)
def test_needs_of_a_request(kind: type, needs: list[Need]) -> None:
    assert list(NEEDS[kind]) == needs
