"""Tests of the order of pieces."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.errors import FieldInvalid
from qmgr_protocol.pieces import PIECE_BYTES, PIECE_MULTIPLE, PieceOrder, piece_bytes

SIZE = 3 * PIECE_BYTES - 1


def piece(offset: int, length: int = PIECE_BYTES, *, body: int = 1, size: int = SIZE) -> m.Piece:
    return m.Piece(body, size, offset, bytes(length))


def test_body_is_complete_with_its_last_piece() -> None:
    order = PieceOrder()
    offsets = (0, PIECE_BYTES, 2 * PIECE_BYTES)
    found = [order.take(piece(at, min(PIECE_BYTES, SIZE - at))) for at in offsets]
    assert found == [False, False, True]


def test_body_of_one_piece_is_complete_at_once() -> None:
    assert PieceOrder().take(piece(0, m.PIECE_LEAST_BYTES + 1, size=m.PIECE_LEAST_BYTES + 1))


def test_pieces_of_bodies_are_mixed() -> None:
    order = PieceOrder()
    for offset in (0, PIECE_BYTES):
        for body in range(1, m.BODIES_MAX + 1):
            assert not order.take(piece(offset, body=body))


def test_piece_at_offset_0_begins_an_incomplete_body_from_scratch() -> None:
    order = PieceOrder()
    order.take(piece(0))
    order.take(piece(0, size=SIZE + 1))
    assert not order.take(piece(PIECE_BYTES, size=SIZE + 1))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (piece(2 * PIECE_BYTES), "Piece.offset: 504000 of 755999 does not follow 252000 of 755999"),
        (piece(PIECE_BYTES, size=SIZE + 1), "Piece.offset: 252000 of 756000 does not follow"),
        (piece(PIECE_BYTES, body=2), "Piece.offset: 252000 of 755999 does not follow 0 of 755999"),
        (piece(PIECE_BYTES, PIECE_MULTIPLE + 1), "Piece.data: 4001 bytes at 252000 of 755999"),
        (piece(PIECE_BYTES, 0), "Piece.data: 0 bytes at 252000"),
        (piece(PIECE_BYTES, SIZE), "Piece.data: 755999 bytes at 252000"),
        (piece(0, m.PIECE_LEAST_BYTES - PIECE_MULTIPLE), "Piece.data: the first piece has 64000"),
    ],
)
def test_wrong_piece_is_refused(wrong: m.Piece, why: str) -> None:
    order = PieceOrder()
    order.take(piece(0))
    with pytest.raises(FieldInvalid) as caught:
        order.take(wrong)
    assert str(caught.value).startswith(why)


def test_piece_after_the_last_one_is_refused() -> None:
    order = PieceOrder()
    order.take(piece(0, m.PIECE_LEAST_BYTES, size=m.PIECE_LEAST_BYTES))
    with pytest.raises(FieldInvalid, match="does not follow 0"):
        order.take(piece(m.PIECE_LEAST_BYTES, 4_000, size=m.PIECE_LEAST_BYTES + 4_000))


@pytest.mark.parametrize(
    ("accepted", "expected"),
    [(0, 0), (m.PIECE_LEAST_BYTES, 68_000), (71_999, 68_000), (10**9, PIECE_BYTES)],
)
def test_pieces_have_the_size_that_the_receiver_accepts(accepted: int, expected: int) -> None:
    assert piece_bytes(accepted) == expected


def test_first_piece_holds_all_bytes_before_the_body_of_a_message() -> None:
    front = records.HEAD_BYTES + records.CORRELATION_MAX_BYTES + records.GROUP.size
    front += records.DELAY.size + records.ENVELOPE_MAX_BYTES
    assert front <= m.PIECE_LEAST_BYTES
    assert m.PIECE_LEAST_BYTES % PIECE_MULTIPLE == PIECE_BYTES % PIECE_MULTIPLE == 0
    assert PIECE_BYTES <= m.PIECE_MAX_BYTES
