"""Checks the types and ranges of values in stored rows."""

from typing import Any

from qmgr_protocol.window import ids_of

IDS_MAX = 1_000_000  # maximum number of ids above a gap; no window is larger
NUMBER_MAX = 2**53  # the limit of counts and numbers, so that a sum of a few fits in 64 bits


def number(value: Any, what: str, low: int = 0, high: int = NUMBER_MAX) -> int:
    """Returns *value* after checking that it is an integer from *low* to *high*.

    Raises:
        ValueError: *value* is not such an integer.
    """
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"{what} is {str(value)[:80]!r}, not an integer from {low} to {high}")
    return value


def typed(kind: type[Any], value: Any, what: str) -> Any:
    """Returns *value* after checking that its type is *kind*.

    Raises:
        ValueError: *value* has a different type.
    """
    if type(value) is not kind:
        raise ValueError(f"{what} is {str(value)[:80]!r}, not of type {kind.__name__}")
    return value


def stored_ids(runs: Any) -> set[int]:
    """Returns the ids in stored *runs*, which :func:`qmgr_protocol.window.runs_of` made.

    Raises:
        ValueError, TypeError: The runs are malformed, or have more ids than any window.
    """
    count = 0
    for first, length in typed(list, runs, "the runs"):
        number(first, "the first id of a run")
        count += number(length, "the length of a run")
    return ids_of(runs) if number(count, "the number of ids", 0, IDS_MAX) else set()
