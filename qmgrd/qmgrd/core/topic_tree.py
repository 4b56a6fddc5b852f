"""Which filters a topic fits: a tree of their levels, so that none is looked at that does not fit.

    flights/JFK/UA ──▶ flights ─┬─ JFK ─┬─ UA   who wants that topic
                                │       └─ #    who wants all below flights/JFK
                                └─ +  ─── UA    who wants UA wherever

Each level of the topic is looked up at the nodes that the levels before it led to: by name, and as
one level whatever its name. The answer for a topic is kept until a filter comes or goes.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

from qmgr_protocol.topic import MANY, ONE

KNOWN_MAX = 10_000  # topics of which the answer is kept
KNOWN_THINGS_MAX = 500_000  # in all of these answers

T = TypeVar("T")


class _Node(Generic[T]):
    __slots__ = ("below", "ends", "many")

    def __init__(self) -> None:
        self.below: dict[str, _Node[T]] = {}
        self.ends: dict[str, T] = {}  # by name: whose filter ends here
        self.many: dict[str, T] = {}  # whose filter has all from here on

    @property
    def is_empty(self) -> bool:
        return not (self.below or self.ends or self.many)


class TopicTree(Generic[T]):
    """Things by name, each with a filter of topics."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._known: dict[tuple[str, ...], tuple[T, ...]] = {}
        self._things = 0  # in these

    def add(self, filter_: tuple[str, ...], name: str, thing: T) -> None:
        """Have *thing* be found by the topics that *filter_* has."""
        node = self._root
        for level in _named(filter_):
            node = node.below.setdefault(level, _Node())
        (node.many if filter_[-1] == MANY else node.ends)[name] = thing
        self._known.clear()

    def remove(self, filter_: tuple[str, ...], name: str) -> None:
        """Have the thing of that *name*, which was added with *filter_*, be found no more."""
        path = [self._root]
        for level in _named(filter_):
            path.append(path[-1].below[level])
        del (path[-1].many if filter_[-1] == MANY else path[-1].ends)[name]
        for level, node, above in zip(
            reversed(_named(filter_)), reversed(path), reversed(path[:-1]), strict=False
        ):
            if not node.is_empty:
                break
            del above.below[level]
        self._known.clear()

    def match(self, topic: tuple[str, ...]) -> tuple[T, ...]:
        """Return what is found by *topic*, in no order that means something."""
        found = self._known.get(topic)
        if found is None:
            found = tuple(self._look_up(topic))
            if len(self._known) >= KNOWN_MAX or self._things >= KNOWN_THINGS_MAX:
                self._known.clear()
            self._things = len(found) + (self._things if self._known else 0)
            self._known[topic] = found
        return found

    def _look_up(self, topic: tuple[str, ...]) -> Iterator[T]:
        nodes = [self._root]
        for level in topic:
            further: list[_Node[T]] = []
            for node in nodes:
                yield from node.many.values()
                for name in (level, ONE):
                    if (below := node.below.get(name)) is not None:
                        further.append(below)
            nodes = further
        for node in nodes:
            yield from node.many.values()  # # is no level, too.
            yield from node.ends.values()


def _named(filter_: tuple[str, ...]) -> tuple[str, ...]:
    return filter_[:-1] if filter_[-1] == MANY else filter_
