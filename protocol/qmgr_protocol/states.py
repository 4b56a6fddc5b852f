"""The two sides and the states of a connection.

                 Hello sent              Welcome
    dialler   IDLE ───────▶ GREETING ───────────────▶ OPEN ──Goaway──▶ CLOSED
                                │ Goaway                                  ▲
                                └─────────────────────────────────────────┤
                 Hello received          Welcome sent                     │
    listener  IDLE ───────▶ GREETING ───────────────▶ OPEN ──Goaway───────┘

Each message declares its allowed senders and states (messages.py). transitions.py contains the
complete table and its rules.
"""

from enum import Enum
from typing import NamedTuple


class Side(Enum):
    """One end of a connection. The dialler opened the connection, and the listener accepted it."""

    DIALLER = "dialler"
    LISTENER = "listener"


class State(Enum):
    """The state of a connection."""

    IDLE = "idle"
    GREETING = "greeting"
    OPEN = "open"
    CLOSED = "closed"


class Move(NamedTuple):
    """A change of state: a message of *sender* changes state *before* to state *after*."""

    before: State
    sender: Side
    after: State
