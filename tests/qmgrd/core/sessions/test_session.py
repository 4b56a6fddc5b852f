"""Tests of the state that the daemon keeps for a connection."""

from qmgr_protocol import messages as m
from qmgr_protocol.window import Inbox
from qmgrd.core.context.producer import Producer
from qmgrd.core.queue.lease import Consumer, Lease
from qmgrd.core.sessions.session import Session
from tests.qmgrd.core.harness import Client, numbers


def consumer(app: Client, session: Session, request_id: int, lease_ms: int) -> Consumer:
    lessee = session.lessee(app.manager.queue("Q"), lease_ms)
    return Consumer(1, request_id, lessee, 1, 1)


def test_streams_are_numbered_from_one_and_never_again() -> None:
    session = Session(1, "app", b"", numbers())
    first, second = (Producer(bytes([i]) * 16, Inbox(10)) for i in range(2))
    assert session.add_stream(first) == 1
    session.streams.clear()
    assert session.add_stream(second) == 2
    assert session.streams == {2: second}


def test_consumers_of_one_queue_and_lease_share_a_lessee(app: Client) -> None:
    session = Session(1, "app", b"", numbers())
    a, b, c = (consumer(app, session, i, ms) for i, ms in ((1, 100), (2, 100), (3, 200)))
    for each in (a, b, c):
        session.add_consumer(each)
    assert a.lessee is b.lessee is not c.lessee
    assert set(session.consumers) == {1, 2, 3}


def test_lessees_without_leases_are_dropped_unless_in_use(app: Client) -> None:
    """A client may request a different lease time in each get."""
    session = Session(1, "app", b"", numbers())
    waiting = consumer(app, session, 1, 10**6)
    holding = consumer(app, session, 2, 10**6 + 1)
    session.add_consumer(waiting)
    session.add_consumer(holding)
    del session.consumers[2]
    lessee = holding.lessee
    lessee.leases[1] = Lease(1, lessee, 0, 4, 1, 10, b"", b"", False)
    for lease_ms in range(100, 1_100):
        session.add_consumer(consumer(app, session, 3, lease_ms))
        del session.consumers[3]
    assert len(session.lessees) < 200
    assert session.lessees[waiting.queue.id, 10**6, True] is waiting.lessee
    assert session.lessees[waiting.queue.id, 10**6 + 1, True] is lessee


def test_settles_are_answered_once() -> None:
    session = Session(1, "app", b"", numbers())
    assert session.settled() is None
    session.settled_id, session.exceptions = 7, [[7, 0, 500]]
    assert session.settled() == m.Settled(7, [[7, 0, 500]])
    assert session.settled() is None
