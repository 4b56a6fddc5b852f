"""What waits for its turn: in order for each connection, in rotation among them."""

from collections.abc import Iterator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import messages as m
from qmgrd.core.intake import AHEAD_MAX_BYTES, TOTAL_MAX_BYTES, Intake


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
    intake.message(1, m.Status(1), 10)
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
    """Beyond that only those are read from that have nothing waiting: each gets its share."""
    intake = Intake()
    count = TOTAL_MAX_BYTES // AHEAD_MAX_BYTES + 1
    for number in range(count):
        intake.message(number, m.Status(1), AHEAD_MAX_BYTES)
    assert all(intake.is_ahead(intake.of(number)) for number in range(count))
    assert not intake.is_ahead(intake.of(count))
    took(intake, bytes_=1)
    assert not intake.is_ahead(intake.of(count - 1))
