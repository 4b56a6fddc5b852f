"""Tests of the pieces of a long settle."""

from qmgr_protocol import messages as m
from qmgrd.core.sessions.settle_part import parts_of

HANDLES = [m.HANDLE.pack(4, arrival, 0) for arrival in range(5)]


def test_pieces_have_all_handles_in_order_and_the_last_has_the_answer() -> None:
    parts = list(parts_of(m.Settle(1, m.ACK, 1, b"".join(HANDLES)), 2))
    assert b"".join(part.settle.handles for part in parts) == b"".join(HANDLES)
    assert [(part.first_index, part.is_last) for part in parts] == [
        (0, False),
        (2, False),
        (4, True),
    ]


def test_pieces_of_what_is_unread_come_from_the_back() -> None:
    parts = list(parts_of(m.Settle(1, m.UNREAD, 1, b"".join(HANDLES)), 2))
    assert [(part.first_index, part.is_last) for part in parts] == [
        (4, False),
        (2, False),
        (0, True),
    ]
    assert parts[0].settle.handles == HANDLES[4]
