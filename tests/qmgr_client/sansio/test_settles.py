"""Tests that each ack or release has exactly one result, wherever the connection is cut."""

import pytest

from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import Home, Message, decode
from qmgr_client.sansio.settles import Settles, SettleTerms
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from qmgr_protocol.field import ID_END
from qmgr_protocol.record import DELAY_MAX_MS
from tests.qmgr_client.scripted import STORE, Scripted, delivery

HOME = Home(STORE, 1)


def leased(arrival: int = 1, queue_id: int = 3, home: Home = HOME) -> Message:
    return decode(delivery(arrival=arrival, lease=100 + arrival), "Q", queue_id, home)


def handles(*arrivals: int) -> bytes:
    return b"".join(m.HANDLE.pack(4, arrival, 100 + arrival) for arrival in arrivals)


def ack(pair: Scripted, *arrivals: int) -> list[int]:
    return [pair.core.settle(leased(arrival), m.ACK) for arrival in arrivals]


def test_ack_is_done_when_it_is_answered() -> None:
    pair = Scripted().connect()
    (ticket,) = ack(pair, 1)
    assert pair.hear(m.Settle) == m.Settle(1, m.ACK, 3, handles(1))
    assert ticket not in pair.done
    pair.say(m.Settled(1))
    assert pair.done[ticket] is None


def test_acks_that_wait_together_go_together() -> None:
    pair = Scripted().connect()
    ack(pair, 1, 2)
    pair.core.settle(leased(3), m.RELEASE)
    pair.core.settle(leased(4, queue_id=5), m.RELEASE)
    assert pair.hear_all(m.Settle) == [
        m.Settle(1, m.ACK, 3, handles(1, 2)),
        m.Settle(2, m.RELEASE, 3, handles(3)),
        m.Settle(3, m.RELEASE, 5, handles(4)),
    ]


