"""The groups in one reader's hands that have a member for it, in the order of their turns.

A pinned consumer has many at once. What comes next is the first of them all, by priority and
arrival: a group of which much is there keeps none of the others waiting.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

_STALE_MAX = 64  # what groups left that may lie in the heap, beside as much as stands there


class Line:
    """Groups by the places (:data:`keys.PLACE`) of what is next of each; each stands once."""

    __slots__ = ("_heap", "_places")

    def __init__(self) -> None:
        self._places: dict[bytes, bytes] = {}
        self._heap: list[tuple[bytes, bytes]] = []  # and what a group left, until it is first

    def stand(self, group_id: bytes, place: bytes) -> None:
        """Have a group stand at *place*, and nowhere else."""
        if self._places.get(group_id) == place:
            return
        self._places[group_id] = place
        heappush(self._heap, (place, group_id))
        if len(self._heap) > 2 * len(self._places) + _STALE_MAX:
            self._heap = [(at, one) for one, at in self._places.items()]
            heapify(self._heap)

    def leave(self, group_id: bytes) -> None:
        """Have a group stand nowhere."""
        self._places.pop(group_id, None)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, group_id: bytes) -> bool:
        return group_id in self._places

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._places)

    def first(self) -> tuple[bytes, bytes] | None:
        """Return the lowest place and its group, or None."""
        heap = self._heap
        while heap and self._places.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0] if heap else None
