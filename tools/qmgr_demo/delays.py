"""The delayed flights as publications, and the expected ones of each subscriber.

The expected ones are found by airport and carrier, not by matching topics: the demo shows that both
agree.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from qmgr_demo.flights import Flight
from qmgr_demo.ledger import Ledger

OVER_MINUTES = 60  # of delay of the departure
ROOT = "delays"
FAILS_ON = 97  # One subscriber fails on flights whose number this divides.
_ANY = "+"


class Delay(NamedTuple):
    """One flight that left late."""

    row: int
    airport: str
    carrier: str
    number: int  # of the flight; many rows have the same number
    body: bytes

    @property
    def topic(self) -> str:
        """The topic of its publication."""
        return f"{ROOT}/{self.airport}/{self.carrier}"


class Subscriber(NamedTuple):
    """A subscriber to the delays of an airport, of a carrier, or to all if neither is named."""

    name: str  # of a durable one; empty: it ends with its connection
    airport: str = ""
    carrier: str = ""
    fails: bool = False  # on some flights, until it is fixed

    @property
    def filter(self) -> str:
        """Its topic filter."""
        if not (self.airport or self.carrier):
            return f"{ROOT}/#"
        return f"{ROOT}/{self.airport or _ANY}/{self.carrier or _ANY}"

    @property
    def is_durable(self) -> bool:
        """Whether it survives its connection."""
        return bool(self.name)

    def wants(self, delay: Delay) -> bool:
        """Returns whether *delay* matches its filter."""
        return self.airport in ("", delay.airport) and self.carrier in ("", delay.carrier)

    def cannot(self, delay: Delay) -> bool:
        """Returns whether it fails on *delay* until it is fixed."""
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
# subscribes before parked ones are republished, and must receive none of these
LATE = Subscriber("")


@dataclass(slots=True)
class SubscriberResult:
    """The expected and the actual publications of a subscriber."""

    subscriber: Subscriber
    ledger: Ledger
    parked: set[int]  # rows that it must fail on
    republished: set[int] = field(default_factory=set)  # rows that were marked as republished

    @property
    def is_clean(self) -> bool:
        """Whether it had its publications once, and republished ones only after it failed on
        them.
        """
        return self.ledger.is_clean and self.republished == self.parked


def delayed(flights: Iterable[Flight]) -> list[Delay]:
    """Returns the flights that left more than OVER_MINUTES late."""
    return [
        Delay(one.row, one.airport, one.carrier, json.loads(one.body)["flight"], one.body)
        for one in flights
        if one.delay is not None and one.delay > OVER_MINUTES
    ]


def expected(subscriber: Subscriber, delays: Sequence[Delay]) -> SubscriberResult:
    """Returns what *subscriber* must receive of *delays*, published during its subscription."""
    wanted = [delay for delay in delays if subscriber.wants(delay)]
    parked = {delay.row for delay in wanted if subscriber.cannot(delay)}
    return SubscriberResult(subscriber, Ledger({delay.row for delay in wanted}), parked)
