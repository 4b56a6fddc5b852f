"""Tests of the schedule, which is one stored range of keys, ordered by time."""

from qmgrd.core.layout import keys
from qmgrd.core.layout.schedule import Schedule, due_of
from tests.memory_store import MemoryStore


def test_rows_are_due_in_the_order_of_time_not_of_insertion() -> None:
    store, schedule = MemoryStore(), Schedule()
    for due_ms in (300, 100, 200):
        schedule.add(store, due_ms, 1, keys.LANE_READY, 4, due_ms)
    assert schedule.next_ms == 100
    assert [due_of(key) for key, _ in schedule.due(store, 200, 10)] == [100, 200]
    assert [due_of(key) for key, _ in schedule.due(store, 1_000, 2)] == [100, 200]
    assert schedule.due(store, 99, 10) == []


def test_loading_finds_the_first_remaining_row() -> None:
    store, schedule = MemoryStore(), Schedule()
    schedule.load(store)
    assert schedule.next_ms is None
    for due_ms in (100, 200):
        schedule.add(store, due_ms, 1, keys.LANE_READY, 4, due_ms)
    ((key, _),) = schedule.due(store, 100, 10)
    store.delete(key)
    schedule.load(store)
    assert schedule.next_ms == 200


def test_row_is_returned_with_its_value() -> None:
    store, schedule = MemoryStore(), Schedule()
    schedule.add(store, 5, 7, keys.LANE_REMEMBERED, 4, 9, b"trailer")
    ((key, value),) = schedule.due(store, 5, 1)
    assert keys.DUE.unpack(key) == (b"\x13", 5, 7, keys.LANE_REMEMBERED, 5, 9)
    assert value == b"trailer"
