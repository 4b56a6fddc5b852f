"""Tests of leases that start later: until the first renewal, no application sees the message."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.group_player import GroupPlayer
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import Client, Delivery
from tests.qmgrd.core.unit_of_work import note_of, settle

LEASE_MS = 10_000
CONSUMER = 900


def consuming(app: Client, *bodies: bytes, order: int = m.PHYSICAL) -> list[Delivery]:
    """Puts *bodies*, and sends them to a consumer that reports the start of each lease."""
    if bodies:
        app.put("Q", *bodies)
    app.send(m.Consume(CONSUMER, "Q", 100, 1 << 20, LEASE_MS, order=order, start_later=True))
    app.answer(CONSUMER)
    return app.delivered()


def counts(app: Client) -> list[tuple[int, int]]:
    return [(found.delivered, found.failed) for found in app.browse("Q")]


@pytest.fixture
def worker(app: Client) -> Client:
    return app.manager.connect("worker")


def test_lease_that_was_never_started_ends_as_if_nothing_had_been_delivered(
    app: Client, worker: Client
) -> None:
    app.ask(m.QueueAlter, "Q", {"backout_threshold": 1, "delivery_limit": 1})
    consuming(worker, b"1", b"2", b"3")
    app.manager.turn(LEASE_MS - 1)
    assert app.show("Q")["leased"] == 3
    worker.send(m.Cancel(CONSUMER))
    app.manager.turn(1)
    assert counts(app) == [(0, 0)] * 3
    assert app.show("Q")["leased"] == 0
    audit(app.manager)


def test_first_renewal_starts_a_lease_which_then_ends_as_any(app: Client, worker: Client) -> None:
    first, _ = consuming(worker, b"1", b"2")
    app.manager.turn(LEASE_MS - 1)
    assert settle(worker, m.RENEW, first) == []
    worker.send(m.Cancel(CONSUMER))
    app.manager.turn(LEASE_MS - 1)
    assert counts(app) == [(0, 0), (0, 0)]
    assert app.show("Q")["leased"] == 1
    app.manager.turn(1)
    assert counts(app) == [(1, 1), (0, 0)]


@pytest.mark.parametrize(
    ("started", "expected"),
    [
        ([], [(0, 0), (0, 0), (0, 0)]),
        ([0], [(1, 0), (0, 0), (0, 0)]),
        ([0, 2], [(1, 0), (0, 0), (1, 0)]),
        ([0, 1, 2], [(1, 0), (1, 0), (1, 0)]),
    ],
)
def test_lost_connection_counts_what_was_started(
    app: Client, worker: Client, started: list[int], expected: list[tuple[int, int]]
) -> None:
    found = consuming(worker, b"1", b"2", b"3")
    for index in started:
        assert settle(worker, m.RENEW, found[index]) == []
    worker.hang_up()
    app.manager.rest()
    assert counts(app) == expected


@pytest.mark.parametrize("action", [m.ACK, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT])
def test_unstarted_lease_is_settled_like_any_other(
    app: Client, worker: Client, action: int
) -> None:
    (found,) = consuming(worker, b"x")
    assert settle(worker, action, found) == []
    app.manager.rest()
    # The message is delivered again.
    assert app.show("Q")["leased"] == (action not in (m.ACK, m.REJECT))


def test_unstarted_lease_may_join_a_unit(app: Client, worker: Client) -> None:
    first, _ = consuming(worker, b"1", b"2")
    worker.ask(m.UnitBegin, 1)
    assert settle(worker, m.ACK, first, unit=1) == []
    app.manager.turn(2 * LEASE_MS)
    worker.hang_up()
    app.manager.rest()
    # One message was backed out, and the application never saw the other one.
    assert counts(app) == [(1, 1), (0, 0)]


def test_unseen_members_of_a_group_return_uncounted() -> None:
    """The last message returns first. Otherwise, the first would return the others as delivered."""
    player = GroupPlayer()
    player("put A1 A2 A3!")
    worker = player.operator.manager.connect("worker")
    assert len(consuming(worker, order=m.PINNED)) == 3
    worker.hang_up()
    player.operator.manager.rest()
    assert counts(player.operator) == [(0, 0), (0, 0), (0, 0)]


def test_note_records_the_end_of_a_started_lease(app: Client, worker: Client) -> None:
    (found,) = consuming(worker, b"x")
    settle(worker, m.RENEW, found)
    worker.send(m.Cancel(CONSUMER))
    app.manager.turn(LEASE_MS)
    (again,) = app.get("Q")
    assert [attempt[1] for attempt in note_of(again)["attempts"]] == [ErrorCode.LEASE_LOST]