def test_frame_of_handles_is_bounded() -> None:
    pair = Scripted().connect()
    ack(pair, *range(1, 1_502))
    sizes = [len(settle.handles) // m.HANDLE.size for settle in pair.hear_all(m.Settle)]
    assert sizes == [1_000, 501]


def test_without_coalescing_a_frame_holds_one_handle() -> None:
    pair = Scripted(coalesce=False).connect()
    ack(pair, 1, 2)
    assert [settle.handles for settle in pair.hear_all(m.Settle)] == [handles(1), handles(2)]


def test_answer_is_cumulative_and_names_exceptions() -> None:
    pair = Scripted(coalesce=False).connect()
    first, second, third = ack(pair, 1, 2, 3)
    pair.pump()
    pair.say(m.Settled(2, [[2, 0, ErrorCode.LEASE_LOST]]))
    assert pair.done[first] is None
    assert pair.done[second].code == ErrorCode.LEASE_LOST
    assert third not in pair.done


def test_exception_names_one_of_a_batch() -> None:
    pair = Scripted().connect()
    first, second = ack(pair, 1, 2)
    pair.pump()
    pair.say(m.Settled(1, [[1, 1, 999]]))
    assert pair.done[first] is None
    assert pair.done[second].code == 999


def test_frames_count_against_the_request_window() -> None:
    pair = Scripted(coalesce=False, request_window=2).connect()
    ack(pair, 1, 2, 3)
    assert len(pair.hear_all(m.Settle)) == 2
    pair.say(m.Settled(1))
    assert len(pair.hear_all(m.Settle)) == 1


def test_cut_before_the_ack_is_sent() -> None:
    pair = Scripted().connect()
    (ticket,) = ack(pair, 1)
    pair.cut().connect()
    assert pair.hear(m.Settle).settle_id == 1
    pair.say(m.Settled(1))
    assert pair.done[ticket] is None


def test_cut_after_the_ack_is_sent() -> None:
    pair = Scripted().connect()
    first, second = ack(pair, 1, 2)
    pair.hear(m.Settle)
    (third,) = ack(pair, 3)
    pair.cut().connect()
    assert pair.hear(m.Settle) == m.Settle(1, m.ACK, 3, handles(1, 2, 3)), (
        "in the order of the acks"
    )
    pair.say(m.Settled(1, [[1, 1, ErrorCode.LEASE_LOST]]))
    assert pair.done[first] is pair.done[third] is None
    assert pair.done[second].code == ErrorCode.LEASE_LOST


def test_acks_go_before_puts_and_puts_before_what_brings_messages() -> None:
    pair = Scripted()
    pair.put()
    pair.opened()
    pair.core.consume("Q", 10)
    ack(pair, 1)
    pair.core.request(0, m.Get, "Q")
    pair.core.request(0, m.Status)
    pair.pump()
    pair.cut().connect()
    assert [type(x) for x in pair.pump()] == [m.Settle, m.ProducerOpen, m.Status]
    pair.answer_open(0)
    kinds = [type(x) for x in pair.pump()]
    assert kinds == [m.Settle, m.Status, m.Put, m.Get, m.Consume]


def test_lease_of_another_store_is_not_settled() -> None:
    pair = Scripted().connect()
    first, second = ack(pair, 1, 2)
    pair.hear(m.Settle)
    pair.cut().connect(store_id=b"t" * 16)
    assert pair.hear_all(m.Settle) == []
    assert pair.done[first].code == pair.done[second].code == ErrorCode.LEASE_LOST
    (late,) = ack(pair, 3)
    assert pair.hear_all(m.Settle) == []
    assert pair.done[late].code == ErrorCode.LEASE_LOST


def test_lease_of_a_later_boot_is_not_settled_in_an_older_state() -> None:
    pair = Scripted().connect(boot=5)
    ticket = pair.core.settle(leased(home=Home(STORE, 5)), m.ACK)
    pair.cut().connect(boot=3)
    assert pair.hear_all(m.Settle) == []
    assert pair.done[ticket].code == ErrorCode.LEASE_LOST


def test_ack_survives_a_restart_of_the_queue_manager() -> None:
    pair = Scripted().connect(boot=5)
    ticket = pair.core.settle(leased(home=Home(STORE, 5)), m.ACK)
    pair.cut().connect(boot=6).pump()
    pair.say(m.Settled(1))
    assert pair.done[ticket] is None


def test_end_names_what_was_sent_and_what_was_not() -> None:
    pair = Scripted(request_window=1, coalesce=False).connect()
    sent, waiting = ack(pair, 1, 2)
    pair.pump()
    pair.say(m.Goaway(ErrorCode.NOT_AUTHORIZED, "no"))
    assert pair.done[sent].error_class is ErrorClass.UNKNOWN_OUTCOME
    assert pair.done[waiting].error_class is ErrorClass.NEVER
    with pytest.raises(ConnectionEnded):
        ack(pair, 3)


def test_ids_restart_when_they_are_used_up_and_all_are_answered() -> None:
    pair = Scripted(coalesce=False).connect()
    settles: Settles = pair.core._settles
    settles._next_id = ID_END - 1
    first, second = ack(pair, 1, 2)
    assert [settle.settle_id for settle in pair.hear_all(m.Settle)] == [ID_END - 1]
    pair.say(m.Settled(ID_END - 1))
    assert pair.done[first] is None
    assert pair.hear(m.Settle).settle_id == 1
    pair.say(m.Settled(1))
    assert pair.done[second] is None


def test_terms_of_a_release_are_sent_in_separate_frames() -> None:
    pair = Scripted().connect()
    terms = SettleTerms(5_000, 0, "BUSY", "the printer is off")
    pair.core.settle(leased(1), m.RELEASE)
    pair.core.settle(leased(2), m.RELEASE, terms)
    pair.core.settle(leased(3), m.RELEASE, SettleTerms(5_000, 0, "BUSY", "the printer is off"))
    pair.core.settle(leased(4), m.REJECT, terms)
    assert pair.hear_all(m.Settle) == [
        m.Settle(1, m.RELEASE, 3, handles(1)),
        m.Settle(2, m.RELEASE, 3, handles(2, 3), 0, *terms),
        m.Settle(3, m.REJECT, 3, handles(4), 0, *terms),
    ]


def test_release_is_sent_again_with_its_terms() -> None:
    pair = Scripted().connect()
    pair.core.settle(leased(1), m.RETURN, SettleTerms(delay_ms=7))
    first = pair.hear(m.Settle)
    pair.cut().connect()
    assert pair.hear(m.Settle) == first


@pytest.mark.parametrize(
    "terms",
    [
        SettleTerms(delay_ms=-2),
        SettleTerms(delay_ms=DELAY_MAX_MS + 1),
        SettleTerms(reason="x" * 65),
        SettleTerms(text="x" * 1_001),
        SettleTerms(lease_ms=m.LEASE_MAX_MS + 1),
    ],
)
def test_terms_beyond_their_limits_are_refused(terms: SettleTerms) -> None:
    pair = Scripted().connect()
    with pytest.raises(RequestError) as caught:
        pair.core.settle(leased(), m.RELEASE, terms)
    assert caught.value.code == ErrorCode.VALUE_INVALID
    assert pair.core.outstanding == 0


def test_renewal_ends_with_its_connection() -> None:
    """On the next connection, the message is not leased and cannot be renewed."""
    pair = Scripted().connect()
    sent = pair.core.renew(leased(1), 60_000, 0)
    settle = pair.hear(m.Settle)
    assert (settle.action, settle.lease_ms) == (m.RENEW, 60_000)
    waiting = pair.core.renew(leased(2), 0, 0)
    (kept,) = ack(pair, 3)
    pair.cut()
    for ticket in (sent, waiting):
        assert pair.done[ticket].code == ErrorCode.LEASE_LOST
    pair.connect()
    assert pair.hear(m.Settle).handles == handles(3)
    assert kept not in pair.done
