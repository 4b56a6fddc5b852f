"""The targets of a row, and the interface of the results of a row of our own."""

from dataclasses import dataclass
from typing import Protocol

Bars = list[tuple[str, float, bool]]  # tuples of (name, value, whether the bar is highlighted)


@dataclass(frozen=True, slots=True)
class Target:
    """A target: ``measured`` must be at least, or at most, ``bound``."""

    what: str
    measured: float
    bound: float
    unit: str = ""
    at_least: bool = False

    @property
    def reached(self) -> bool:
        """Returns whether the target is reached."""
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    @property
    def missing_percent(self) -> float:
        """Returns the difference to the bound in percent, or 0 if the bound is 0."""
        if self.reached or not self.bound:
            return 0.0
        return round(abs(self.measured - self.bound) / self.bound * 100, 1)

    def cells(self) -> dict[str, str]:
        """Returns the cells of the target for a table."""
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
    """The result of a row of our own: a dataclass of figures, which are medians over the rounds."""

    def targets(self) -> list[Target]:
        """Returns the targets of the row."""

    def bars(self) -> tuple[str, Bars]:
        """Returns the content of a picture: the unit and the bars."""


def at_least(what: str, measured: float, bound: float, unit: str = "") -> Target:
    """Returns a target with a minimum."""
    return Target(what, measured, bound, unit, at_least=True)


def at_most(what: str, measured: float, bound: float, unit: str = "") -> Target:
    """Returns a target with a maximum."""
    return Target(what, measured, bound, unit)


def number(value: float) -> str:
    """Returns *value* with three decimals at most, and none from 1,000 on."""
    if isinstance(value, int) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:,.3f}".rstrip("0").rstrip(".")
