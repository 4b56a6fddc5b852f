"""Tests of the ends of leases: the kinds of settles, permissions, and counters."""

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import FLAG_NOT_PERSISTENT
from tests.qmgrd.core.audit import audit
from tests.qmgrd.core.harness import AnyStore, Client, Delivery
from tests.qmgrd.core.unit_of_work import UnitOfWork, bodies, note_of, settle

LOST = [ErrorCode.LEASE_LOST]
LEASE_MS = 10_000


@pytest.fixture
def held(app: Client) -> Delivery:
    """A message that app has leased for LEASE_MS."""
    app.put("Q", b"x")
    (found,) = app.get("Q", lease_ms=LEASE_MS)
    return found


def is_leased(app: Client) -> bool:
    return bool(app.show("Q")["leased"])


# -- renew


def test_renewed_lease_lasts_as_long_again_from_now_on(app: Client, held: Delivery) -> None:
    app.manager.turn(LEASE_MS - 1)
    assert settle(app, m.RENEW, held) == []
    app.manager.turn(LEASE_MS - 1)
    assert is_leased(app)
    app.manager.turn(1)
    assert not is_leased(app)
    assert [x.failed for x in app.get("Q")] == [1]


@pytest.mark.parametrize("lease_ms", [LEASE_MS // 2, 3 * LEASE_MS])
def test_lease_is_renewed_for_another_length(app: Client, held: Delivery, lease_ms: int) -> None:
    app.manager.turn(LEASE_MS // 4)
    assert settle(app, m.RENEW, held, lease_ms=lease_ms) == []
    assert settle(app, m.RENEW, held) == []  # The lease has the duration of the last renewal.
    app.manager.turn(lease_ms - 1)
    assert is_leased(app)
    app.manager.turn(1)
    assert not is_leased(app)


def test_leases_of_one_length_end_in_the_order_of_their_renewals(app: Client) -> None:
    app.put("Q", b"1", b"2", b"3")
    first, second, third = app.get("Q", 3, lease_ms=LEASE_MS)
    app.manager.turn(4_000)
    settle(app, m.RENEW, first)
    app.manager.turn(4_000)
    settle(app, m.RENEW, third, lease_ms=LEASE_MS)
    held = []
    for _ in range(3):
        app.manager.turn(4_000)
        held.append({x.body for x in app.browse("Q") if x.state & m.STATE_LEASED})
    assert held == [{b"1", b"3"}, {b"3"}, set()]
    assert second.body == b"2"


def test_lease_that_is_over_is_not_renewed(app: Client, held: Delivery) -> None:
    app.manager.turn(LEASE_MS)
    assert settle(app, m.RENEW, held) == LOST
    (again,) = app.get("Q")
    assert settle(app, m.RENEW, held) == LOST
    assert app.ack(again) == []


def test_renewal_requires_a_handle(app: Client, held: Delivery) -> None:
    other = app.manager.connect("other")
    assert settle(other, m.RENEW, held._replace(number=held.number + 1)) == LOST
    app.manager.turn(LEASE_MS)
    assert not is_leased(app)


def test_lease_renewed_for_another_length_stays_with_its_connection(
    app: Client, held: Delivery
) -> None:
    assert settle(app, m.RENEW, held, lease_ms=20_000) == []
    app.manager.turn(LEASE_MS + 1)
    assert is_leased(app)
    app.hang_up()
    app.manager.rest()
    assert not is_leased(app.manager.connect())


def test_only_the_holder_renews_a_lease(app: Client, held: Delivery) -> None:
    """The same session cannot renew a lease on a new connection: old leases have ended."""
    other = app.manager.connect("other")
    for lease_ms in (0, 20_000):
        assert settle(other, m.RENEW, held, lease_ms=lease_ms) == LOST
    again = app.manager.connect("app", session=app.session)
    assert settle(again, m.RENEW, held, lease_ms=20_000) == LOST
    app.manager.rest()
    assert not is_leased(other)


# -- released and returned


@pytest.mark.parametrize(
    ("action", "delivered", "failed"),
    [(m.RELEASE, 1, 1), (m.RETURN, 1, 0), (m.UNREAD, 0, 0)],
    ids=["release", "return", "unread"],
)
def test_deliveries_and_failures_are_counted_apart(
    store: AnyStore, app: Client, held: Delivery, action: int, delivered: int, failed: int
) -> None:
    assert settle(app, action, held) == []
    for again in ("now", "crash", "restart"):
        getattr(app.manager, again)()
        (found,) = app.manager.connect().browse("Q")
        assert (found.delivered, found.failed) == (delivered, failed)
        assert bool(found.state & m.STATE_REDELIVERED) is bool(delivered)


@pytest.mark.parametrize("action", [m.RELEASE, m.RETURN, m.UNREAD])
def test_delay_that_is_asked_for_is_kept_to_the_millisecond(
    store: AnyStore, app: Client, held: Delivery, action: int
) -> None:
    app.ask(m.QueueAlter, "Q", {"retry_initial_ms": 60_000})
    assert settle(app, action, held, delay_ms=5_000) == []
    shown = app.show("Q")
    assert (shown["depth"], shown["delayed"]) == (0, 1)
    app.manager.turn(4_990)
    assert app.get("Q") == []
    audit(app.manager)
    app.manager.turn(10)
    assert bodies(app.get("Q")) == [b"x"]


@pytest.mark.parametrize("action", [m.RELEASE, m.RETURN, m.UNREAD])
def test_explicit_zero_delay_overrides_the_queue(app: Client, held: Delivery, action: int) -> None:
    app.ask(m.QueueAlter, "Q", {"retry_initial_ms": 60_000})
    assert settle(app, action, held, delay_ms=0) == []
    assert bodies(app.get("Q")) == [b"x"]


@pytest.mark.parametrize("action", [m.RELEASE, m.RETURN, m.UNREAD])
def test_what_came_back_before_is_given_back_without_harm(
    app: Client, held: Delivery, action: int
) -> None:
    assert settle(app, action, held) == []
    assert settle(app, action, held) == []
    (found,) = app.browse("Q")
    assert found.delivered <= 1


def test_end_of_a_lease_is_a_failure(app: Client, held: Delivery) -> None:
    app.manager.turn(LEASE_MS - 1)
    assert app.get("Q") == []
    app.manager.turn(1)
    (found,) = app.get("Q")
    assert (found.delivered, found.failed) == (1, 1)
    ((_, code, *_),) = note_of(found)["attempts"]
    assert code == ErrorCode.LEASE_LOST


def test_lost_connection_is_a_delivery_and_no_failure_at_once(app: Client, held: Delivery) -> None:
    app.ask(m.QueueAlter, "Q", {"retry_initial_ms": 60_000})
    app.hang_up()
    app.manager.rest()
    (found,) = app.manager.connect("other").get("Q")
    assert (found.delivered, found.failed) == (1, 0)
    assert note_of(found) == {}


def test_ack_of_what_waits_to_be_tried_again_settles_it(app: Client) -> None:
    """The consumer reports that its work is done, so the message must not be delivered again."""
    app.ask(m.QueueAlter, "Q", {"retry_initial_ms": 60_000})
    app.put("Q", b"x", bytes(9_000))
    found = app.get("Q", 2, lease_ms=LEASE_MS)
    app.manager.turn(LEASE_MS)
    assert app.show("Q")["delayed"] == 2
    assert app.ack(*found) == []
    shown = app.show("Q")
    assert (shown["delayed"], shown["acked"]) == (0, 2)
    audit(app.manager)
    app.manager.turn(100_000)
    assert app.get("Q") == []


def test_handle_of_another_lease_settles_nothing_that_waits(app: Client, held: Delivery) -> None:
    settle(app, m.RELEASE, held, delay_ms=60_000)
    assert app.ack(held._replace(number=held.number ^ 1 << 60)) == LOST
    assert app.show("Q")["delayed"] == 1


def test_late_ack_of_what_a_restart_took_counts_nothing(app: Client) -> None:
    app.put("Q", b"x", flags=FLAG_NOT_PERSISTENT)
    (found,) = app.get("Q")
    manager = app.manager
    manager.crash()
    again = manager.connect()
    again.send(m.Settle(1, m.ACK, found.queue_id, found.handle))
    manager.turn()
    shown = again.show("Q")
    assert (shown["lost"], shown["acked"]) == (1, 0)
    manager.rest()


# -- rejected


def test_rejected_message_is_a_dead_letter_with_the_reason(
    store: AnyStore, app: Client, held: Delivery
) -> None:
    assert settle(app, m.REJECT, held, reason="malformed", text="no such airport: XQX") == []
    app.manager.crash()
    again = app.manager.connect()
    assert again.bodies("Q") == []
    (dead,) = again.get("SYSTEM.DEAD.LETTERS")
    note = note_of(dead)
    assert note["code"] == ErrorCode.MESSAGE_REJECTED
    assert (note["reason"], note["text"]) == ("malformed", "no such airport: XQX")
    assert (note["queue"], note["manager"]) == ("Q", "QM1")
    assert (note["delivered"], note["failed"]) == (1, 1)
    assert (dead.body, dead.delivered, dead.failed) == (b"x", 0, 0)


def test_message_is_rejected_once(app: Client, held: Delivery) -> None:
    assert settle(app, m.REJECT, held) == []
    assert settle(app, m.REJECT, held) == LOST
    assert app.show("SYSTEM.DEAD.LETTERS")["depth"] == 1


# -- many at once


@pytest.mark.parametrize(
    ("action", "left", "dead"),
    [
        (m.ACK, 0, 0),
        (m.RELEASE, 200, 0),
        (m.RETURN, 200, 0),
        (m.UNREAD, 200, 0),
        (m.REJECT, 0, 200),
        (m.RENEW, 200, 0),
    ],
)
def test_long_settle_is_done_in_parts_and_names_what_could_not_be(
    app: Client, action: int, left: int, dead: int
) -> None:
    app.put("Q", *[b"%d" % number for number in range(201)])
    found = app.get("Q", 201)
    lost = found[150]._replace(number=found[150].number + 1)
    settle_id = app.next_id()
    handles = b"".join(x.handle for x in (*found[:150], lost, *found[151:]))
    app.send(m.Settle(settle_id, action, lost.queue_id, handles))
    answer = app._wait(lambda x: type(x) is m.Settled)
    assert isinstance(answer, m.Settled)
    assert answer.exceptions == [[settle_id, 150, ErrorCode.LEASE_LOST]]
    assert app.show("Q")["depth"] == left + 1
    assert app.show("SYSTEM.DEAD.LETTERS")["depth"] == dead
    leased = app.show("Q")["leased"]
    assert leased == (201 if action == m.RENEW else 1)


def test_long_settle_is_part_of_a_unit(app: Client) -> None:
    app.put("Q", *[b"%d" % number for number in range(200)])
    unit = UnitOfWork(app)
    found = app.get("Q", 200)
    assert unit.take(*found) == []
    assert app.show("Q")["leased"] == 200
    assert unit.commit() == []
    assert app.show("Q")["depth"] == 0


@pytest.mark.parametrize(
    ("action", "codes"), [(m.ACK, []), (m.RELEASE, []), (m.REJECT, []), (m.RENEW, LOST)]
)
def test_settling_on_a_deleted_queue_is_as_for_a_message_that_is_gone(
    app: Client, held: Delivery, action: int, codes: list[ErrorCode]
) -> None:
    app.ask(m.QueueDelete, "Q", True)
    assert settle(app, action, held) == codes
    assert app.manager.rest() < 10


@pytest.mark.parametrize("number", [1, 77])
def test_unit_of_work_takes_nothing_from_a_deleted_queue(
    app: Client, held: Delivery, number: int
) -> None:
    """The daemon may know the unit already. Otherwise, only the commit could refuse the message."""
    unit = UnitOfWork(app)
    app.ask(m.QueueDelete, "Q", True)
    assert settle(app, m.ACK, held, held, unit=number) == LOST * 2
    assert unit.commit() == []


def test_uid_is_remembered_after_any_kind_of_consumption(app: Client) -> None:
    """The message may be plain, indexed, in a unit, or acknowledged late."""
    app.ask(m.QueueAlter, "Q", {"dedup_retention_ms": 60_000})
    app.put("Q", b"plain")
    app.put("Q", b"indexed", correlation_id=b"c")
    app.put("Q", b"unit")
    app.put("Q", b"late")
    found = app.get("Q", 4, lease_ms=LEASE_MS)
    unit = UnitOfWork(app)
    unit.take(found[2])
    assert app.ack(found[0], found[1]) == []
    unit.commit()
    app.manager.turn(LEASE_MS)
    assert app.ack(found[3]) == []
    refused = app.put_records("Q", *(x.record for x in found))
    assert [x.code for x in refused] == [ErrorCode.DUPLICATE_MESSAGE] * 4
    app.manager.turn(60_000)
    assert not app.put_records("Q", *(x.record for x in found))
