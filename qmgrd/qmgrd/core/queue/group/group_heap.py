"""The groups of one reader that have an available member, in the order of their places.

A reader in pinned order can hold many groups at the same time. The next member is the first of all
members of these groups, by priority and arrival number. Therefore, a long group does not delay the
other groups.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

# Maximum number of outdated places in the heap, in addition to the number of groups.
_STALE_MAX = 64


class GroupHeap:
    """The groups of one reader, ordered by the place (:data:`keys.PLACE`) of their next member."""

    __slots__ = ("_heap", "_places")

    def __init__(self) -> None:
        self._places: dict[bytes, bytes] = {}
        # Pairs of place and group. Outdated places remain in the heap until they are first.
        self._heap: list[tuple[bytes, bytes]] = []

    def add(self, group_id: bytes, place: bytes) -> None:
        """Adds a group at *place*, or moves the group to *place*."""
        if self._places.get(group_id) == place:
            return
        self._places[group_id] = place
        heappush(self._heap, (place, group_id))
        if len(self._heap) > 2 * len(self._places) + _STALE_MAX:
            self._heap = [(at, one) for one, at in self._places.items()]
            heapify(self._heap)

    def remove(self, group_id: bytes) -> None:
        """Removes a group."""
        self._places.pop(group_id, None)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, group_id: bytes) -> bool:
        return group_id in self._places

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._places)

    def first(self) -> tuple[bytes, bytes] | None:
        """Returns the lowest place and its group, or None."""
        heap = self._heap
        while heap and self._places.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0] if heap else None
