"""The flights of one day at one airport as groups: of each aircraft its legs, in time order."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from qmgr_demo.flights import Flight
from qmgr_protocol.record import GROUP_ID_BYTES

_UNKNOWN = ("", "NA")  # flights that were cancelled before they had an aircraft


class Leg(NamedTuple):
    """One flight of the day. One without a known aircraft is of no group."""

    aircraft: str  # its tail number, or nothing
    number: int  # of the legs of its aircraft
    last: bool
    row: int
    body: bytes

    @property
    def group(self) -> tuple[bytes, int, bool] | None:
        """Its place in its group: the id is the tail number, filled up with zero bytes."""
        if not self.aircraft:
            return None
        return self.aircraft.encode().ljust(GROUP_ID_BYTES, b"\0"), self.number, self.last


class Day(NamedTuple):
    """One day at one airport."""

    date: str
    airport: str
    legs: list[Leg]  # as they were to leave

    @property
    def aircraft(self) -> int:
        """How many aircraft are known."""
        return len({leg.aircraft for leg in self.legs if leg.aircraft})


class Flown(NamedTuple):
    """What a consumer wrote down of a leg in the unit of work that removed it."""

    aircraft: str
    number: int
    last: bool
    row: int
    by: str  # the consumer
    redelivered: bool
    taken_over: bool  # its aircraft came with it to this consumer
    was_told: bool  # the consumer did the leg before, or heard that the aircraft came to it


@dataclass(slots=True)
class Audit:
    """What went in against what came out."""

    in_order: int = 0  # legs that came when it was their turn
    out_of_order: list[Flown] = field(default_factory=list)
    lost: list[Leg] = field(default_factory=list)
    doubled: list[Flown] = field(default_factory=list)
    unexpected: list[Flown] = field(default_factory=list)
    untold: list[Flown] = field(default_factory=list)  # by another than the leg before, unsaid
    redelivered: int = 0
    handed_over: int = 0  # aircraft that came to a consumer after another one had them
    between: int = 0  # of these, how many with a leg done already
    by: Counter[str] = field(default_factory=Counter)

    @property
    def is_clean(self) -> bool:
        """Whether each leg came out once, in its turn."""
        return not (
            self.out_of_order or self.lost or self.doubled or self.unexpected or self.untold
        )


def busiest_day(flights: Iterable[Flight]) -> Day:
    """Returns the day at an airport on which most legs follow another one of the same aircraft."""
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
    """Returns a day's flights by their planned times, numbered for each aircraft."""
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
    """Holds what was *flown*, in the order of its commits, against the *legs* that were put."""
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
    """Counts a leg that came for the first time; *done* has the legs of each aircraft so far."""
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
