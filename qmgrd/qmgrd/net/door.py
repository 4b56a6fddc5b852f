"""Shares the time of the event loop between new connections and open ones.

    unix socket, known addresses ──▶ known ──────┐ first
    listeners ─────────────────────▶ arrivals ───┼─▶ a slice of work ─▶ the turn, if one is due
    TLS ───────────────────────────▶ strangers ──┘ in turns

To accept a connection, or to make one step of its TLS handshake, takes up to a millisecond, and a
stranger can request thousands of both in a second. Therefore, this work is done in slices: as many
units as fit into half a millisecond, but at least one. Short units share a slice, so that logins
share a turn. A slice waits while a turn is due. But a busy queue manager always has a turn that is
due. So the next slice waits at most PATIENCE times the duration of the last one.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

PATIENCE = 4.0  # New connections get at least a fifth of the time if they need it.
SLICE_S = 0.000_5  # No further unit begins in a slice after this time.
# The least duration that counts for a slice: a part of its work is done later by the event loop.
SLICE_MIN_S = 0.000_2


class Unit(Protocol):
    """A listener, or a connection in its TLS handshake."""

    is_known: bool  # whether a user logged in from its address, or it is the unix socket

    def step(self) -> None:
        """Accepts a connection, or makes the next step of the handshake."""

    def fail(self, error: Exception) -> None:
        """Handles an internal error of :meth:`step`."""


class Door:
    """The listeners and connections whose next unit of work is due.

    Invariant: a run is scheduled while one of them is due.
    """

    def __init__(
        self, is_turn_due: Callable[[], bool], clock: Callable[[], float] = time.perf_counter
    ) -> None:
        """Creates a door without work.

        Args:
            is_turn_due: Returns whether a turn is scheduled.
            clock: Returns the time in seconds.
        """
        self._is_turn_due = is_turn_due
        self._clock = clock
        # Ordered sets. The newest of the strangers is served first: if there are too many, the
        # oldest ones are closed soon, and work for them would be lost.
        self._known: dict[Unit, None] = {}
        self._arrivals: dict[Unit, None] = {}
        self._strangers: dict[Unit, None] = {}
        self._is_arrival_next = False
        self._is_scheduled = False
        self._patient_until_s = 0.0

    def arrived(self, listener: Unit) -> None:
        """Schedules a unit of work for *listener*, which can accept a connection."""
        self._add(self._known if listener.is_known else self._arrivals, listener)

    def shake(self, connection: Unit) -> None:
        """Schedules a unit of work for *connection*, whose handshake can continue."""
        self._add(self._known if connection.is_known else self._strangers, connection)

    def forget(self, connection: Unit) -> None:
        """Removes *connection*, which is closed. Older strangers may never be served."""
        self._known.pop(connection, None)
        self._strangers.pop(connection, None)

    def _add(self, lane: dict[Unit, None], unit: Unit) -> None:
        lane[unit] = None
        self._schedule()

    @property
    def _is_any_due(self) -> bool:
        return bool(self._known or self._arrivals or self._strangers)

    def _schedule(self) -> None:
        if not self._is_scheduled and self._is_any_due:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        if not self._is_any_due:
            return
        start_s = self._clock()
        if start_s >= self._patient_until_s or not self._is_turn_due():
            self._work()
            end_s = self._clock()
            while self._is_any_due and end_s - start_s < SLICE_S:
                self._work()
                end_s = self._clock()
            self._patient_until_s = end_s + PATIENCE * max(end_s - start_s, SLICE_MIN_S)
        self._schedule()

    def _work(self) -> None:
        unit = self._take()
        try:
            unit.step()
        except Exception as error:  # A bug must not keep others out.
            unit.fail(error)

    def _take(self) -> Unit:
        if self._known:
            return _first(self._known)
        self._is_arrival_next = not self._is_arrival_next
        if self._arrivals and (self._is_arrival_next or not self._strangers):
            return _first(self._arrivals)
        return self._strangers.popitem()[0]


def _first(lane: dict[Unit, None]) -> Unit:
    unit = next(iter(lane))
    del lane[unit]
    return unit
