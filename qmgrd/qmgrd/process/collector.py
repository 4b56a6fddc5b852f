"""Shortens the pauses that Python's garbage collector causes in the daemon.

A full collection examines every object, so its time grows with the number of queues, topics and
leases. Objects of the start, and objects that survive one collection, are excluded (frozen) from
the next ones, which then examine only new objects.

Some excluded objects become garbage later if they are in reference cycles. All other objects are
freed by reference counting. Therefore all objects are collected again after the number of excluded
objects has doubled.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

FULL = 2  # the generation that a full collection examines
LEAST_OBJECTS = 500_000  # fewer excluded objects than this are not collected again
# Number of full collections between two counts, because counting also examines each object.
COUNT_EACH = 16


@contextmanager
def short_collections(least_objects: int = LEAST_OBJECTS) -> Iterator[None]:
    """Enables collections, which examine only new objects.

    All present objects are excluded without a collection, because a start leaves little garbage.

    Args:
        least_objects: The minimum number of excluded objects for collecting them again.
    """
    gc.freeze()
    again_at = max(2 * gc.get_freeze_count(), least_objects)
    is_of_all, collections = False, 0

    def collected(phase: str, info: dict[str, int]) -> None:
        nonlocal again_at, is_of_all, collections
        if phase != "stop" or info["generation"] != FULL:
            return
        gc.freeze()
        collections += 1
        if is_of_all:
            again_at, is_of_all = max(2 * gc.get_freeze_count(), least_objects), False
        elif not collections % COUNT_EACH and gc.get_freeze_count() > again_at:
            gc.unfreeze()  # The next collection examines all objects.
            is_of_all = True

    gc.callbacks.append(collected)
    try:
        gc.enable()
        yield
    finally:
        gc.callbacks.remove(collected)
        gc.unfreeze()
