"""Tests of keys and positions by priority."""

from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from qmgrd.core.queue.group.groups import NEVER
from qmgrd.core.queue.positions import Positions


def test_prefixes_are_those_of_entries() -> None:
    positions = Positions(7, is_transmission=False)
    arrival = (5).to_bytes(8, "big")
    for priority in range(10):
        ready = keys.message(7, keys.LANE_READY, priority, 5)
        grouped = keys.message(7, keys.LANE_GROUPED, priority, 5)
        assert positions.prefixes[priority] + arrival == ready
        assert positions.grouped_prefixes[priority] + arrival == grouped
        assert ready < positions.ready_end


def test_transmission_order_ignores_priorities() -> None:
    positions = Positions(7, is_transmission=True)
    assert len(set(positions.prefixes)) == 1


def test_default_priority_is_that_of_messages_that_leave_theirs_to_the_queue() -> None:
    positions = Positions(7, is_transmission=False)
    positions.set_default_priority(6)
    own = bytes([0, records.VERSION, 2, 0])
    left = bytes([0, records.VERSION, 2, records.FLAG_PRIORITY_OF_QUEUE])
    assert positions.plain_prefixes[own] == positions.prefixes[2]
    assert positions.plain_prefixes[left] == positions.prefixes[6]
    assert positions.plain_grouped[left] == positions.grouped_prefixes[6]
    positions.set_default_priority(1)
    assert positions.plain_prefixes[left] == positions.prefixes[1]


def test_groups_are_checked_once_more() -> None:
    positions = Positions(7, is_transmission=False)
    positions.ready[4] = positions.grouped[4] = positions.stopped[4] = 9
    positions.start_over()
    assert (positions.ready[4], positions.grouped[4], positions.stopped[4]) == (9, 0, NEVER)
