"""What a bad network does to the bytes of one direction: it loses, doubles and reorders chunks.

    source ──chunk──▶ lost | passed | passed twice | held until the next one passed ──▶ pipe

A chunk is what one read brought. One draw of chance decides each, in their order: the same seed
gives the same fates to the first, second, ... chunk of the same direction of the same connection.
TCP does none of this; a peer must see it and close, and nothing may be lost or doubled for good.
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
    """In how many of a hundred chunks each happens; together at most all of them.

    Raises:
        ValueError: one is negative, or they are more.
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
    """Takes what is read: the pipe itself, or what damages bytes in front of it."""

    def take(self, data: bytes) -> None:
        """Takes *data*."""

    def end(self) -> None:
        """Takes note that no more comes."""


class FaultyInlet:
    """Damages one direction. Invariant: at most one chunk is held, for HOLD_S at most."""

    def __init__(
        self, faults: Faults, chance: Random, pipe: Inlet, tell: Callable[[str, int], None]
    ) -> None:
        """Damages what goes into *pipe*; *tell* hears what was done, to how many bytes."""
        self._faults = faults
        self._chance = chance
        self._pipe = pipe
        self._tell = tell
        self._held = b""
        self._timer: asyncio.TimerHandle | None = None

    def take(self, data: bytes) -> None:
        """Decides what becomes of a chunk."""
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
        """Passes what is held, then the end."""
        self._release()
        self._pipe.end()

    def _release(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._held:
            held, self._held = self._held, b""
            self._pipe.take(held)
