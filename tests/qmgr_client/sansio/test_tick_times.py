"""Tests of the times at which a shell must tick the core."""

from qmgr_client.sansio.consumers import Consumers
from qmgr_client.sansio.tick_times import POLL_MAX_MS, TickTimes


def test_poll_is_due_a_few_times_between_heartbeats() -> None:
    times = TickTimes(Consumers([]))
    times.restart(400, 10_000)
    assert times.next_due_ms == 10_100
    assert not times.ticked(400, 10_099)
    assert times.ticked(400, 10_100)
    assert times.next_due_ms == 10_200
    times.restart(60_000, 10_000)
    assert times.next_due_ms == 10_000 + POLL_MAX_MS


def test_late_tick_leaves_the_poll_to_the_next_one() -> None:
    times = TickTimes(Consumers([]))
    times.restart(400, 0)
    assert not times.ticked(400, 201)
    assert times.next_due_ms == 301
    assert times.ticked(400, 301)


def test_start_of_a_lease_comes_before_the_poll() -> None:
    consumers = Consumers([])
    times = TickTimes(consumers)
    times.restart(400, 0)
    consumers.start_due_ms = 5
    assert times.next_due_ms == 5
    assert not times.ticked(400, 5), "this tick is not a poll"
    consumers.start_due_ms = 500
    assert times.next_due_ms == 100
