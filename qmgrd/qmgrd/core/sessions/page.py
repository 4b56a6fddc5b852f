"""Cuts pages from ordered lists.

The cost depends on the length of the page, not on the length of the list.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TypeVar

from qmgrd.core.limits.budget import LOOK_EACH, Budget

Key = TypeVar("Key", int, str)
Row = TypeVar("Row")


def page(
    ordered: Sequence[Key], after: Key, limit: int, is_shown: Callable[[Key], bool] | None = None
) -> tuple[list[Key], Key | None]:
    """Returns up to *limit* keys after *after*. Also returns the last key if more keys follow.

    Other keys than those for which *is_shown* is true do not exist for the caller. Looking for keys
    that are shown may cost as much as the list is long.
    """
    at = bisect_right(ordered, after)
    if is_shown is not None:
        rest = (ordered[index] for index in range(at, len(ordered)))
        visible = list(islice(filter(is_shown, rest), limit + 1))
        return visible[:limit], visible[limit - 1] if len(visible) > limit else None
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
