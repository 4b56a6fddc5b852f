"""The two sides and the states of a connection.

                 Hello                Welcome
    IDLE ──────────────▶ GREETING ──────────────────▶ OPEN ──Goaway──▶ CLOSED
                            │ AuthChallenge            ▲
                            ▼              AuthAnswer  │ Welcome
                        CHALLENGED ──────────────▶ ANSWERED

Both ends pass through the same states. A Goaway leads from each state to CLOSED.

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
    CHALLENGED = "challenged"
    ANSWERED = "answered"
    OPEN = "open"
    CLOSED = "closed"


class Move(NamedTuple):
    """A change of state: a message of *sender* changes state *before* to state *after*."""

    before: State
    sender: Side
    after: State
