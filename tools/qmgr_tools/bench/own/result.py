"""What a row of our own hands back."""

from typing import Protocol

from qmgr_tools.bench.target import Target

Bars = tuple[str, list[tuple[str, float, bool]]]  # the unit; name, value, whether it is what counts


class Result(Protocol):
    """What a row found: a dataclass of figures, medians where there were rounds."""

    def targets(self) -> list[Target]:
        """Return what it was to reach."""

    def bars(self) -> Bars:
        """Return what a picture shows of it."""
