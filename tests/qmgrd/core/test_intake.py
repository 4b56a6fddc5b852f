"""Tests of the intake, which keeps the order of each connection and rotates among connections."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgrd.core.intake import AHEAD_MAX_BYTES, Intake
from qmgrd.core.limits.budget import Budget
from qmgrd.core.limits.unread_replies import UnreadReplies
from qmgrd.core.sessions.request_part import SETTLE_HANDLES
from tests.qmgrd.core.ticking import MS_NS, Ticking


def put(*sizes: int) -> m.Put:
    return m.Put(1, 1, 0, "Q", [bytes(size) for size in sizes])


def took(intake: Intake, requests: int = 100, bytes_: int = 1000) -> list[tuple[int, Any]]:
    return [(number, arrival.message) for number, arrival in intake.take(requests, bytes_)]


def test_connections_take_turns() -> None:
    intake = Intake()
    for number in (1, 1, 1, 2, 3, 3):
        intake.message(number, m.Status(number), 10)
    assert [number for number, _ in took(intake)] == [1, 2, 3, 1, 3, 1]
    assert not intake


def test_turn_is_bounded_in_requests() -> None:
    intake = Intake()
    for number in (1, 2, 3):
        intake.message(number, m.Status(1), 10)
    assert [number for number, _ in took(intake, requests=2)] == [1, 2]
    assert intake
    assert [number for number, _ in took(intake)] == [3]


def test_turn_is_bounded_in_bytes_but_takes_one() -> None:
    intake = Intake()
    for number in (1, 2, 3):
        intake.message(number, m.Status(1), 600)
    assert [number for number, _ in took(intake, bytes_=1000)] == [1, 2]
    intake.message(4, m.Status(1), 10**9)
    assert [number for number, _ in took(intake, bytes_=700)] == [3, 4]


def test_event_stays_behind_what_came_before_it() -> None:
    intake = Intake()
    intake.message(1, m.Status(1), 10)
    intake.event(1, lambda broker: None)
    first, second = (arrival for _, arrival in intake.take(100, 1000))
    assert (first.message, first.event) == (m.Status(1), None)
    assert second.message is None
    assert second.event is not None


def test_counts_are_of_what_waits() -> None:
    intake = Intake()
    pending = intake.of(1)
    intake.message(1, put(1, 1), 100)
    intake.message(1, m.Status(1), 7)
    intake.event(1, lambda broker: None)
    assert (pending.put_messages, pending.put_bytes, pending.messages) == (2, 100, 1)
    took(intake)
    assert (pending.put_messages, pending.put_bytes, pending.messages) == (0, 0, 0)


def test_connection_is_forgotten_once_what_it_left_is_taken() -> None:
    intake = Intake()
    intake.message(1, put(1), 10)
    intake.close(1)
    intake.close(2)
    assert len(took(intake)) == 1
    assert intake._pending == {}


def test_connection_with_nothing_waiting_is_forgotten_at_once() -> None:
    intake = Intake()
    intake.of(1)
    intake.close(1)
    assert intake._pending == {}


@given(st.lists(st.integers(1, 4), max_size=40), st.integers(1, 5))
def test_nothing_is_lost_and_each_connection_keeps_its_order(
    numbers: list[int], requests_max: int
) -> None:
    intake = Intake()
    for serial, number in enumerate(numbers, 1):
        intake.message(number, m.Status(serial), 10)

    def drained() -> Iterator[tuple[int, int]]:
        while intake:
            for number, message in took(intake, requests_max):
                yield number, message.request_id

    found = list(drained())
    for number in set(numbers):
        sent = [serial for serial, of in enumerate(numbers, 1) if of == number]
        assert [serial for of, serial in found if of == number] == sent


def test_connection_is_ahead_until_its_bytes_are_taken() -> None:
    intake = Intake()
    pending = intake.of(1)
    for _ in range(2):
        assert not intake.is_ahead(pending)
        intake.message(1, m.Settle(1, 1, 1, b""), AHEAD_MAX_BYTES // 2 + 1)
    assert intake.is_ahead(pending)
    assert not intake.is_ahead(intake.of(2))
    took(intake, bytes_=1)
    assert not intake.is_ahead(pending)


def test_all_connections_together_are_bounded() -> None:
    """Above the limit, the daemon reads only from connections without pending requests."""
    intake = Intake(bytes_max=8 * AHEAD_MAX_BYTES)
    count = 9
    for number in range(count):
        intake.message(number, m.Status(1), AHEAD_MAX_BYTES)
    assert all(intake.is_ahead(intake.of(number)) for number in range(count))
    assert not intake.is_ahead(intake.of(count))
    took(intake, bytes_=1)
    assert not intake.is_ahead(intake.of(count - 1))


class Served:
    """An intake whose requests take a time that is set for each connection, in milliseconds."""

    def __init__(self, turn_ms: int, **cost_ms: float) -> None:
        self.intake = Intake()
        self.clock = Ticking()
        self.budget = Budget(turn_ms, self.clock)
        self.cost_ms = {int(name[1:]): cost for name, cost in cost_ms.items()}

    def arrive(self, number: int, count: int = 1) -> None:
        for _ in range(count):
            self.intake.message(number, m.Status(1), 10)

    def turn(self) -> list[int]:
        self.budget.begin()
        found = []
        for number, _ in self.intake.take(10_000, 10**9, self.budget):
            found.append(number)
            self.clock.now_ns += int(self.cost_ms[number] * MS_NS)
        return found


def test_flood_of_expensive_requests_costs_others_one_of_them_in_each_turn() -> None:
    served = Served(50, c1=13, c2=0.01)
    served.arrive(1, 100)
    for _ in range(10):
        served.arrive(2)
        assert sorted(served.turn()) == [1, 2]


def test_flood_has_a_small_part_of_a_turn() -> None:
    """Answers leave at the end of a turn, so a connection with few requests gets them soon."""
    served = Served(50, c1=1, c2=0.01)
    served.arrive(1, 200)
    for _ in range(5):
        served.arrive(2)
        found = Counter(served.turn())
        assert found[1] in (4, 5)  # slots of 1.05 ms
        assert found[2] == 1


def test_connections_with_much_waiting_have_the_same_time_each() -> None:
    served = Served(50, c1=5, c2=1, c3=0.1)
    for number in (1, 2, 3):
        served.arrive(number, 5_000)
    found = Counter(number for _ in range(20) for number in served.turn())
    times = {number: found[number] * served.cost_ms[number] for number in (1, 2, 3)}
    assert max(times.values()) - min(times.values()) <= 20, times  # one slot in each turn
    assert sum(times.values()) > 20 * 12


def test_many_floods_let_a_newcomer_through_in_the_next_turn() -> None:
    served = Served(50, **{f"c{number}": 10 for number in range(1, 201)}, c2000=0.01)
    for number in range(1, 201):
        served.arrive(number, 10)
    while len(set(found := served.turn())) and found[-1] != 200:
        pass  # Each connection had one request.
    for _ in range(5):
        served.turn()
        served.arrive(2000)
        assert served.turn()[0] == 2000


def test_unused_time_is_not_saved() -> None:
    """A connection that was silent for a long time is served next, but gets only its share."""
    served = Served(50, c1=1, c2=1)
    served.arrive(1, 10_000)
    for _ in range(20):
        served.turn()
    served.arrive(2, 10_000)
    found = Counter(number for _ in range(10) for number in served.turn())
    assert abs(found[1] - found[2]) <= 5, found


def test_turn_of_no_time_takes_one_arrival() -> None:
    served = Served(1, c1=1_000)
    served.arrive(1, 3)
    assert [served.turn() for _ in range(3)] == [[1], [1], [1]]
    assert not served.intake
    assert served.turn() == []


def test_clock_is_read_once_an_arrival() -> None:
    served = Served(1_000, c1=0, c2=0)
    for number in (1, 2):
        served.arrive(number, 500)
    before = served.clock.looks
    served.turn()
    assert served.clock.looks - before <= 1_000 + 2


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 30)), max_size=60), st.integers(1, 60))
def test_requests_of_any_cost_keep_their_order_and_are_not_lost(
    arrivals: list[tuple[int, int]], turn_ms: int
) -> None:
    intake, clock = Intake(), Ticking()
    budget, found = Budget(turn_ms, clock), list[tuple[int, int]]()
    costs = dict(enumerate((cost for _, cost in arrivals), 1))

    def turn() -> None:
        budget.begin()
        before = len(found)
        for number, arrival in intake.take(10, 10**6, budget):
            message: Any = arrival.message
            found.append((number, message.request_id))
            clock.now_ns += costs[message.request_id] * MS_NS
        assert len(found) > before

    for serial, (number, cost) in enumerate(arrivals, 1):
        intake.message(number, m.Status(serial), 10)
        if cost % 5 == 0:
            turn()
    while intake:
        turn()
    for number in range(1, 5):
        sent = [at for at, (of, _) in enumerate(arrivals, 1) if of == number]
        assert [serial for of, serial in found if of == number] == sent


def test_piece_of_a_settle_is_as_long_as_the_store_bears() -> None:
    assert Intake().handles_max == Intake(1_000).handles_max == SETTLE_HANDLES
    assert Intake(25).handles_max == 25


def test_connection_that_is_held_waits_and_goes_on_in_order() -> None:
    intake = Intake()
    for number in (1, 2, 1):
        intake.message(number, m.Status(number), 10)
    intake.block(1)
    assert [number for number, _ in took(intake)] == [2]
    assert not intake
    intake.message(1, m.Status(7), 10)
    assert not intake
    intake.unblock(1)
    found = [(number, message.request_id) for number, message in took(intake) if message]
    assert found == [(1, 1), (1, 1), (1, 7)]


def test_event_of_a_connection_that_is_held_is_taken() -> None:
    intake = Intake()
    intake.block(1)
    intake.event(1, lambda broker: None)
    assert len(took(intake)) == 1


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.parametrize("is_alone", [False, True])
def test_reads_of_a_closed_connection_are_dropped(is_held: bool, is_alone: bool) -> None:
    intake = Intake()
    if is_held:
        intake.block(1)
    for message in (m.Browse(1, "Q"), put(1), m.Get(2, "Q"), m.QueueCreate(3, "R"), m.Status(4)):
        if not is_alone or type(message) not in (m.Put, m.QueueCreate):
            intake.message(1, message, 10)
    if is_held:
        assert took(intake) == []
    intake.close(1)
    kept = [type(message) for _, message in took(intake) if message is not None]
    assert kept == ([] if is_alone else [m.Put, m.QueueCreate])
    assert (intake._pending, intake.bytes, bool(intake)) == ({}, 0, False)


def test_long_answers_continue_when_each_fits() -> None:
    flow = UnreadReplies(longest_bytes=1_000)
    intake = Intake(unread_replies=flow)
    for number in range(1, 6):
        intake.message(number, m.Browse(number, "Q"), 10)
    intake.set_room(999)
    assert took(intake) == []
    intake.set_room(2_500)
    assert [number for number, _ in took(intake)] == [1, 2]
    intake.close(3)
    intake.set_room(1_000_000)
    assert [number for number, _ in took(intake)] == [4, 5]
