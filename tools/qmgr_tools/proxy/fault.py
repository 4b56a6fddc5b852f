"""Simulates damage to the bytes of one direction: loses, doubles and reorders chunks.

    source ──chunk──▶ lost | passed | passed twice | held until the next one passed ──▶ pipe

A chunk is the result of one read. One random number decides each chunk, in order: with the same
seed, the n-th chunk of the same direction of the same connection has the same fate. TCP never does
this; a peer must detect it and close the connection, without losing or duplicating a message.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

HOLD_S = 0.1  # then a held chunk is passed, even if no other follows
ALL_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Faults:
    """The percentage of chunks for each fault; their sum is at most 100.

    Raises:
        ValueError: one is negative, or the sum is more.
    """

    lose_percent: float = 0
    double_percent: float = 0
    reorder_percent: float = 0

    def __post_init__(self) -> None:
        all_percent = self.lose_percent + self.double_percent + self.reorder_percent
        parts = (self.lose_percent, self.double_percent, self.reorder_percent)
        if min(parts) < 0 or all_percent > ALL_PERCENT:
            raise ValueError(f"{parts} are negative, or more than {ALL_PERCENT} percent in total")


class Inlet(Protocol):
    """Receives the bytes read: the pipe itself, or a FaultyInlet in front of it."""

    def take(self, data: bytes) -> None:
        """Receive *data*."""

    def end(self) -> None:
        """Receive the end of the data."""


class FaultyInlet:
    """Damages one direction. Invariant: at most one chunk is held, for HOLD_S at most."""

    def __init__(
        self, faults: Faults, chance: Random, pipe: Inlet, report: Callable[[str, int], None]
    ) -> None:
        """Damage the input of *pipe*; *report* receives each action and the number of bytes."""
        self._faults = faults
        self._chance = chance
        self._pipe = pipe
        self._report = report
        self._held = b""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> None:
        """Lose, pass, double or hold a chunk."""
        draw = self._chance.random() * ALL_PERCENT
        faults = self._faults
        doubled = faults.lose_percent + faults.double_percent
        if draw < faults.lose_percent:
            self._report("lost", len(data))
        elif draw < doubled:
            self._report("doubled", len(data))
            self._pipe.take(data + data)
        elif draw < doubled + faults.reorder_percent and not self._held:
            self._held = data
            self._timer = asyncio.get_running_loop().call_later(HOLD_S, self._release)
            return
        else:
            if self._held:
                self._report("reordered", len(self._held))
            self._pipe.take(data)
        self._release()

    def end(self) -> None:
        """Pass the held chunk, then the end."""
        self._release()
        self._pipe.end()

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            held, self._held = self._held, b""
            self._pipe.take(held)
