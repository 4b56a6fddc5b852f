"""Tests of the delays that each subscriber should get, by airport and carrier."""

import json

import pytest

from qmgr_demo.delays import (
    LATE,
    SUBSCRIBERS,
    Delay,
    Subscriber,
    SubscriberResult,
    delayed,
    expected,
)
from qmgr_demo.flights import Flight
from qmgr_demo.ledger import Ledger
from qmgr_protocol import topic as topics

DELAYS = [
    Delay(row, airport, carrier, number, b"")
    for row, (airport, carrier, number) in enumerate(
        [("EWR", "UA", 194), ("JFK", "UA", 1), ("JFK", "B6", 97), ("LGA", "DL", 98)]
    )
]


def test_flights_that_left_more_than_an_hour_late_are_published() -> None:
    flights = [
        Flight(row, "JFK", "UA", "IAH", "N1", delay, json.dumps({"flight": row * 7}).encode())
        for row, delay in enumerate([None, 61, 60, -3, 600])
    ]
    found = delayed(flights)
    assert [(one.row, one.number, one.topic) for one in found] == [
        (1, 7, "delays/JFK/UA"),
        (4, 28, "delays/JFK/UA"),
    ]


@pytest.mark.parametrize(
    ("subscriber", "filter_", "rows"),
    [
        (Subscriber("A:a"), "delays/#", [0, 1, 2, 3]),
        (Subscriber("A:a", "JFK"), "delays/JFK/+", [1, 2]),
        (Subscriber("A:a", "", "UA"), "delays/+/UA", [0, 1]),
        (Subscriber("A:a", "JFK", "B6"), "delays/JFK/B6", [2]),
        (Subscriber("A:a", "EWR", "B6"), "delays/EWR/B6", []),
    ],
)
def test_subscriber_is_to_have_what_its_filter_says(
    subscriber: Subscriber, filter_: str, rows: list[int]
) -> None:
    assert subscriber.filter == filter_
    had = expected(subscriber, DELAYS)
    assert sorted(had.ledger.acknowledged) == rows
    assert had.parked == set()


def test_one_fails_on_numbers_of_flights_and_only_that_one() -> None:
    (failing,) = [one for one in SUBSCRIBERS if one.fails]
    assert expected(failing, DELAYS).parked == {0, 2}
    assert not any(expected(one, DELAYS).parked for one in SUBSCRIBERS if one != failing)


def test_filters_of_the_demo_are_valid_and_durable_names_differ() -> None:
    for one in (*SUBSCRIBERS, LATE):
        topics.filter_of(one.filter)
    names = [one.name for one in SUBSCRIBERS if one.is_durable]
    assert len(names) == len(set(names)) == 7


def test_had_is_clean_only_with_its_own_and_what_it_failed_on() -> None:
    had = SubscriberResult(SUBSCRIBERS[0], Ledger({1, 2}), {2})
    for row in (1, 2):
        had.ledger.note_delivery(row, str(row), flagged=False, known=True)
    assert not had.is_clean  # Publication 2 was not republished.
    had.republished = {2}
    assert had.is_clean
    had.republished = {1, 2}
    assert not had.is_clean  # Publication 1 was republished unexpectedly.
    had.republished = {2}
    had.ledger.note_delivery(3, "3", flagged=False, known=False)
    assert not had.is_clean
