"""The delayed flights as publications, and the publications that each subscriber must receive.

The expected publications are computed from airport and carrier, not by matching topics. The demo
shows that both methods give the same result.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from qmgr_demo.flights import Flight
from qmgr_demo.ledger import Ledger

OVER_MINUTES = 60  # minimum departure delay of a published flight
ROOT = "delays"
FAILS_ON = 97  # One subscriber fails on flights whose number is a multiple of this value.
_ANY = "+"


class Delay(NamedTuple):
    """One delayed flight."""

    row: int
    airport: str
    carrier: str
    number: int  # flight number; many rows have the same number
    body: bytes

    @property
    def topic(self) -> str:
        """The topic of the publication about this flight."""
        return f"{ROOT}/{self.airport}/{self.carrier}"


class Subscriber(NamedTuple):
    """A subscriber to the delays of an airport or a carrier, or to all delays by default."""

    name: str  # name of a durable subscription; "" if the subscription ends with the connection
    airport: str = ""
    carrier: str = ""
    fails: bool = False  # whether the subscriber fails on some flights until it is fixed

    @property
    def filter(self) -> str:
        """The topic filter of the subscriber."""
        if not (self.airport or self.carrier):
            return f"{ROOT}/#"
        return f"{ROOT}/{self.airport or _ANY}/{self.carrier or _ANY}"

    @property
    def is_durable(self) -> bool:
        """Whether the subscription continues after the connection is closed."""
        return bool(self.name)

    def wants(self, delay: Delay) -> bool:
        """Returns whether *delay* matches the subscriber's filter."""
        return self.airport in ("", delay.airport) and self.carrier in ("", delay.carrier)

    def cannot(self, delay: Delay) -> bool:
        """Returns whether the subscriber fails on *delay* until it is fixed."""
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
# This subscriber subscribes just before publications are republished, and must not receive them.
LATE = Subscriber("")


@dataclass(slots=True)
class SubscriberResult:
    """The expected and the actual publications of a subscriber."""

    subscriber: Subscriber
    ledger: Ledger
    parked: set[int]  # rows that the subscriber must fail on
    republished: set[int] = field(default_factory=set)  # rows delivered as republished

    @property
    def is_clean(self) -> bool:
        """Whether each publication was consumed once, and only the failed ones were republished."""
        return self.ledger.is_clean and self.republished == self.parked


def delayed(flights: Iterable[Flight]) -> list[Delay]:
    """Returns the flights that left more than OVER_MINUTES minutes late."""
    return [
        Delay(one.row, one.airport, one.carrier, json.loads(one.body)["flight"], one.body)
        for one in flights
        if one.delay is not None and one.delay > OVER_MINUTES
    ]


def expected(subscriber: Subscriber, delays: Sequence[Delay]) -> SubscriberResult:
    """Returns the expected result if all *delays* are published while *subscriber* subscribes."""
    wanted = [delay for delay in delays if subscriber.wants(delay)]
    parked = {delay.row for delay in wanted if subscriber.cannot(delay)}
    return SubscriberResult(subscriber, Ledger({delay.row for delay in wanted}), parked)
