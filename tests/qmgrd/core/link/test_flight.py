"""Tests of the puts that are in flight on a path of a link."""

import pytest

from qmgr_protocol.errors import FieldInvalid
from qmgrd.core.link.flight import Flight


def flown() -> Flight:
    flight = Flight()
    for first_id, messages, size in ((1, 3, 300), (4, 1, 50), (9, 2, 20)):
        flight.add(first_id, messages, size, now_ms=first_id)
    return flight


def test_put_lands_once_the_peer_has_taken_all_of_it() -> None:
    flight = flown()
    assert (flight.messages, flight.bytes) == (6, 370)
    assert flight.remove_received(2) == []
    assert (flight.messages, flight.bytes) == (4, 370)
    assert [put.first_id for put in flight.remove_received(4)] == [1, 4]
    assert (flight.messages, flight.bytes) == (2, 20)
    assert [put.at_ms for put in flight.remove_received(6)] == [9]
    assert (flight.messages, flight.bytes, list(flight.puts)) == (0, 0, [])


def test_what_was_taken_before_changes_nothing() -> None:
    flight = flown()
    flight.remove_received(4)
    assert flight.remove_received(3) == []
    assert flight.messages == 2


def test_copy_that_is_sent_again_is_in_flight_as_well() -> None:
    """Seed 7501: The peer may have committed the first copy while the second is still unread."""
    flight = flown()
    flight.add(1, 3, 300, now_ms=20)
    flight.remove_received(6)
    assert (flight.messages, flight.bytes, list(flight.ids())) == (3, 300, [1, 2, 3])


def test_more_than_was_sent_cannot_land() -> None:
    flight = flown()
    with pytest.raises(FieldInvalid, match=r"taken.*is 7, but 6 records were sent"):
        flight.remove_received(7)
    assert flight.messages == 6


def test_id_is_found_in_the_last_put_that_has_it() -> None:
    flight = flown()
    flight.add(2, 5, 10, now_ms=30)
    found = flight.with_id(3)
    assert found is not None
    assert (found.first_id, found.at_ms, found.ids) == (2, 30, range(2, 7))
    assert flight.with_id(8) is None
