"""Keeps Python's garbage collector from stopping the daemon for long.

A full collection looks at every object, so it takes the longer the more queues, topics and leases
there are. What one of them finds alive is left out of the next ones, so that each looks only at
what is new.

Some of what is left out becomes garbage later: objects that refer to each other. (All others end
as soon as nothing refers to them.) So everything is looked at again when what is left out has
doubled.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

FULL = 2  # the number of the generation that a full collection looks at
LEAST_OBJECTS = 500_000  # Fewer are not looked at again.
COUNT_EACH = 16  # full collections, as counting looks at each object, too


@contextmanager
def short_collections(least_objects: int = LEAST_OBJECTS) -> Iterator[None]:
    """Collects all garbage now, and have later collections look only at what is new meanwhile.

    Args:
        least_objects: what is left out is not looked at again below this number.
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
            gc.unfreeze()  # The next one looks at all.
            is_of_all = True

    gc.callbacks.append(collected)
    try:
        gc.collect()
        yield
    finally:
        gc.callbacks.remove(collected)
        gc.unfreeze()
