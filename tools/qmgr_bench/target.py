"""A target, by how much it was missed, and the result of a row of our own."""

from dataclasses import dataclass
from typing import Protocol

Bars = list[tuple[str, float, bool]]  # name, value, whether it is highlighted


@dataclass(frozen=True, slots=True)
class Target:
    """A target: ``measured`` should be at least, or at most, ``bound``."""

    what: str
    measured: float
    bound: float
    unit: str = ""
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Whether the target is reached."""
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    @property
    def missing_percent(self) -> float:
        """The difference to the bound, in percent of the bound if that is not 0."""
        if self.reached or not self.bound:
            return 0.0
        return round(abs(self.measured - self.bound) / self.bound * 100, 1)

    def cells(self) -> dict[str, str]:
        """Returns its cells for a table."""
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
    """The result of a row of our own: a dataclass of figures, medians over the rounds."""

    def targets(self) -> list[Target]:
        """The targets of the row."""

    def bars(self) -> tuple[str, Bars]:
        """Returns the content of a picture: a unit, and bars."""


def at_least(what: str, measured: float, bound: float, unit: str = "") -> Target:
    """Returns a target that is a minimum."""
    return Target(what, measured, bound, unit, at_least=True)


def at_most(what: str, measured: float, bound: float, unit: str = "") -> Target:
    """Returns a target that is a maximum."""
    return Target(what, measured, bound, unit)


def number(value: float) -> str:
    """Returns a figure with its significant digits."""
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")
