"""Keeps Python's garbage collector from stopping the daemon for long.

A full collection looks at every object, so its time grows with queues, topics and leases. Objects
that survive one collection are excluded (frozen) from the next ones, which then look only at new
objects.

Some excluded objects become garbage later: those in reference cycles. (All others are freed by
reference counting.) So all objects are collected again when the excluded ones have doubled.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

FULL = 2  # the generation that a full collection looks at
LEAST_OBJECTS = 500_000  # Fewer excluded objects are not collected again.
COUNT_EACH = 16  # full collections between two counts, because counting looks at each object, too


@contextmanager
def short_collections(least_objects: int = LEAST_OBJECTS) -> Iterator[None]:
    """Collects all garbage now, and limits later collections to new objects.

    Args:
        least_objects: excluded objects are not collected again below this number.
    """
    again_at, is_of_all, collections = least_objects, True, 0

    def collected(phase: str, info: dict[str, int]) -> None:
        nonlocal again_at, is_of_all, collections
        if phase != "stop" or info["generation"] != FULL:
            return
        gc.freeze()
        collections += 1
        if is_of_all:
            again_at, is_of_all = max(2 * gc.get_freeze_count(), least_objects), False
        elif not collections % COUNT_EACH and gc.get_freeze_count() > again_at:
            gc.unfreeze()  # The next collection looks at all objects.
            is_of_all = True

    gc.callbacks.append(collected)
    try:
        gc.collect()
        yield
    finally:
        gc.callbacks.remove(collected)
        gc.unfreeze()
