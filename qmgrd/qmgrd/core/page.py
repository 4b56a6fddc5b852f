"""A page of a list that is kept in order: it costs what the page does, not what the list does."""

from collections.abc import Iterator
from itertools import islice
from typing import TypeVar

from sortedcontainers import SortedDict, SortedList

from qmgr_protocol.topic import MARK

Key = TypeVar("Key", int, str)


def page(
    ordered: "SortedList[Key] | SortedDict[Key, object]", after: Key, limit: int
) -> tuple[list[Key], Key | None]:
    """Return up to *limit* keys behind *after*, and the last of them where more follow."""
    found = list(islice(ordered.irange(after, inclusive=(False, True)), limit + 1))
    return found[:limit], found[limit - 1] if len(found) > limit else None


def below_of(topics: "SortedDict[str, object]", topic: str) -> Iterator[str]:
    """Return those of *topics* that are below *topic*, which need not be one of them."""
    last = topic + chr(ord(MARK) + 1)
    yield from topics.irange(topic + MARK, last, inclusive=(True, False))
