"""What is on its way over a link, as puts land."""

from qmgrd.core.link_flight import Flight


def flown() -> Flight:
    flight = Flight()
    for first_id, messages, size in ((1, 3, 300), (4, 1, 50), (9, 2, 20)):
        flight.add(first_id, messages, size)
    return flight


def test_commit_lands_the_puts_that_it_covers_wholly() -> None:
    flight = flown()
    assert (flight.messages, flight.bytes) == (6, 370)
    flight.land_to(2)
    assert flight.messages == 6
    flight.land_to(3)
    assert (flight.messages, flight.bytes) == (3, 70)
    flight.land_to(100)
    assert (flight.messages, flight.bytes) == (0, 0)


def test_put_lands_with_all_before_it() -> None:
    flight = flown()
    flight.land_with(7)  # Of none: it was passed over.
    assert flight.messages == 6
    flight.land_with(4)
    assert (flight.messages, flight.bytes) == (2, 20)
    flight.land_with(10)
    assert (flight.messages, flight.bytes) == (0, 0)


def test_all_land() -> None:
    flight = flown()
    flight.land_all()
    flight.land_all()
    assert (flight.messages, flight.bytes) == (0, 0)
