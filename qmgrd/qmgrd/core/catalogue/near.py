"""Suggests the closest known name for one that does not exist."""

from collections.abc import Iterable
from itertools import islice, takewhile
from operator import eq

# Maximum number of names compared. A client may send many wrong names.
LOOKED_AT_MAX = 1_000
SLIPS_MAX = 2
LETTERS_PER_SLIP = 3


def nearest(name: str, known: Iterable[str]) -> str:
    """Returns the closest of the first *known* names, ignoring case, or "" if no name is close."""
    wanted, found = name.casefold(), ""
    slips_max = min(SLIPS_MAX, len(name) // LETTERS_PER_SLIP)
    for other in islice(known, LOOKED_AT_MAX):
        if abs(len(other) - len(name)) <= slips_max:
            slips = _differing_letters(wanted, other.casefold())
            if slips <= slips_max:
                found, slips_max = other, slips - 1
    return found


def _differing_letters(one: str, other: str) -> int:
    """Returns the length of the one stretch of letters that differ, were added or are missing."""
    start = _same(one, other)
    one, other = one[start:], other[start:]
    return max(len(one), len(other)) - _same(one[::-1], other[::-1])


def _same(one: str, other: str) -> int:
    """Returns the length of the common prefix of two names."""
    return sum(takewhile(bool, map(eq, one, other)))
