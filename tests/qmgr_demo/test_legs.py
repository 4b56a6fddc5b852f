"""Tests of the legs of a day, and of the audit, which must detect each kind of fault."""

import json

from qmgr_demo.flights import Flight
from qmgr_demo.legs import Audit, Day, Flown, Leg, audit, busiest_day


def flight(row: int, tail: str, at: int, airport: str = "EWR", day: int = 1) -> Flight:
    body = {"year": 2013, "month": 1, "day": day, "sched_dep_time": at, "row": row}
    return Flight(row, airport, "UA", "IAH", tail, 0, json.dumps(body).encode())


FLIGHTS = [
    flight(0, "N1", 1200),
    flight(1, "N1", 600),
    flight(2, "NA", 700),
    flight(3, "N2", 800),
    flight(4, "N1", 1800),
    flight(5, "N1", 900, "JFK"),
    flight(6, "N1", 900, day=2),
]


def day() -> Day:
    return busiest_day(FLIGHTS)


def flown(leg: Leg, **changed: object) -> Flown:
    found = Flown(*leg[:4], "A", redelivered=False, taken_over=leg.number == 1, was_told=True)
    return found._replace(**changed)  # type: ignore[arg-type]


def audited(*order: int) -> Audit:
    """Returns the audit of a day whose legs were consumed in *order*, a list of indexes."""
    legs = day().legs
    return audit(legs, [flown(legs[place]) for place in order])


def test_day_with_most_legs_behind_others_has_them_in_time_order() -> None:
    found = day()
    assert (found.date, found.airport, found.aircraft) == ("2013-01-01", "EWR", 2)
    assert [leg[:4] for leg in found.legs] == [
        ("N1", 1, False, 1),
        ("", 1, True, 2),
        ("N2", 1, True, 3),
        ("N1", 2, False, 0),
        ("N1", 3, True, 4),
    ]


def test_group_of_an_aircraft_is_its_tail_number_padded() -> None:
    first, unknown, *_ = day().legs
    assert first.group == (b"N1" + bytes(22), 1, False)
    assert unknown.group is None


def test_legs_in_their_order_are_clean_however_aircraft_mix() -> None:
    found = audited(2, 0, 3, 1, 4)
    assert found.is_clean
    assert (found.in_order, found.handed_over, found.by) == (5, 0, {"A": 5})


def test_leg_before_its_turn_is_out_of_order() -> None:
    found = audited(0, 1, 2, 4, 3)
    assert [one.number for one in found.out_of_order] == [3, 2]
    assert not found.is_clean


def test_leg_that_never_came_is_lost() -> None:
    found = audited(0, 1, 2, 3)
    assert [leg.row for leg in found.lost] == [4]
    assert not found.is_clean


def test_leg_that_came_twice_is_doubled() -> None:
    found = audited(0, 1, 2, 3, 4, 3)
    assert [one.row for one in found.doubled] == [0]
    assert not found.is_clean


def test_what_nobody_put_or_says_another_place_is_unexpected() -> None:
    legs = day().legs
    strange = [
        flown(legs[0], row=99),
        flown(legs[0], number=2),
        flown(legs[0], last=True),
        flown(legs[0], aircraft="N2"),
    ]
    found = audit(legs, [*map(flown, legs), *strange])
    assert found.unexpected == strange
    assert not found.is_clean


def test_hand_overs_are_counted_and_have_to_be_told() -> None:
    legs = day().legs
    all_flown = [flown(leg) for leg in legs]
    all_flown[2] = flown(
        legs[2], by="B", redelivered=True
    )  # Another consumer began this leg, but did not finish it.
    all_flown[3] = flown(legs[3], by="B", redelivered=True, taken_over=True)
    found = audit(legs, all_flown)
    assert (found.redelivered, found.handed_over, found.between) == (2, 2, 1)
    assert found.is_clean
    all_flown[3] = flown(legs[3], by="B", was_told=False)
    assert not audit(legs, all_flown).is_clean
