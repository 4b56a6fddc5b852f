"""Damages the bytes of one direction: loses, duplicates and reorders chunks.

    source ──chunk──▶ lost | passed | passed twice | held until the next one passed ──▶ pipe

A chunk is the data of one read. One random draw per chunk decides what happens to it. With the same
seed, the n-th chunk in the same direction of the same connection is treated the same. TCP never
damages data in this manner. A peer must detect the damage and close the connection, without losing
or duplicating a message.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Protocol

HOLD_S = 0.1  # A held chunk is passed after this time if no chunk follows.
ALL_PERCENT = 100


@dataclass(frozen=True, slots=True)
class Faults:
    """The percentages of chunks for each kind of damage. Their sum is at most 100.

    Raises:
        ValueError: If a percentage is negative, or the sum exceeds 100.
    """

    lose_percent: float = 0
    double_percent: float = 0
    reorder_percent: float = 0

    def __post_init__(self) -> None:
        all_percent = self.lose_percent + self.double_percent + self.reorder_percent
        parts = (self.lose_percent, self.double_percent, self.reorder_percent)
        if min(parts) < 0 or all_percent > ALL_PERCENT:
            raise ValueError(
                f"the percentages {parts} are negative, or their sum exceeds {ALL_PERCENT}"
            )


class Inlet(Protocol):
    """A receiver of read data: the pipe, or a damaging stage in front of the pipe."""

    def take(self, data: bytes) -> None:
        """Accepts the *data* of one read."""

    def end(self) -> None:
        """Records the end of the data."""


class FaultyInlet:
    """A stage that damages one direction. Invariant: at most one chunk is held, up to HOLD_S."""

    def __init__(
        self, faults: Faults, chance: Random, pipe: Inlet, report: Callable[[str, int], None]
    ) -> None:
        """Creates a stage in front of *pipe*, with random draws from *chance*.

        Args:
            report: A function that is called with the kind and the size of each damage.
        """
        self._faults = faults
        self._chance = chance
        self._pipe = pipe
        self._report = report
        self._held = b""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> None:
        """Passes, loses, doubles or holds a chunk, depending on a random draw."""
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
        """Passes the held chunk, then the end of the data."""
        self._release()
        self._pipe.end()

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            held, self._held = self._held, b""
            self._pipe.take(held)
