"""What the benchmark's own rows hand back: figures, and targets with how far they were reached."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Target:
    """Something to be reached: ``measured`` is to be at least, or at most, ``bound``."""

    what: str
    measured: float
    bound: float
    unit: str = ""
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Whether it is."""
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    @property
    def missing_percent(self) -> float:
        """How much is missing, or too much, in percent of the bound if that is not 0."""
        if self.reached or not self.bound:
            return 0.0
        return round(abs(self.measured - self.bound) / self.bound * 100, 1)

    def facts(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "what": self.what, "measured": self.measured, "bound": self.bound, "unit": self.unit,
            "at_least": self.at_least, "reached": self.reached,
            "missing_percent": self.missing_percent,
        }  # fmt: skip


def at_least(what: str, measured: float, bound: float, unit: str = "") -> Target:
    """Return a target that more than *bound* reaches, too."""
    return Target(what, measured, bound, unit, at_least=True)


def at_most(what: str, measured: float, bound: float, unit: str = "") -> Target:
    """Return a target that less than *bound* reaches, too."""
    return Target(what, measured, bound, unit)


class Result(Protocol):
    """What a row found: a dataclass of figures, medians where there were rounds."""

    def targets(self) -> list[Target]:
        """Return what it was to reach."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How rows are run."""

    directory: Path  # on the disk to measure
    seconds: float  # of each measurement
    scale: float  # of all depths: 1 is what the targets are about
    rounds: int
    say: Callable[[str], None]

    def scaled(self, messages: int) -> int:
        """Return a number of *messages* to scale, and one at least."""
        return max(round(messages * self.scale), 1)


def median(values: Sequence[float]) -> float:
    """Return the median, to four digits behind the point."""
    return round(statistics.median(values), 4)


def median_ratio(values: Sequence[float], references: Sequence[float]) -> float:
    """Return the median of the ratios of each of *values* to the reference of its own round.

    A drift that took half an hour is in both of a pair, and so in no ratio.
    """
    pairs = zip(values, references, strict=True)
    return median([value / reference for value, reference in pairs])
