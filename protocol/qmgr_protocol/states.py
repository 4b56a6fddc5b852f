"""The two sides and the states of a connection.

                 Hello sent              Welcome
    dialler   IDLE ───────▶ GREETING ───────────────▶ OPEN ──Goaway──▶ CLOSED
                                │ Goaway                                  ▲
                                └─────────────────────────────────────────┤
                 Hello received          Welcome sent                     │
    listener  IDLE ───────▶ GREETING ───────────────▶ OPEN ──Goaway───────┘

Each message declares who may send it in which state (messages.py). transitions.py has the whole
table and its rules.
"""

from enum import Enum
from typing import NamedTuple


class Side(Enum):
    """One end of a connection: the dialler opened it, the listener accepted it."""

    DIALLER = "dialler"
    LISTENER = "listener"


class State(Enum):
    """The state of a connection."""

    IDLE = "idle"
    GREETING = "greeting"
    OPEN = "open"
    CLOSED = "closed"


class Move(NamedTuple):
    """A message of *sender* in state *before* moves the connection to state *after*."""

    before: State
    sender: Side
    after: State
