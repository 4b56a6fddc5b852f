"""Whether a value in a stored row is of the right type, and within what arithmetic can bear."""

from typing import Any

from qmgr_protocol.window import ids_of

IDS_MAX = 1_000_000  # above a gap: no window is larger
NUMBER_MAX = 2**53  # of what is counted or numbered: sums of a few still fit into 64 bits


def number(value: Any, what: str, low: int = 0, high: int = NUMBER_MAX) -> int:
    """Return *value*, which is an integer within these limits.

    Raises:
        ValueError: it is not.
    """
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is {str(value)[:80]!r}, not an integer from {low} to {high}")
    return value


def typed(kind: type[Any], value: Any, what: str) -> Any:
    """Return *value*, which is of that *kind*.

    Raises:
        ValueError: it is not.
    """
    if type(value) is not kind:
        raise ValueError(f"{what} is {str(value)[:80]!r}, not of type {kind.__name__}")
    return value


def stored_ids(runs: Any) -> set[int]:
    """Return the ids that :func:`qmgr_protocol.window.runs_of` made stored *runs* of.

    Raises:
        ValueError, TypeError: they are none, or more than any window holds.
    """
    count = 0
    for first, length in typed(list, runs, "the runs"):
        number(first, "the first of a run")
        count += number(length, "the length of a run")
    return ids_of(runs) if number(count, "how many ids are held", 0, IDS_MAX) else set()
