"""A target, and by how much it was missed; what a row of our own hands back."""

from dataclasses import dataclass
from typing import Protocol

Bars = list[tuple[str, float, bool]]  # name, value, whether it is what counts


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

    def cells(self) -> dict[str, str]:
        """Returns what a table says of it."""
        unit = f" {self.unit}" if self.unit else ""
        measured, bound = number(self.measured), number(self.bound)
        missing = f"{self.missing_percent:g} %" if self.bound else measured
        return {
            "what": self.what,
            "measured": f"{measured}{unit}",
            "target": f"{'>=' if self.at_least else '<='} {bound}{unit}",
            "verdict": "reached" if self.reached else f"missed by {missing}",
        }


class Result(Protocol):
    """What a row of our own found: a dataclass of figures, medians where there were rounds."""

    def targets(self) -> list[Target]:
        """Returns what it was to reach."""

    def bars(self) -> tuple[str, Bars]:
        """Returns what a picture shows of it: a unit, and bars."""


def at_least(what: str, measured: float, bound: float, unit: str = "") -> Target:
    """Returns a target that more than *bound* reaches, too."""
    return Target(what, measured, bound, unit, at_least=True)


def at_most(what: str, measured: float, bound: float, unit: str = "") -> Target:
    """Returns a target that less than *bound* reaches, too."""
    return Target(what, measured, bound, unit)


def number(value: float) -> str:
    """Returns a figure with the digits that say something."""
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")
