"""Cuts pages from ordered lists.

The cost depends on the length of the page, not on the length of the list.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TypeVar

from qmgrd.core.limits.budget import LOOK_EACH, Budget

Key = TypeVar("Key", int, str)
Row = TypeVar("Row")


def page(ordered: Sequence[Key], after: Key, limit: int) -> tuple[list[Key], Key | None]:
    """Returns up to *limit* keys after *after*, and the last of them if more keys follow."""
    at = bisect_right(ordered, after)
    found = list(ordered[at : at + limit])
    return found, found[-1] if len(ordered) > at + limit else None


def shown(
    keys: list[Key], further: Key | None, show: Callable[[Key], Row], budget: Budget
) -> tuple[list[Row], Key | None]:
    """Returns the rows of a page, and the key after which the next page begins.

    The page is cut short when it has used up the time share of one connection.
    """
    end_ns = budget.clock_ns() + budget.share_ns
    found: list[Row] = []
    for key in keys:
        if found and not len(found) % LOOK_EACH and budget.clock_ns() >= end_ns:
            return found, keys[len(found) - 1]
        found.append(show(key))
    return found, further
