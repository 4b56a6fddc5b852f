"""The waiting arrivals of one connection."""

from qmgr_protocol import messages as m
from qmgrd.core.arrivals.arrival import Arrival, ConnectionArrivals
from qmgrd.core.sessions.request_part import PartLimits, parts_of

EVENT = Arrival(None, lambda broker: None, 0)
PUT = Arrival(m.Put(1, 1, 0, "Q", [b"record"]), None, 30)
STATUS = Arrival(m.Status(1), None, 7)
SETTLE = Arrival(m.Settle(2, m.ACK, 1, b""), None, 9)


def waiting(*arrivals: Arrival) -> ConnectionArrivals:
    found = ConnectionArrivals(1)
    found.arrivals.extend(arrivals)
    found.bytes = sum(x.size_bytes for x in arrivals)
    found.put_messages, found.put_bytes, found.messages = 1, 30, 2
    return found


def test_only_reads_are_dropped() -> None:
    found = waiting(STATUS, PUT, EVENT, SETTLE, STATUS)
    assert found.drop_reads() == 14
    assert list(found.arrivals) == [PUT, EVENT, SETTLE]
    assert found.bytes == 39


def test_all_requests_are_dropped_but_no_event() -> None:
    found = waiting(STATUS, PUT, EVENT, SETTLE)
    assert found.drop_requests() == 46
    assert list(found.arrivals) == [EVENT]
    assert (found.bytes, found.messages, found.put_messages, found.put_bytes) == (0, 0, 0, 0)


def test_parts_of_a_settle_request_count_once() -> None:
    whole = m.Settle(1, m.ACK, 1, bytes(m.HANDLE.size * 5))
    found, counted = ConnectionArrivals(1), []
    for part, _ in parts_of(whole, 90, PartLimits(handles=2)):
        found.count(part, 1)
        counted.append(found.messages)
    assert counted == [0, 0, 1]
    found.count(whole, -1)
    assert found.messages == 0


def test_pieces_are_counted_apart() -> None:
    found = ConnectionArrivals(1)
    found.count(m.Piece(1, 100_000, 0, bytes(68_000)), 1)
    assert (found.messages, found.pieces) == (0, 1)
    found.drop_requests()
    assert found.pieces == 0
