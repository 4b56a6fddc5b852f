"""The delayed flights as publications: who is to have which, by the rows themselves.

What is expected is found by airport and carrier, not by matching topics: that is what is shown.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from qmgr_demo.flights import Flight
from qmgr_demo.ledger import Ledger

OVER_MINUTES = 60  # of delay of the departure
ROOT = "delays"
FAILS_ON = 97  # the divisor of the numbers of flights that one subscriber cannot work on
_ANY = "+"


class Delay(NamedTuple):
    """One flight that left late."""

    row: int
    airport: str
    carrier: str
    number: int  # of the flight: many rows have the same
    body: bytes

    @property
    def topic(self) -> str:
        """What it is published to."""
        return f"{ROOT}/{self.airport}/{self.carrier}"


class Subscriber(NamedTuple):
    """Who wants the delays of an airport, of a carrier, or all where neither is named."""

    name: str  # of a durable one; empty: it lives with its connection
    airport: str = ""
    carrier: str = ""
    fails: bool = False  # on some of them, until it is mended

    @property
    def filter(self) -> str:
        """What it subscribes to."""
        if not (self.airport or self.carrier):
            return f"{ROOT}/#"
        return f"{ROOT}/{self.airport or _ANY}/{self.carrier or _ANY}"

    @property
    def is_durable(self) -> bool:
        """Whether it stays when its connection goes."""
        return bool(self.name)

    def wants(self, delay: Delay) -> bool:
        """Returns whether *delay* is for it."""
        return self.airport in ("", delay.airport) and self.carrier in ("", delay.carrier)

    def cannot(self, delay: Delay) -> bool:
        """Returns whether it fails on *delay* as long as it is not mended."""
        return self.fails and delay.number % FAILS_ON == 0


SUBSCRIBERS = (
    Subscriber("BOARD:all"),
    Subscriber("EWR:all", "EWR"),
    Subscriber("JFK:all", "JFK"),
    Subscriber("LGA:all", "LGA"),
    Subscriber("UA:all", "", "UA"),
    Subscriber("B6:jfk", "JFK", "B6"),
    Subscriber("CLAIMS:all", fails=True),
    Subscriber("", "EWR"),
    Subscriber("", "", "DL"),
)
LATE = Subscriber("")  # comes before what is parked is republished, and is to have nothing of it


@dataclass(slots=True)
class Had:
    """What a subscriber was to have and had."""

    subscriber: Subscriber
    ledger: Ledger
    parked: set[int]  # rows that it is to fail on
    republished: set[int] = field(default_factory=set)  # rows that came marked so

    @property
    def is_clean(self) -> bool:
        """Whether it had what is for it once, and republished what it had failed on alone."""
        return self.ledger.is_clean and self.republished == self.parked


def delayed(flights: Iterable[Flight]) -> list[Delay]:
    """Returns the flights that left more than OVER_MINUTES late."""
    return [
        Delay(one.row, one.airport, one.carrier, json.loads(one.body)["flight"], one.body)
        for one in flights
        if one.delay is not None and one.delay > OVER_MINUTES
    ]


def expected(subscriber: Subscriber, delays: Sequence[Delay]) -> Had:
    """Returns what *subscriber* is to have of *delays*, which are published while it is there."""
    wanted = [delay for delay in delays if subscriber.wants(delay)]
    parked = {delay.row for delay in wanted if subscriber.cannot(delay)}
    return Had(subscriber, Ledger({delay.row for delay in wanted}), parked)
