"""Shares the time of the event loop between TLS handshakes and everything else.

A step of a handshake takes about half a millisecond of processor time. A stranger can request many
at once, so only a few steps are made before other connections are served.
"""

import asyncio
from itertools import islice
from typing import Protocol

STEPS_MAX = 1  # steps of handshakes in one iteration of the loop


class Shaking(Protocol):
    """A connection in its TLS handshake."""

    def shake(self) -> None:
        """Makes the next step of the handshake."""

    def fail(self, error: Exception) -> None:
        """Closes the connection after an internal error."""


class Handshakes:
    """The connections whose next step of the TLS handshake is due, in the order of arrival.

    Invariant: a run is scheduled while ``_due`` is not empty.
    """

    def __init__(self) -> None:
        self._due: dict[Shaking, None] = {}  # an ordered set
        self._is_scheduled = False

    def add(self, connection: Shaking) -> None:
        """Schedules a step for *connection*."""
        self._due[connection] = None
        self._schedule()

    def _schedule(self) -> None:
        if self._due and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        for connection in list(islice(self._due, STEPS_MAX)):
            del self._due[connection]
            try:
                connection.shake()
            except Exception as error:  # A bug must not stop the handshakes of others.
                connection.fail(error)
        self._schedule()
