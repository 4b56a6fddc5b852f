"""Damages the bytes of one direction: loses, duplicates and reorders chunks.

    source ──chunk──▶ lost | passed | passed twice | held until the next one passed ──▶ pipe

A chunk is the data of one read. One random draw decides each, in their order: the same seed gives
the same fates to the first, second, ... chunk of the same direction of the same connection. TCP
does none of this. A peer must notice it and close, without losing or duplicating a message.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

HOLD_S = 0.1  # A chunk that nothing follows is passed in its place.
ALL_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Faults:
    """The percentages of chunks for each kind of damage; together at most 100.

    Raises:
        ValueError: one is negative, or the sum is too large.
    """

    lose_percent: float = 0
    double_percent: float = 0
    reorder_percent: float = 0

    def __post_init__(self) -> None:
        all_percent = self.lose_percent + self.double_percent + self.reorder_percent
        parts = (self.lose_percent, self.double_percent, self.reorder_percent)
        if min(parts) < 0 or all_percent > ALL_PERCENT:
            raise ValueError(f"{parts} are not three shares of {ALL_PERCENT} percent")


class Inlet(Protocol):
    """Receives the data of a read: the pipe itself, or a damaging stage in front of it."""

    def take(self, data: bytes) -> None:
        """Takes *data*."""

    def end(self) -> None:
        """Records the end of the data."""


class FaultyInlet:
    """Damages one direction. Invariant: at most one chunk is held, for HOLD_S at most."""

    def __init__(
        self, faults: Faults, chance: Random, pipe: Inlet, tell: Callable[[str, int], None]
    ) -> None:
        """Damages the input of *pipe*; *tell* is called with each damage and its number of
        bytes.
        """
        self._faults = faults
        self._chance = chance
        self._pipe = pipe
        self._tell = tell
        self._held = b""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> None:
        """Decides the fate of a chunk."""
        draw = self._chance.random() * ALL_PERCENT
        faults = self._faults
        doubled = faults.lose_percent + faults.double_percent
        if draw < faults.lose_percent:
            self._tell("lost", len(data))
        elif draw < doubled:
            self._tell("doubled", len(data))
            self._pipe.take(data + data)
        elif draw < doubled + faults.reorder_percent and not self._held:
            self._held = data
            self._timer = asyncio.get_running_loop().call_later(HOLD_S, self._release)
            return
        else:
            if self._held:
                self._tell("reordered", len(self._held))
            self._pipe.take(data)
        self._release()

    def end(self) -> None:
        """Passes the held chunk, then the end."""
        self._release()
        self._pipe.end()

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            held, self._held = self._held, b""
            self._pipe.take(held)
