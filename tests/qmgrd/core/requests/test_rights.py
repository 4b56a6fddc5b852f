"""Each request needs rights on the objects that its fields name."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import EACH, Kind, Need, Right
from qmgr_protocol.transitions import FROM_DIALLER
from qmgrd.core.requests.rights import CHECKED, FREQUENT, NEEDS
from qmgrd.core.sessions.request_part import SettlePart
from tests.qmgrd.core.guarded import Guarded
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.core.unit_of_work import UnitOfWork, settle

HEARTBEATS = {m.Ping, m.Pong, m.TokenRenew}  # answered by the connection itself
ANSWERS = {m.Ok, m.Error, m.Committed, m.Blocked}  # Either end of a link may send these requests.
PIECES = {m.Piece}  # The put that names the body needs the rights.
REQUESTS = FROM_DIALLER - HEARTBEATS - ANSWERS - PIECES | {SettlePart}


def test_table_has_each_request_and_nothing_else() -> None:
    assert set(NEEDS) == REQUESTS


@pytest.mark.parametrize(
    ("kind", "needs"),
    [
        (m.Put, [Need(Right.PUT, Kind.DESTINATION, "queue")]),
        (m.Get, [Need(Right.GET, Kind.SOURCE, "queue")]),
        (m.Settle, [Need(Right.CONNECT)]),
        (m.Browse, [Need(Right.BROWSE, Kind.SOURCE, "queue")]),
        (m.QueuePurge, [Need(Right.PURGE, Kind.SOURCE, "queue")]),
        (
            m.QueueMove,
            [Need(Right.MOVE, Kind.SOURCE, "queue"), Need(Right.PUT, Kind.DESTINATION, "target")],
        ),
        (m.LinkOpen, [Need(Right.LINK, Kind.PEER)]),
        (m.Status, [Need(Right.SHOW)]),
        (m.QueueList, [Need(Right.SHOW, Kind.SOURCE, EACH)]),
        (m.ConnectionClose, [Need(Right.ADMIN)]),
    ],
)
def test_needs_of_a_request(kind: type, needs: list[Need]) -> None:
    assert list(NEEDS[kind]) == needs


def test_frequent_requests_need_one_right_on_the_name_in_their_field_queue() -> None:
    """Only such a request may be remembered by its kind and that name."""
    for kind in FREQUENT:
        (need,) = CHECKED[kind]
        assert (need.field, need.when, need.or_all) == ("queue", "", False)


def test_only_these_requests_need_no_right() -> None:
    """The tests below show that they reach nothing of another connection."""
    assert {kind for kind, needs in NEEDS.items() if needs == (Need(Right.CONNECT),)} == {
        m.ProducerOpen,
        m.UnitBegin,
        m.UnitCommit,
        m.UnitBackout,
        m.Cancel,
        m.Credit,
        m.Settle,
        SettlePart,
        m.ReaderClose,
        m.GroupNew,
    }


# Requests that need no right


@pytest.fixture
def guarded(manager: Manager, app: Client) -> Guarded:
    """A manager with the queue Q, and with users."""
    return Guarded(manager)


@pytest.fixture
def eve(guarded: Guarded) -> Client:
    """A user without any right."""
    return guarded.user("eve")


@pytest.mark.parametrize("action", [m.ACK, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT, m.RENEW])
def test_settle_does_not_reach_a_message_of_another_connection(
    guarded: Guarded, eve: Client, action: int
) -> None:
    """Not even with the true number of the lease."""
    guarded.owner.put("Q", b"1")
    (found,) = guarded.owner.get("Q")
    before = guarded.manager.queue("Q").leases[found.arrival]
    lost = [ErrorCode.LEASE_LOST] * (action == m.RENEW)  # as on a queue that does not exist
    assert eve.settle(action, found) == lost
    assert guarded.manager.queue("Q").leases[found.arrival] == before
    assert guarded.owner.ack(found) == []


def test_settle_does_not_reach_a_message_that_nobody_has_leased(
    guarded: Guarded, eve: Client
) -> None:
    guarded.owner.put("Q", b"1")
    (found,) = guarded.owner.get("Q")
    guarded.owner.release(found)
    for number in (found.number, 0, found.number + 1):
        assert eve.ack(found._replace(number=number)) == []
    assert guarded.owner.bodies("Q") == [b"1"]


@pytest.mark.parametrize("unit", [0, 5])
@pytest.mark.parametrize("action", [m.ACK, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT, m.RENEW])
def test_settle_without_the_right_to_get_shows_no_messages(
    guarded: Guarded, eve: Client, action: int, unit: int
) -> None:
    """The reply is the same for pending, leased and deleted messages, and for an unknown queue."""
    if unit:
        UnitOfWork(eve, unit)
    guarded.owner.put("Q", b"1", b"2", b"3")
    pending, leased, gone = guarded.owner.get("Q", 3)
    guarded.owner.release(pending)
    guarded.owner.ack(gone)
    nowhere = gone._replace(queue_id=99)
    handles = [x._replace(number=7) for x in (pending, leased, gone, nowhere)]
    answers = [settle(eve, action, handle, unit=unit) for handle in handles]
    assert answers == [answers[0]] * 4


def test_settle_with_the_right_to_get_shows_lost_leases(guarded: Guarded) -> None:
    user = guarded.user("ann", "get queue Q")
    guarded.owner.put("Q", b"1")
    (found,) = guarded.owner.get("Q")
    assert user.ack(found) == [ErrorCode.LEASE_LOST]


def test_consumer_learns_of_a_lost_lease_after_a_revocation(guarded: Guarded) -> None:
    user = guarded.user("ann", "get queue Q")
    guarded.owner.put("Q", b"1")
    (found,) = user.get("Q")
    guarded.revoke("ann", "get queue Q")
    guarded.owner.get("Q")
    assert user.ack(found) == [ErrorCode.LEASE_LOST]


def test_unit_does_not_reach_a_unit_or_a_message_of_another_connection(
    guarded: Guarded, eve: Client
) -> None:
    unit = UnitOfWork(guarded.owner, 5)
    unit.put("Q", b"1")
    guarded.owner.put("Q", b"2")
    (found,) = unit.get("Q")
    assert eve.code_of(m.UnitBackout, 5) == ErrorCode.UNIT_UNKNOWN
    own = UnitOfWork(eve, 5)  # The same number is another unit.
    assert settle(eve, m.ACK, found, unit=5) == [ErrorCode.LEASE_LOST]
    assert own.commit() == []
    assert unit.commit() == []
    assert guarded.owner.bodies("Q") == [b"1"]


def test_credit_and_cancel_do_not_reach_a_consumer_of_another_connection(
    guarded: Guarded, eve: Client
) -> None:
    request_id = guarded.owner.consume("Q", messages=1)
    guarded.owner.put("Q", b"1", b"2")
    assert eve.say(m.Credit(request_id, 10, 1_000), m.Cancel(request_id)) == []
    assert [x.body for x in guarded.owner.delivered()] == [b"1"]
    guarded.owner.say(m.Credit(request_id, 10, 1_000))
    assert len(guarded.manager.queue("Q").leases) == 2


def test_closing_a_reader_does_not_reach_a_reader_of_another_connection(
    guarded: Guarded, eve: Client
) -> None:
    guarded.owner.say(m.Get(guarded.owner.next_id(), "Q", 1, 0, order=m.LOGICAL, reader=3))
    eve.ask(m.ReaderClose, 3)
    sessions = guarded.manager.turns.broker.sessions.values()
    assert [list(x.readers) for x in sessions if x.name == "owner"] == [[3]]


def test_new_group_is_one_that_nobody_has(guarded: Guarded, eve: Client) -> None:
    assert eve.ask(m.GroupNew) != guarded.owner.ask(m.GroupNew)


def test_producer_stores_nothing_without_the_right_to_put(guarded: Guarded, eve: Client) -> None:
    assert [x.code for x in eve.put_records("Q", record(b"1"))] == [ErrorCode.QUEUE_UNKNOWN]
    unit = UnitOfWork(eve)
    with pytest.raises(RequestError):
        unit.put("Q", b"1")
    assert unit.commit() == []
    assert guarded.owner.bodies("Q") == []
