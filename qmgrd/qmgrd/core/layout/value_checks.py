"""Checks that values in stored rows have the right type, and are not too large."""

from typing import Any

from qmgr_protocol.window import ids_of

IDS_MAX = 1_000_000  # above a gap; no window is larger
NUMBER_MAX = 2**53  # of counts and numbers: a sum of a few fits in 64 bits


def number(value: Any, what: str, low: int = 0, high: int = NUMBER_MAX) -> int:
    """Returns *value*, which must be an integer within these limits.

    Raises:
        ValueError: it is not.
    """
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is {str(value)[:80]!r}, not an integer from {low} to {high}")
    return value


def typed(kind: type[Any], value: Any, what: str) -> Any:
    """Returns *value*, which must be of that *kind*.

    Raises:
        ValueError: it is not.
    """
    if type(value) is not kind:
        raise ValueError(f"{what} is {str(value)[:80]!r}, not of type {kind.__name__}")
    return value


def stored_ids(runs: Any) -> set[int]:
    """Returns the ids in stored *runs*, as :func:`qmgr_protocol.window.runs_of` makes them.

    Raises:
        ValueError, TypeError: they are malformed, or more than any window has.
    """
    count = 0
    for first, length in typed(list, runs, "the runs"):
        number(first, "the first of a run")
        count += number(length, "the length of a run")
    return ids_of(runs) if number(count, "how many ids are held", 0, IDS_MAX) else set()
