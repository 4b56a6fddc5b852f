"""The states of a connection, as a table.

                 Hello sent              Welcome
    dialler   IDLE ───────▶ GREETING ───────────────▶ OPEN ──Goaway──▶ CLOSED
                                │ Goaway                                  ▲
                                └─────────────────────────────────────────┤
                 Hello received          Welcome sent                     │
    listener  IDLE ───────▶ GREETING ───────────────▶ OPEN ──Goaway───────┘

Rule 1: whatever a side may send or receive stands in TRANSITIONS; all else breaks the protocol.
Rule 2: what either side may send when OPEN stands in FROM_DIALLER and FROM_LISTENER.
Rule 3: where the dialler's hello says client, nothing is sent that is in QUEUE_MANAGER_ONLY. Two
        queue managers may send each other the same: one connection carries links both ways.
Rule 4: after the peer broke the protocol a Goaway may be sent, and nothing more is taken in.
Rule 5: CLOSED is for good. What still comes was under way, and is dropped.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any

from qmgr_protocol import messages as m


class Side(Enum):
    """Who dialled."""

    DIALLER = "dialler"
    LISTENER = "listener"


class State(Enum):
    """Where a connection stands."""

    IDLE = "idle"
    GREETING = "greeting"
    OPEN = "open"
    CLOSED = "closed"


EITHER = frozenset({m.Ping, m.Pong})
FROM_DIALLER: frozenset[type[Any]] = EITHER | {
    m.Cancel,
    m.ProducerOpen,
    m.Put,
    m.Get,
    m.Consume,
    m.Credit,
    m.Settle,
    m.Browse,
    m.QueueCreate,
    m.QueueAlter,
    m.QueueDelete,
    m.QueueList,
    m.QueueShow,
    m.QueuePurge,
    m.LinkOpen,
    m.CommitAsk,
    m.LinkFetch,
    m.Ok,
    m.Error,
    m.Committed,
    m.Blocked,
    m.LinkCreate,
    m.LinkDelete,
    m.LinkList,
    m.LinkShow,
    m.LinkStart,
    m.LinkStop,
    m.LinkAlter,
    m.LinkAllow,
    m.LinkDisallow,
    m.Status,
    m.Snapshot,
    m.ConnectionList,
    m.ConnectionClose,
    m.AsideList,
    m.AsideRetry,
    m.AsideDrop,
    m.UnitBegin,
    m.UnitPut,
    m.UnitCommit,
    m.UnitBackout,
    m.GroupNew,
    m.ReaderClose,
    m.GroupList,
    m.GroupShow,
    m.GroupAlter,
    m.QueueMove,
    m.JobList,
    m.JobShow,
    m.JobCancel,
    m.TemplateSet,
    m.TemplateDelete,
    m.TemplateList,
    m.Subscribe,
    m.Unsubscribe,
    m.SubscriptionList,
    m.SubscriptionHealthy,
    m.TopicSet,
    m.TopicDelete,
    m.TopicList,
    m.TopicShow,
    m.TopicLacks,
    m.RepublishList,
    m.Republish,
    m.HistoryRead,
    m.HistoryShow,
    m.CursorCommit,
    m.CursorDelete,
}
FROM_LISTENER: frozenset[type[Any]] = EITHER | {
    m.Ok,
    m.Error,
    m.Ended,
    m.Committed,
    m.Deliver,
    m.Settled,
    m.Blocked,
    m.LinkOpen,
    m.Put,
    m.CommitAsk,
}
QUEUE_MANAGER_ONLY: frozenset[tuple[Side, type[Any]]] = frozenset(
    [
        (Side.DIALLER, kind)
        for kind in (m.LinkOpen, m.CommitAsk, m.LinkFetch, m.Ok, m.Error, m.Committed, m.Blocked)
    ]
    + [(Side.LISTENER, kind) for kind in (m.LinkOpen, m.Put, m.CommitAsk)]
)

# (state, who sends, message) -> next state, the same for both ends
TRANSITIONS: dict[tuple[State, Side, type[Any]], State] = {
    (State.IDLE, Side.DIALLER, m.Hello): State.GREETING,
    (State.IDLE, Side.LISTENER, m.Goaway): State.CLOSED,
    (State.GREETING, Side.LISTENER, m.Welcome): State.OPEN,
    (State.GREETING, Side.LISTENER, m.Goaway): State.CLOSED,
    (State.GREETING, Side.DIALLER, m.Goaway): State.CLOSED,
    (State.OPEN, Side.DIALLER, m.Goaway): State.CLOSED,
    (State.OPEN, Side.LISTENER, m.Goaway): State.CLOSED,
    **{(State.OPEN, Side.DIALLER, kind): State.OPEN for kind in FROM_DIALLER},
    **{(State.OPEN, Side.LISTENER, kind): State.OPEN for kind in FROM_LISTENER},
}


def moves(state: State, sender: Side, role: str) -> Mapping[type[Any], State]:
    """Return what *sender* may send in *state*, and the state after it; *role* is the dialler's."""
    return _MOVES[state, sender, role == "queue-manager"]


_MOVES = {
    (state, side, is_manager): {
        kind: after
        for (before, sender, kind), after in TRANSITIONS.items()
        if (before, sender) == (state, side)
        and (is_manager or (side, kind) not in QUEUE_MANAGER_ONLY)
    }
    for state in State
    for side in Side
    for is_manager in (False, True)
}
