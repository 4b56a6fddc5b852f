"""Tests that full collections check only new objects, and occasionally all objects."""

import gc
import weakref

from qmgrd.process.collector import COUNT_EACH, short_collections


class Ring:
    """An object that refers to itself, so that only the collector frees it."""

    def __init__(self) -> None:
        self.itself = self


def test_live_objects_are_excluded_from_later_collections() -> None:
    with short_collections():
        before = gc.get_freeze_count()
        rings = [Ring() for _ in range(1_000)]
        assert before > 0
        gc.collect()
        assert gc.get_freeze_count() >= before + len(rings)
    assert gc.get_freeze_count() == 0


def test_garbage_is_collected_before_it_is_left_out() -> None:
    with short_collections():
        ring = weakref.ref(Ring())
        gc.collect()
        assert ring() is None


def test_later_garbage_is_collected_after_the_excluded_objects_double() -> None:
    with short_collections(least_objects=0):
        ring = Ring()
        gc.collect()
        found = weakref.ref(ring)
        del ring
        gc.collect()
        assert found() is not None  # The object is now excluded from collections.
        rings = [Ring() for _ in range(2 * gc.get_freeze_count())]
        for _ in range(COUNT_EACH):
            gc.collect()  # The new objects are now excluded, which doubles the number.
        gc.collect()
        assert found() is None
        assert rings


def test_callback_is_removed_at_the_end() -> None:
    before = list(gc.callbacks)
    with short_collections():
        assert len(gc.callbacks) == len(before) + 1
    assert gc.callbacks == before


def test_collections_are_enabled_after_a_start_without_them() -> None:
    gc.disable()
    try:
        with short_collections():
            assert gc.isenabled()
    finally:
        gc.enable()
