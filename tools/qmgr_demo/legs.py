"""The flights of one day at one airport, grouped by aircraft in time order."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from qmgr_demo.flights import Flight
from qmgr_protocol.record import GROUP_ID_BYTES

_UNKNOWN = ("", "NA")  # flights that were cancelled before an aircraft was assigned


class Leg(NamedTuple):
    """One flight of the day. A flight without a known aircraft has no group."""

    aircraft: str  # tail number, or ""
    number: int  # number of the leg among the aircraft's legs, from 1
    last: bool
    row: int
    body: bytes

    @property
    def group(self) -> tuple[bytes, int, bool] | None:
        """The id, number and last flag in the group. The id is the zero-padded tail number."""
        if not self.aircraft:
            return None
        return self.aircraft.encode().ljust(GROUP_ID_BYTES, b"\0"), self.number, self.last


class Day(NamedTuple):
    """The flights of one day at one airport."""

    date: str
    airport: str
    legs: list[Leg]  # legs in planned order

    @property
    def aircraft(self) -> int:
        """The number of known aircraft."""
        return len({leg.aircraft for leg in self.legs if leg.aircraft})


class Flown(NamedTuple):
    """The record of a leg, written in the unit of work that removed it."""

    aircraft: str
    number: int
    last: bool
    row: int
    by: str  # name of the consumer
    redelivered: bool
    taken_over: bool  # whether the aircraft was just assigned to this consumer
    was_told: bool  # whether the consumer did the previous leg, or was notified of the assignment


@dataclass(slots=True)
class Audit:
    """The result of comparing the legs that were put with the consumers' records."""

    in_order: int = 0  # number of legs consumed in order
    out_of_order: list[Flown] = field(default_factory=list)
    lost: list[Leg] = field(default_factory=list)
    doubled: list[Flown] = field(default_factory=list)
    unexpected: list[Flown] = field(default_factory=list)
    # legs whose consumer neither processed the previous leg nor was notified of the assignment
    untold: list[Flown] = field(default_factory=list)
    redelivered: int = 0
    handed_over: int = 0  # number of aircraft that moved from one consumer to another
    between: int = 0  # number of such aircraft that moved between two of their legs
    by: Counter[str] = field(default_factory=Counter)

    @property
    def is_clean(self) -> bool:
        """Whether each leg was consumed once and in order."""
        return not (
            self.out_of_order or self.lost or self.doubled or self.unexpected or self.untold
        )


def busiest_day(flights: Iterable[Flight]) -> Day:
    """Returns the day and airport where most legs follow another leg of the same aircraft."""
    days: dict[tuple[str, str], list[tuple[int, Flight]]] = defaultdict(list)
    for flight in flights:
        row = json.loads(flight.body)
        date = f"{row['year']}-{row['month']:02}-{row['day']:02}"
        days[date, flight.airport].append((row["sched_dep_time"], flight))
    date, airport = max(days, key=lambda day: (_following(days[day]), day))
    return Day(date, airport, _legs(days[date, airport]))


def _following(day: Sequence[tuple[int, Flight]]) -> int:
    known = [flight.tail_number for _, flight in day if flight.tail_number not in _UNKNOWN]
    return len(known) - len(set(known))


def _legs(day: list[tuple[int, Flight]]) -> list[Leg]:
    """Returns a day's flights in planned order, numbered for each aircraft."""
    in_time = [flight for _, flight in sorted(day, key=lambda one: (one[0], one[1].row))]
    totals = Counter(flight.tail_number for flight in in_time)
    numbers: Counter[str] = Counter()
    legs = []
    for flight in in_time:
        tail = flight.tail_number
        if tail in _UNKNOWN:
            legs.append(Leg("", 1, True, flight.row, flight.body))
            continue
        numbers[tail] += 1
        is_last = numbers[tail] == totals[tail]
        legs.append(Leg(tail, numbers[tail], is_last, flight.row, flight.body))
    return legs


def audit(legs: Sequence[Leg], flown: Sequence[Flown]) -> Audit:
    """Compares *flown*, in commit order, with the *legs* that were put."""
    found, expected = Audit(), {leg.row: leg for leg in legs}
    seen: set[int] = set()
    done: Counter[str] = Counter()
    for one in flown:
        leg = expected.get(one.row)
        if leg is None or leg[:4] != one[:4]:
            found.unexpected.append(one)
            continue
        if one.row in seen:
            found.doubled.append(one)
            continue
        seen.add(one.row)
        _count(found, one, done)
    found.lost = [leg for leg in legs if leg.row not in seen]
    return found


def _count(found: Audit, one: Flown, done: Counter[str]) -> None:
    """Counts the first record of a leg. *done* has the number of legs of each aircraft so far."""
    found.by[one.by] += 1
    found.redelivered += one.redelivered
    if one.aircraft:
        done[one.aircraft] += 1
        if one.number != done[one.aircraft]:
            found.out_of_order.append(one)
            return
        found.between += one.taken_over and one.number > 1
        found.handed_over += one.taken_over and (one.number > 1 or one.redelivered)
        if not one.was_told:
            found.untold.append(one)
    found.in_order += 1
