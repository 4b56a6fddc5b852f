"""Matches topics with filters: a tree of levels, so that only filters that match are visited.

    flights/JFK/UA ──▶ flights ─┬─ JFK ─┬─ UA   subscribers to that topic
                                │       └─ #    subscribers to all below flights/JFK
                                └─ +  ─── UA    subscribers to UA of any airport

Each level of the topic is looked up at the nodes that the levels before it led to: by its name, and
by + for any name. The answer for a topic is cached until a filter is added or removed.

If a node has both a name and + below it, a topic leads to both: k such levels lead to 2**k nodes,
even if no filter matches in the end. So each node knows the most nodes that one topic visits from
there on, its *reach*:

    reach = 1 + reach of + below it + the largest reach of a name below it

A filter that would raise the reach of the root above a limit is refused. Each node counts its names
by reach, to find the largest reach.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from qmgr_protocol.topic import MANY, ONE

KNOWN_MAX = 10_000  # topics with a cached answer
KNOWN_THINGS_MAX = 500_000  # in all cached answers

T = TypeVar("T")


class _Node(Generic[T]):
    """A level of filters. Invariant: ``reaches`` counts the names in ``below`` by their reach."""

    __slots__ = ("below", "ends", "many", "reach", "reaches")

    def __init__(self) -> None:
        self.below: dict[str, _Node[T]] = {}
        self.ends: dict[str, T] = {}  # by name: things whose filter ends here
        self.many: dict[str, T] = {}  # things whose filter matches everything from here on
        self.reaches: dict[int, int] = {}
        self.reach = 1

    def reach_with(self, level: str, reach: int) -> int:
        """Returns the reach of this node if *level* below it had at least that *reach*."""
        one = self.below.get(ONE)
        if level == ONE:
            return 1 + reach + max(self.reaches, default=0)
        return 1 + (0 if one is None else one.reach) + max(reach, max(self.reaches, default=0))

    def count(self, level: str, before: int, after: int) -> None:
        """Updates the reach after that of *level* below this node changed; 0 means no node."""
        if level != ONE:
            if before:
                self.reaches[before] -= 1
                if not self.reaches[before]:
                    del self.reaches[before]
            if after:
                self.reaches[after] = self.reaches.get(after, 0) + 1
        one = self.below.get(ONE)
        self.reach = 1 + (0 if one is None else one.reach) + max(self.reaches, default=0)

    @property
    def is_empty(self) -> bool:
        """Whether no filter uses this node."""
        return not (self.below or self.ends or self.many)


class TopicTree(Generic[T]):
    """Things by name, each with a filter of topics."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._known: dict[tuple[str, ...], tuple[T, ...]] = {}
        self._things = 0  # in the cached answers
        self.visited = 0  # nodes and answers visited since the caller set this to 0

    def reach_with(self, filter_: tuple[str, ...]) -> int:
        """Returns the most nodes that a topic would visit if *filter_* were added."""
        levels = _named(filter_)
        path: list[_Node[T] | None] = [self._root]
        for level in levels:
            node = path[-1]
            path.append(None if node is None else node.below.get(level))
        last = path.pop()
        reach = 1 if last is None else last.reach
        for level, node in zip(reversed(levels), reversed(path), strict=True):
            reach = 1 + reach if node is None else node.reach_with(level, reach)
        return reach

    def __bool__(self) -> bool:
        return not self._root.is_empty

    def add(self, filter_: tuple[str, ...], name: str, thing: T) -> None:
        """Adds *thing*, to be found by the topics that *filter_* matches."""
        node, path = self._root, list[tuple[_Node[T], str, _Node[T], int]]()
        for level in _named(filter_):
            below = node.below.get(level)
            before = 0 if below is None else below.reach
            if below is None:
                below = node.below[level] = _Node()
            path.append((node, level, below, before))
            node = below
        for above, level, below, before in reversed(path):
            above.count(level, before, below.reach)
        (node.many if filter_[-1] == MANY else node.ends)[name] = thing
        self._known.clear()

    def remove(self, filter_: tuple[str, ...], name: str) -> None:
        """Removes the thing of that *name*, which was added with *filter_*."""
        path = [self._root]
        for level in _named(filter_):
            path.append(path[-1].below[level])
        del (path[-1].many if filter_[-1] == MANY else path[-1].ends)[name]
        reaches = [node.reach for node in path]
        for at in range(len(path) - 1, 0, -1):
            level, node, above = _named(filter_)[at - 1], path[at], path[at - 1]
            if node.is_empty:
                del above.below[level]
                above.count(level, reaches[at], 0)
            elif node.reach != reaches[at]:
                above.count(level, reaches[at], node.reach)
            else:
                break
        self._known.clear()

    def match(self, topic: tuple[str, ...]) -> tuple[T, ...]:
        """Returns the things whose filters match *topic*, in no particular order."""
        found = self._known.get(topic)
        if found is None:
            found = tuple(self._look_up(topic))
            self.visited += len(found)
            if len(self._known) >= KNOWN_MAX or self._things >= KNOWN_THINGS_MAX:
                self._known.clear()
            self._things = len(found) + (self._things if self._known else 0)
            self._known[topic] = found
        return found

    def _look_up(self, topic: tuple[str, ...]) -> Iterator[T]:
        nodes = [self._root]
        for level in topic:
            self.visited += len(nodes)
            further: list[_Node[T]] = []
            for node in nodes:
                yield from node.many.values()
                for name in (level, ONE):
                    if (below := node.below.get(name)) is not None:
                        further.append(below)
            nodes = further
        for node in nodes:
            yield from node.many.values()  # # also matches no level.
            yield from node.ends.values()


def _named(filter_: tuple[str, ...]) -> tuple[str, ...]:
    return filter_[:-1] if filter_[-1] == MANY else filter_
