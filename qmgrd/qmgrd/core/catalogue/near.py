"""The name that somebody may have meant who gave one that is not there."""

from collections.abc import Iterable
from itertools import islice, takewhile
from operator import eq

LOOKED_AT_MAX = 1_000  # names: whoever gives wrong ones may give many
SLIPS_MAX = 2
LETTERS_PER_SLIP = 3


def nearest(name: str, known: Iterable[str]) -> str:
    """Return which of the first *known* names *name* is a slip of, or nothing; case is none."""
    wanted, found = name.casefold(), ""
    slips_max = min(SLIPS_MAX, len(name) // LETTERS_PER_SLIP)
    for other in islice(known, LOOKED_AT_MAX):
        if abs(len(other) - len(name)) <= slips_max:
            slips = _slips(wanted, other.casefold())
            if slips <= slips_max:
                found, slips_max = other, slips - 1
    return found


def _slips(one: str, other: str) -> int:
    """Return how many letters are others, more or missing, all of them in one place."""
    start = _same(one, other)
    one, other = one[start:], other[start:]
    return max(len(one), len(other)) - _same(one[::-1], other[::-1])


def _same(one: str, other: str) -> int:
    """Return how many letters both begin with."""
    return sum(takewhile(bool, map(eq, one, other)))
