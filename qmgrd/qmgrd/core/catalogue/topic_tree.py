"""Matches topics with filters, in a tree of levels where only matching filters are visited.

    flights/JFK/UA ──▶ flights ─┬─ JFK ─┬─ UA   subscribers to that topic
                                │       └─ #    subscribers to all topics below flights/JFK
                                └─ +  ─── UA    subscribers to UA at any airport

Each level of the topic is looked up at the nodes that the previous levels reached: by its name, and
by + for any name. The result for a topic is cached until a filter is added or removed.

If a node has both a name and + below it, a topic visits both. With k such levels, a topic visits
2**k nodes, even if no filter matches in the end. Therefore, each node stores its *reach*, the
maximum number of nodes that one topic visits from this node on:

    reach = 1 + reach of + below it + the largest reach of a name below it

A filter that would raise the reach of the root above a limit is refused. Each node counts the names
below it by reach, to find the largest reach.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from qmgr_protocol.topic import MANY, ONE

KNOWN_MAX = 10_000  # maximum number of topics with a cached result
KNOWN_THINGS_MAX = 500_000  # maximum number of things in all cached results together

T = TypeVar("T")


class _Node(Generic[T]):
    """A node for one level of filters. Invariant: ``reaches`` counts the names in ``below`` by
    reach.
    """

    __slots__ = ("below", "ends", "many", "reach", "reaches")

    def __init__(self) -> None:
        self.below: dict[str, _Node[T]] = {}
        self.ends: dict[str, T] = {}  # things whose filter ends at this node, by name
        # Things whose filter matches everything below this node, by name.
        self.many: dict[str, T] = {}
        self.reaches: dict[int, int] = {}
        self.reach = 1

    def reach_with(self, level: str, reach: int) -> int:
        """Returns the reach that this node would have if *level* below it had at least *reach*."""
        one = self.below.get(ONE)
        if level == ONE:
            return 1 + reach + max(self.reaches, default=0)
        return 1 + (0 if one is None else one.reach) + max(reach, max(self.reaches, default=0))

    def count(self, level: str, before: int, after: int) -> None:
        """Updates the reach of this node after that of *level* below it changed. 0 means no
        node.
        """
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
    """Things by name, each with a topic filter."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._known: dict[tuple[str, ...], tuple[T, ...]] = {}
        self._things = 0  # the number of things in the cached results
        self.visited = 0  # the number of nodes and results visited since the caller set it to 0

    @property
    def reach(self) -> int:
        """The maximum number of nodes that a topic visits."""
        return self._root.reach

    def reach_with(self, filter_: tuple[str, ...]) -> int:
        """Returns the maximum number of nodes that a topic would visit if *filter_* were added."""
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
        """Adds *thing* for the topics that *filter_* matches."""
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
        """Removes the thing named *name*, which was added with *filter_*."""
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
            yield from node.many.values()  # The # also matches zero levels.
            yield from node.ends.values()


def _named(filter_: tuple[str, ...]) -> tuple[str, ...]:
    return filter_[:-1] if filter_[-1] == MANY else filter_
