"""The messages that each side may send in each state, derived from the declarations.

Rule 1: TRANSITIONS lists all messages that a side may send or receive. Any other message breaks
        the protocol.
Rule 2: FROM_DIALLER and FROM_LISTENER list the messages that each side may send in state OPEN.
Rule 3: if the dialler's hello has the role client, no message in QUEUE_MANAGER_ONLY is sent. Two
        queue managers may send each other the same messages, because one connection carries links
        in both directions.
Rule 4: no piece is sent to an end whose greeting does not accept pieces.
Rule 5: after the peer broke the protocol, a Goaway may be sent, and no further message is accepted.
Rule 6: CLOSED is final. Messages that arrive later were already in transit, and are dropped.
"""

from collections.abc import Mapping

from qmgr_protocol.messages import OPERATIONS, Message, Piece
from qmgr_protocol.operation import Operation, Role
from qmgr_protocol.states import Side, State

_Kind = type[Message]


def _role(operation: Operation, side: Side) -> Role | None:
    return operation.dialler if side is Side.DIALLER else operation.listener


def _sent_by(side: Side) -> frozenset[_Kind]:
    return frozenset(found.kind for found in OPERATIONS.values() if _role(found, side))


FROM_DIALLER = _sent_by(Side.DIALLER)
FROM_LISTENER = _sent_by(Side.LISTENER)
QUEUE_MANAGER_ONLY: frozenset[tuple[Side, _Kind]] = frozenset(
    (side, found.kind)
    for side in Side
    for found in OPERATIONS.values()
    if _role(found, side) is Role.QUEUE_MANAGER
)
# Maps (state, sender, message) to the next state, which is the same for both ends.
TRANSITIONS: dict[tuple[State, Side, _Kind], State] = {
    **{
        (move.before, move.sender, found.kind): move.after
        for found in OPERATIONS.values()
        for move in found.moves
    },
    **{(State.OPEN, Side.DIALLER, kind): State.OPEN for kind in FROM_DIALLER},
    **{(State.OPEN, Side.LISTENER, kind): State.OPEN for kind in FROM_LISTENER},
}


def moves(
    state: State, sender: Side, role: str, *, accepts_pieces: bool = True
) -> Mapping[_Kind, State]:
    """Returns the messages that *sender* may send in *state*, each with the next state.

    *role* is the role in the dialler's hello. *accepts_pieces* is a property of the other end.
    """
    return _MOVES[state, sender, role == "queue-manager", accepts_pieces]


def _moves(
    state: State, side: Side, *, is_manager: bool, accepts_pieces: bool
) -> dict[_Kind, State]:
    return {
        kind: after
        for (before, sender, kind), after in TRANSITIONS.items()
        if (before, sender) == (state, side)
        and (is_manager or (side, kind) not in QUEUE_MANAGER_ONLY)
        and (accepts_pieces or kind is not Piece)
    }


_MOVES = {
    (state, side, is_manager, accepts_pieces): _moves(
        state, side, is_manager=is_manager, accepts_pieces=accepts_pieces
    )
    for state in State
    for side in Side
    for is_manager in (False, True)
    for accepts_pieces in (False, True)
}
