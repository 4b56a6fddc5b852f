from typing import Any

import pytest

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.layout import NUMBERS
from qmgr_protocol.states import Side, State
from qmgr_protocol.transitions import (
    FROM_DIALLER,
    FROM_LISTENER,
    QUEUE_MANAGER_ONLY,
    TRANSITIONS,
    moves,
)

HANDSHAKE = {m.Hello, m.Welcome, m.AuthChallenge, m.AuthAnswer, m.Goaway}
ORDER = list(State)


def test_each_message_may_be_sent_by_somebody() -> None:
    assert {kind for _, _, kind in TRANSITIONS} == set(layout.NUMBERS)


def test_handshake_happens_once() -> None:
    """A connection never returns to a previous state."""
    for (before, _, kind), after in TRANSITIONS.items():
        if before is State.OPEN and kind is not m.Goaway:
            assert after is State.OPEN
        else:
            assert ORDER.index(after) > ORDER.index(before), (before, kind)


def test_nothing_is_said_once_closed() -> None:
    assert not [key for key in TRANSITIONS if key[0] is State.CLOSED]


def test_only_the_handshake_is_valid_before_open() -> None:
    assert {kind for before, _, kind in TRANSITIONS if before is not State.OPEN} <= HANDSHAKE


def test_either_side_may_leave_an_open_connection() -> None:
    for side in Side:
        assert TRANSITIONS[State.OPEN, side, m.Goaway] is State.CLOSED


def test_only_heartbeats_and_pieces_go_both_ways_but_between_queue_managers() -> None:
    both = {kind for kind in FROM_DIALLER & FROM_LISTENER if not _is_of_managers(kind)}
    assert both == {m.Ping, m.Pong, m.Piece}


@pytest.mark.parametrize("side", Side)
def test_piece_is_not_sent_to_an_end_that_does_not_accept_pieces(side: Side) -> None:
    with_pieces = moves(State.OPEN, side, "client")
    without = moves(State.OPEN, side, "client", accepts_pieces=False)
    assert with_pieces.items() - without.items() == {(m.Piece, State.OPEN)}


def _is_of_managers(kind: type[Any]) -> bool:
    return any((side, kind) in QUEUE_MANAGER_ONLY for side in Side)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in NUMBERS if kind in FROM_DIALLER - {m.Ping, m.Pong, m.Piece}],
    ids=lambda kind: kind.__name__,
)
def test_request_has_an_id_or_a_stream(kind: type[Any]) -> None:
    assert kind._fields[0] in ("request_id", "settle_id", "stream")


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("state", State)
def test_moves_are_the_table_by_state_and_side(state: State, side: Side) -> None:
    table = {
        kind: after
        for (before, sender, kind), after in TRANSITIONS.items()
        if (before, sender) == (state, side)
    }
    assert moves(state, side, "queue-manager") == table
    for role in ("client", ""):
        theirs = {kind for sender, kind in QUEUE_MANAGER_ONLY if sender is side}
        assert set(table) - set(moves(state, side, role)) <= theirs
        assert not theirs & set(moves(state, side, role))
