"""Tests of consumers: credit, lost connections and ends of leases."""

import pytest

from qmgr_client.message import Message
from qmgr_client.sansio.active_leases import START_AFTER_MS, START_EARLY_EVERY_MS
from qmgr_client.sansio.consumer import MARGIN_MS
from qmgr_client.sansio.events import ConsumerEnded, Delivered
from qmgr_client.sansio.read_ahead import FIRST_MESSAGES, SLOW_MS
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.scripted import Scripted, delivery

LEASE_MS = 30_000


def is_renewal(message: m.Message) -> bool:
    return isinstance(message, m.Settle) and message.action == m.RENEW


class Consuming:
    """A scripted pair with one consumer, which has a prefetch of 8."""

    def __init__(
        self, prefetch: int = 8, bytes_max: int = 1_000_000, *, auto_renew: bool = False
    ) -> None:
        self.pair = Scripted().connect()
        self.ticket = self.pair.core.consume("Q", prefetch, bytes_max, auto_renew=auto_renew)
        self.arrival = 0
        self.opening = self.answer()

    def answer(self) -> m.Consume:
        opening = self.pair.hear(m.Consume)
        self.pair.say(m.Ok(opening.request_id, [3, LEASE_MS]))
        self.request_id = opening.request_id
        return opening

    def deliver(self, count: int, body: bytes = b"x") -> None:
        numbers = range(self.arrival + 1, self.arrival + count + 1)
        self.arrival += count
        items = [delivery(body, number, 100 + number) for number in numbers]
        self.pair.say(m.Deliver(self.request_id, 3, items))

    def take(self, count: int = 1) -> list[Message]:
        found = [self.pair.core.next_message(self.ticket, self.pair.now_ms) for _ in range(count)]
        return [message for message in found if message is not None]

    def ack(self, messages: list[Message]) -> None:
        for message in messages:
            self.pair.core.settle(message, m.ACK)

    def wait(self, ms: int) -> None:
        """Lets time pass, while the queue manager still sends heartbeats."""
        pair = self.pair
        pair.say(m.Pong())
        pair.now_ms += ms
        pair.core.poll(pair.now_ms)

    def settles(self) -> list[m.Settle]:
        """Returns the settles that are not renewals."""
        return [x for x in self.pair.hear_all(m.Settle) if not is_renewal(x)]

    def renewed(self) -> list[int]:
        """Returns the arrival numbers of messages whose leases were renewed."""
        settles = [x for x in self.pair.hear_all(m.Settle) if x.action == m.RENEW]
        return [place[1] for x in settles for place in m.HANDLE.iter_unpack(x.handles)]

    def credits(self) -> list[int]:
        return [credit.messages for credit in self.pair.hear_all(m.Credit)]


def test_consumer_opens_with_all_its_credit() -> None:
    consuming = Consuming()
    assert consuming.opening[1:] == m.Consume(1, "Q", 8, 1_000_000, start_later=True)[1:]


def test_messages_come_in_their_order() -> None:
    consuming = Consuming()
    consuming.deliver(3)
    assert consuming.pair.latest(Delivered).ticket == consuming.ticket
    found = consuming.take(5)
    assert [message.uid.timestamp for message in found if message.uid] == [1, 2, 3]
    assert found[0].consumer == consuming.ticket
    assert found[0].queue == "Q"


def test_credit_comes_back_when_half_of_it_is_free() -> None:
    consuming = Consuming()
    consuming.deliver(8)
    messages = consuming.take(8)
    assert consuming.credits() == []
    consuming.ack(messages[:3])
    assert consuming.credits() == []
    consuming.ack(messages[3:4])
    assert consuming.credits() == [4]
    consuming.ack(messages[4:])
    assert consuming.credits() == [4]


def test_settling_twice_frees_once() -> None:
    consuming = Consuming()
    consuming.deliver(4)
    messages = consuming.take(4)
    for _ in range(4):
        consuming.ack(messages[:1])
    assert consuming.credits() == []


def test_credit_follows_the_settles_that_free_it() -> None:
    consuming = Consuming()
    consuming.deliver(8)
    consuming.ack(consuming.take(8))
    found = [message for message in consuming.pair.pump() if not is_renewal(message)]
    assert [type(message) for message in found] == [m.Settle, m.Credit]


def test_prefetch_of_one_is_one_at_a_time() -> None:
    consuming = Consuming(prefetch=1)
    for _ in range(3):
        consuming.deliver(1)
        consuming.ack(consuming.take())
        assert consuming.credits() == [1]


def test_credit_in_bytes_is_kept() -> None:
    consuming = Consuming(prefetch=1_000, bytes_max=1_000)
    consuming.deliver(1, b"." * 1_500)  # The last message may exceed the credit.
    consuming.ack(consuming.take())
    (credit,) = consuming.pair.hear_all(m.Credit)
    record_bytes = len(delivery(b"." * 1_500)) - m.DELIVERY_BYTES
    assert (credit.messages, credit.bytes) == (1, record_bytes)


def test_lost_connection_drops_what_was_not_handed_out() -> None:
    consuming = Consuming()
    consuming.deliver(5)
    kept = consuming.take(2)
    consuming.pair.cut().connect()
    assert consuming.take() == []
    assert consuming.answer().messages == 6, "the application still has two of eight"
    consuming.ack(kept)
    consuming.deliver(2)
    assert len(consuming.take(9)) == 2


def test_consumer_is_opened_again_after_each_loss() -> None:
    consuming = Consuming()
    consuming.pair.cut().connect().hear(m.Consume)
    consuming.pair.cut().connect()
    assert consuming.answer().messages == 8
    consuming.deliver(1)
    assert len(consuming.take()) == 1


def test_message_whose_lease_is_nearly_over_is_not_handed_out() -> None:
    consuming = Consuming()
    consuming.deliver(8)
    consuming.pair.now_ms += LEASE_MS - MARGIN_MS
    assert consuming.take(8) == []
    assert consuming.credits() == [8]


def test_message_that_is_never_settled_frees_its_credit_when_its_lease_is_over() -> None:
    consuming = Consuming()
    consuming.deliver(4)
    consuming.take(4)
    consuming.wait(START_AFTER_MS)
    consuming.wait(LEASE_MS - 1)
    assert consuming.credits() == []
    consuming.wait(1)
    assert consuming.credits() == [4]


def test_lease_starts_once_the_application_has_kept_the_message_for_a_while() -> None:
    consuming = Consuming()
    consuming.deliver(4)
    consuming.ack(consuming.take(1))
    assert consuming.renewed() == [1], "lease 1 starts before the application has the message"
    consuming.take(1)
    consuming.ack(consuming.take(1))
    consuming.wait(START_AFTER_MS - 1)
    assert consuming.renewed() == []
    consuming.wait(1)
    assert consuming.renewed() == [2], "3 is settled, and 4 is still in the buffer"
    consuming.wait(LEASE_MS // 4)
    assert consuming.renewed() == [], "a lease starts only once"


def test_one_lease_of_every_100_ms_starts_before_the_application_has_its_message() -> None:
    consuming = Consuming()
    consuming.deliver(4)
    consuming.ack(consuming.take(2))
    assert consuming.renewed() == [1]
    consuming.wait(START_EARLY_EVERY_MS)
    assert consuming.renewed() == []
    consuming.ack(consuming.take(2))
    assert consuming.renewed() == [3]


def test_first_lease_of_each_connection_starts_before_the_application_has_its_message() -> None:
    consuming = Consuming()
    consuming.deliver(1)
    consuming.ack(consuming.take())
    consuming.pair.cut().connect()
    consuming.answer()
    consuming.deliver(1)
    consuming.take()
    assert consuming.renewed() == [2]


def test_lease_of_a_message_that_is_not_handed_out_does_not_start() -> None:
    consuming = Consuming()
    consuming.deliver(1)
    consuming.pair.now_ms += LEASE_MS - MARGIN_MS
    assert consuming.take() == []
    assert consuming.renewed() == []


def test_lease_starts_at_once_where_little_of_it_is_left() -> None:
    consuming = Consuming()
    consuming.deliver(1)
    consuming.wait(LEASE_MS // 2 + 1)
    consuming.take(1)
    consuming.pair.core.tick(consuming.pair.now_ms)
    assert consuming.renewed() == [1]


def test_lease_that_was_started_is_counted_on_in_full() -> None:
    consuming = Consuming(prefetch=2)
    consuming.deliver(2)
    consuming.wait(LEASE_MS - MARGIN_MS - 1)
    (message,) = consuming.take(1)
    consuming.wait(0)
    consuming.wait(LEASE_MS - 1)
    assert message.handle in next(iter(consuming.pair.core._consumers.open.values())).held


def test_leases_go_on_by_themselves_until_settled() -> None:
    consuming = Consuming(auto_renew=True)
    consuming.deliver(2)
    first, _ = consuming.take(2)
    consuming.wait(START_AFTER_MS)
    assert consuming.renewed() == [1, 2]
    for _ in range(4):
        consuming.wait(LEASE_MS // 3 - START_AFTER_MS - 1)
        assert consuming.renewed() == []
        consuming.wait(START_AFTER_MS + 1)
        assert consuming.renewed() == [1, 2]
    consuming.ack([first])
    consuming.wait(LEASE_MS // 3)
    assert consuming.renewed() == [2]
    consuming.pair.cut().connect()
    consuming.answer()
    consuming.wait(LEASE_MS // 3)
    assert consuming.renewed() == [], "the lease ended with its connection"


def test_leases_of_a_consumer_that_has_ended_go_on_until_settled() -> None:
    """The application may still process a message after its consumer has ended."""
    consuming = Consuming(auto_renew=True)
    consuming.deliver(2)
    first, second = consuming.take(2)
    consuming.pair.core.cancel(consuming.ticket)
    consuming.pair.say(m.Ended(consuming.request_id, ErrorCode.CANCELLED, "cancelled"))
    consuming.wait(START_AFTER_MS)
    assert consuming.renewed() == [1, 2]
    consuming.ack([first])
    consuming.wait(LEASE_MS * 2 // 3)
    assert consuming.renewed() == [2]
    consuming.ack([second])
    consuming.wait(LEASE_MS * 2 // 3)
    assert consuming.renewed() == []
    assert consuming.pair.hear_all(m.Credit) == []


def test_application_that_takes_nothing_has_no_credit_until_it_asks() -> None:
    consuming = Consuming()
    consuming.deliver(8)
    consuming.wait(LEASE_MS - 1)
    consuming.wait(1)
    assert consuming.credits() == []
    assert consuming.take() == []
    assert consuming.credits() == [8]


def test_more_comes_ahead_of_an_application_that_is_fast() -> None:
    consuming = Consuming(prefetch=256)
    assert consuming.opening.messages == FIRST_MESSAGES
    granted = FIRST_MESSAGES
    for _ in range(8):
        consuming.deliver(granted)
        consuming.ack(consuming.take(granted))
        granted = sum(consuming.credits())
    assert granted == 256


def test_less_comes_ahead_of_an_application_that_is_slow() -> None:
    consuming = Consuming(prefetch=256)
    waiting, most = consuming.opening.messages, []
    for _ in range(30):
        waiting += sum(consuming.credits())
        consuming.deliver(waiting)
        waiting = 0
        consuming.ack(consuming.take())
        most.append(len(next(iter(consuming.pair.core._consumers.open.values())).buffer))
        consuming.wait(1_000)
    assert max(most[:8]) < FIRST_MESSAGES
    assert max(most[12:]) <= 4


def test_slow_application_gets_credit_in_bytes_even_if_it_gets_no_messages() -> None:
    """Otherwise, the queue manager would wait for bytes, and the client for messages."""
    consuming = Consuming(prefetch=4, bytes_max=1_000)
    consuming.deliver(2)
    consuming.ack(consuming.take(2))
    assert consuming.credits() == [2]
    consuming.wait(SLOW_MS + 1)
    consuming.deliver(2, b"." * 600)
    consuming.ack(consuming.take(2))
    (credit,) = consuming.pair.hear_all(m.Credit)
    assert (credit.messages, credit.bytes > 1_000) == (0, True)


def test_message_that_comes_again_is_not_behind_the_others() -> None:
    consuming = Consuming()
    consuming.deliver(1)
    (failed,) = consuming.take()
    consuming.pair.core.settle(failed, m.RELEASE)
    consuming.deliver(4)
    again = delivery(b"x", 1, 101, state=m.STATE_REDELIVERED, counts=(1, 1))
    consuming.pair.say(m.Deliver(consuming.request_id, 3, [again]))
    assert [message.uid.timestamp for message in consuming.take(5) if message.uid] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_cancel_gives_back_unread_what_was_not_handed_out() -> None:
    consuming = Consuming()
    consuming.deliver(3)
    consuming.take(1)
    consuming.pair.core.cancel(consuming.ticket)
    consuming.pair.core.cancel(consuming.ticket)
    assert consuming.pair.hear(m.Cancel).request_id == consuming.request_id
    (settle,) = consuming.settles()
    assert settle.action == m.UNREAD
    assert settle.handles == m.HANDLE.pack(4, 2, 102) + m.HANDLE.pack(4, 3, 103)
    consuming.deliver(1)  # The message was in transit.
    assert consuming.pair.hear(m.Settle).handles == m.HANDLE.pack(4, 4, 104)
    consuming.pair.say(m.Ended(consuming.request_id, ErrorCode.CANCELLED, "cancelled"))
    assert consuming.pair.latest(ConsumerEnded) == ConsumerEnded(consuming.ticket, None)
    assert consuming.take() == []


def test_cancel_before_it_is_opened() -> None:
    pair = Scripted()
    ticket = pair.core.consume("Q", 8)
    pair.core.cancel(ticket)
    pair.connect()
    assert pair.pump() == []
    assert pair.done[ticket] is None


def test_cancel_while_it_is_opening() -> None:
    pair = Scripted().connect()
    ticket = pair.core.consume("Q", 8)
    opening = pair.hear(m.Consume)
    pair.core.cancel(ticket)
    pair.hear(m.Cancel)
    pair.say(m.Ok(opening.request_id, [3, LEASE_MS]))
    pair.say(m.Ended(opening.request_id, ErrorCode.CANCELLED, "cancelled"))
    assert pair.done[ticket] is None


def test_lost_connection_ends_a_cancelled_consumer() -> None:
    consuming = Consuming()
    consuming.pair.core.cancel(consuming.ticket)
    consuming.pair.cut().connect()
    assert consuming.pair.pump() == []
    assert consuming.pair.latest(ConsumerEnded).error is None


def test_deleted_queue_ends_its_consumer() -> None:
    consuming = Consuming()
    text = "queue Q was deleted"
    consuming.pair.say(m.Ended(consuming.request_id, ErrorCode.QUEUE_DELETED, text))
    error = consuming.pair.latest(ConsumerEnded).error
    assert error is not None
    assert error.code == ErrorCode.QUEUE_DELETED


def test_consumer_that_is_refused_has_ended() -> None:
    pair = Scripted(request_window=2).connect()
    for _ in range(5):  # A refusal frees a slot in the window.
        ticket = pair.core.consume("Q", 8)
        opening = pair.hear(m.Consume)
        pair.say(m.Error(opening.request_id, ErrorCode.QUEUE_UNKNOWN, 2, 0, "unknown"))
        assert pair.done[ticket].code == ErrorCode.QUEUE_UNKNOWN


@pytest.mark.parametrize(("prefetch", "bytes_max"), [(0, 1), (1, 0), (-1, 1), (2**32, 1)])
def test_consumer_without_credit_is_refused(prefetch: int, bytes_max: int) -> None:
    with pytest.raises(RequestError):
        Scripted().core.consume("Q", prefetch, bytes_max)


def test_credit_is_level_over_a_long_run() -> None:
    consuming = Consuming(prefetch=10)
    granted = consuming.opening.messages
    for step in range(50):
        count = min(1 + step % 4, granted)
        consuming.deliver(count)
        granted -= count
        consuming.ack(consuming.take(count))
        granted += sum(consuming.credits())
        assert 4 <= granted <= 10


def test_renewed_message_is_counted_on_for_longer() -> None:
    consuming = Consuming(prefetch=2)
    pair = consuming.pair
    consuming.deliver(2)
    first, _ = consuming.take(2)
    pair.now_ms += LEASE_MS - 1
    pair.core.renew(first, 0, pair.now_ms)
    pair.now_ms += 1
    pair.say(m.Ping(0))  # The queue manager sends a heartbeat.
    pair.core.poll(pair.now_ms)
    (consumer,) = pair.core._consumers.open.values()
    assert list(consumer.held) == [first.handle], "the other lease has ended"
    pair.now_ms += LEASE_MS
    pair.say(m.Ping(0))  # The queue manager sends a heartbeat.
    pair.core.poll(pair.now_ms)
    assert not consumer.held


def test_renewal_out_of_range_is_refused() -> None:
    consuming = Consuming()
    consuming.deliver(1)
    (message,) = consuming.take()
    with pytest.raises(RequestError) as caught:
        consuming.pair.core.renew(message, m.LEASE_MAX_MS + 1, 0)
    assert caught.value.code == ErrorCode.VALUE_INVALID


def test_credit_counts_records_and_not_what_comes_with_them() -> None:
    consuming = Consuming(prefetch=100, bytes_max=1_000)
    item = delivery(bytes(400), 1, 101, state=m.STATE_EXPIRES | m.STATE_NOTED)
    extras = m.REMAINING.pack(5) + bytes(5_000)
    consuming.pair.say(m.Deliver(consuming.request_id, 3, [item + extras]))
    consuming.ack(consuming.take())
    assert consuming.pair.hear_all(m.Credit) == []  # Less than half of the bytes are free.
    consuming.pair.say(m.Deliver(consuming.request_id, 3, [delivery(bytes(400), 2, 102)]))
    consuming.ack(consuming.take())
    size = len(item) + len(delivery(bytes(400), 2, 102)) - 2 * m.DELIVERY_BYTES
    assert [credit.bytes for credit in consuming.pair.hear_all(m.Credit)] == [size]


def test_selection_is_sent_on_each_connection() -> None:
    pair = Scripted().connect()
    pair.core.consume("Q", 8, selection=("color = 'red'", b"", b""))
    assert pair.hear(m.Consume).where == "color = 'red'"
    pair.cut().connect()
    assert pair.hear(m.Consume).where == "color = 'red'"


def test_selection_that_the_protocol_does_not_allow_is_refused() -> None:
    pair = Scripted().connect()
    with pytest.raises(RequestError) as caught:
        pair.core.consume("Q", 8, selection=("", b"", b"short"))
    assert caught.value.code == ErrorCode.VALUE_INVALID


GROUP, OTHER = b"g" * 24, b"o" * 24


class Ordered(Consuming):
    """A consumer in pinned order, which receives messages of groups."""

    def __init__(self, groups: tuple[int, bool] = (m.PINNED, False)) -> None:
        self.pair = Scripted().connect()
        self.ticket = self.pair.core.consume("Q", 8, 1_000_000, groups=groups)
        self.lease = 100
        self.opening = self.answer()

    def members(self, *numbers: int, group_id: bytes = GROUP) -> None:
        items = []
        for number in numbers:
            self.lease += 1
            group = group_id, number, False
            items.append(delivery(b"%d" % number, number, self.lease, group=group))
        self.pair.say(m.Deliver(self.request_id, 3, items))

    def numbers(self) -> list[int]:
        return [message.group_number for message in self.take(8)]

    def answer_settles(self) -> list[m.Settle]:
        settles = self.pair.hear_all(m.Settle)
        self.pair.say(m.Settled(settles[-1].settle_id))
        return settles


def test_consumer_opens_in_the_order_asked_for() -> None:
    opening = Ordered((m.LOGICAL, True)).opening
    assert (opening.order, opening.all_available) == (m.LOGICAL, True)


@pytest.mark.parametrize("action", [m.RELEASE, m.RETURN, m.UNREAD, m.REJECT])
def test_members_behind_one_that_goes_back_are_dropped(action: int) -> None:
    consuming = Ordered()
    consuming.members(1, 2, 3)
    consuming.members(7, group_id=OTHER)
    (first,) = consuming.take()
    consuming.pair.core.settle(first, action)
    assert consuming.numbers() == [7]


def test_later_messages_are_dropped_until_the_number_arrives_again() -> None:
    consuming = Ordered()
    consuming.members(1, 2)
    first, second = consuming.take(2)
    consuming.pair.core.settle(second, m.ACK)
    consuming.pair.core.settle(first, m.RELEASE)
    consuming.members(3)
    consuming.members(1, 3, 4)
    assert consuming.numbers() == [1, 3, 4]


def test_later_messages_are_dropped_until_the_settle_is_answered() -> None:
    consuming = Ordered()
    consuming.members(1, 2)
    (first,) = consuming.take()
    consuming.pair.core.settle(first, m.REJECT)
    consuming.members(3)
    consuming.answer_settles()  # These are the reject and the return of 3.
    consuming.members(2, 3)
    assert consuming.numbers() == [2, 3]


def test_dropped_message_is_returned_unread() -> None:
    """A dropped message may be a redelivery, so the client must return it to the queue."""
    consuming = Ordered()
    consuming.members(1)
    (first,) = consuming.take()
    consuming.pair.core.settle(first, m.REJECT)
    consuming.members(2)
    actions = [settle.action for settle in consuming.answer_settles()]
    assert actions == [m.RENEW, m.REJECT, m.UNREAD]


def test_message_that_returns_unread_drops_the_later_ones_of_its_group() -> None:
    consuming = Ordered()
    consuming.members(1)
    (first,) = consuming.take()
    consuming.pair.core.settle(first, m.REJECT)
    (reject,) = consuming.settles()
    consuming.members(2)
    consuming.pair.say(m.Settled(reject.settle_id))
    consuming.members(3)  # sent before the queue manager received the return of 2
    consuming.answer_settles()
    consuming.members(2, 3)
    assert consuming.numbers() == [2, 3]


def test_dropped_message_frees_its_credit() -> None:
    consuming = Ordered()
    consuming.members(1, 2, 3, 4)
    (first,) = consuming.take()
    consuming.pair.core.settle(first, m.RELEASE)
    consuming.members(5, 6)
    assert sum(consuming.credits()) == 6


def test_redelivered_message_stays_when_its_older_lease_is_released() -> None:
    consuming = Ordered()
    consuming.members(1, 2)
    (first,) = consuming.take()
    consuming.members(1, 2)  # redelivered, because the lease had ended
    consuming.pair.core.settle(first, m.RELEASE)
    assert consuming.numbers() == [1, 2]


@pytest.mark.parametrize("polled", [False, True])
def test_member_whose_lease_is_over_unseen_takes_those_behind_along(polled: bool) -> None:
    """If the lease of 2 ended in the buffer, 3 must not reach the application before 2."""
    consuming = Ordered()
    consuming.members(1, 2)
    consuming.take()
    consuming.wait(LEASE_MS - MARGIN_MS)
    consuming.members(3)
    if polled:
        consuming.wait(MARGIN_MS)
    assert consuming.numbers() == []
    consuming.members(4)  # The message was in transit.
    assert consuming.numbers() == []
    back = [x for x in consuming.answer_settles() if x.action == m.UNREAD]
    handles = [place[1] for x in back for place in m.HANDLE.iter_unpack(x.handles)]
    assert sorted(handles) == [2, 4]
    consuming.members(2, 3, 4)
    assert consuming.numbers() == [2, 3, 4]


def test_unit_that_is_backed_out_takes_those_behind_along() -> None:
    consuming = Ordered()
    core = consuming.pair.core
    consuming.members(1, 2, 3)
    (first,) = consuming.take()
    ticket = core.begin_unit()
    consuming.pair.say(m.Ok(consuming.pair.hear(m.UnitBegin).request_id))
    unit = consuming.pair.done[ticket]
    core.settle(first, m.ACK, unit=unit)
    consuming.answer_settles()
    core.back_out(unit)
    backout = consuming.pair.hear(m.UnitBackout)
    consuming.members(4)
    consuming.pair.say(m.Ok(backout.request_id, [0, 1]))
    consuming.answer_settles()
    consuming.members(1, 2)
    assert consuming.numbers() == [1, 2]


def test_connection_that_is_lost_leaves_nothing_to_drop() -> None:
    consuming = Ordered()
    consuming.members(1)
    (first,) = consuming.take()
    consuming.pair.core.settle(first, m.RELEASE)
    consuming.pair.cut().connect()
    consuming.pair.hear_all(m.Settle)
    consuming.answer()
    consuming.members(2)
    assert consuming.numbers() == [2]


def test_in_physical_order_nothing_is_dropped() -> None:
    consuming = Ordered((m.PHYSICAL, False))
    consuming.members(1, 2)
    (first,) = consuming.take()
    consuming.pair.core.settle(first, m.RELEASE)
    consuming.members(3)
    assert consuming.numbers() == [2, 3]


def leased_again(consuming: Consuming, *arrivals: int) -> None:
    """Cuts the connection. The queue manager then redelivers *arrivals* with new leases."""
    consuming.pair.cut().connect()
    consuming.answer()
    items = [delivery(b"x", arrival, 900 + arrival) for arrival in arrivals]
    consuming.pair.say(m.Deliver(consuming.request_id, 3, items))


def test_message_in_work_over_a_lost_connection_is_not_handed_out_again() -> None:
    consuming = Consuming()
    consuming.deliver(3)
    (in_work,) = consuming.take(1)
    leased_again(consuming, 1, 2, 3)
    assert [message.handle for message in consuming.take(9)] == [
        m.HANDLE.pack(4, 2, 902),
        m.HANDLE.pack(4, 3, 903),
    ]
    assert consuming.renewed()[0] == 1, "the application has it, so the lease starts at once"
    consuming.ack([in_work])
    (settle,) = consuming.settles()
    assert settle.handles == m.HANDLE.pack(4, 1, 901), "the settle uses the new lease"


def test_message_in_work_over_two_lost_connections_is_settled_under_its_latest_lease() -> None:
    consuming = Consuming(auto_renew=True)
    consuming.deliver(1)
    (in_work,) = consuming.take(1)
    leased_again(consuming, 1)
    consuming.renewed()
    consuming.pair.cut().connect()
    assert consuming.answer().messages == 7
    consuming.pair.say(m.Deliver(consuming.request_id, 3, [delivery(b"x", 1, 777)]))
    assert consuming.take() == []
    assert consuming.renewed() == [1]
    consuming.wait(LEASE_MS // 3)
    assert consuming.renewed() == [1], "the renewals continue"
    consuming.ack([in_work])
    (settle,) = consuming.settles()
    assert settle.handles == m.HANDLE.pack(4, 1, 777)
    assert sum(consuming.credits()) + consuming.opening.messages >= 8


def test_another_message_at_the_same_place_is_another_message() -> None:
    """In the meantime, the store was restored to an earlier state."""
    consuming = Consuming()
    consuming.deliver(1)
    (in_work,) = consuming.take(1)
    consuming.pair.cut().connect()
    consuming.answer()
    item = bytearray(delivery(b"y", 1, 901))
    item[22:30] = (77).to_bytes(8, "big")  # a different put time
    consuming.pair.say(m.Deliver(consuming.request_id, 3, [bytes(item)]))
    (other,) = consuming.take()
    assert (other.body, other.handle) == (b"y", m.HANDLE.pack(4, 1, 901))
    consuming.pair.hear_all(m.Settle)
    consuming.ack([in_work])
    (settle,) = consuming.settles()
    assert settle.handles == in_work.handle


def test_message_settled_during_a_loss_is_handed_out_if_it_is_redelivered() -> None:
    consuming = Consuming()
    consuming.deliver(1)
    (in_work,) = consuming.take(1)
    consuming.pair.cut()
    consuming.pair.core.settle(in_work, m.RELEASE)
    consuming.pair.connect()
    consuming.answer()
    consuming.pair.say(m.Deliver(consuming.request_id, 3, [delivery(b"x", 1, 901)]))
    assert len(consuming.take()) == 1


def test_application_that_settles_nothing_costs_bounded_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("qmgr_client.sansio.consumer.HANDED_MAX", 3)
    consuming = Consuming()
    consuming.deliver(8)
    consuming.take(8)
    (consumer,) = consuming.pair.core._consumers.open.values()
    assert len(consumer.handed) == 3


@pytest.mark.parametrize("prefetch", [1, 2, 3, 5, 9, 10, 50, 100, 500])
@pytest.mark.parametrize("pause_ms", [0, 3_000])
def test_application_that_settles_late_gets_all_of_its_prefetch(
    prefetch: int, pause_ms: int
) -> None:
    consuming = Consuming(prefetch=prefetch)
    granted, taken = consuming.opening.messages, 0
    while granted > taken:
        consuming.deliver(granted - taken)
        taken += len(consuming.take(granted - taken + 1))  # The last call finds no message.
        consuming.pair.now_ms += pause_ms if taken < 8 else 0
        granted += sum(consuming.credits())
    assert granted == taken == prefetch


def test_renewal_by_the_application_is_not_shortened_by_its_start() -> None:
    consuming = Consuming()
    consuming.deliver(2)
    _, message = consuming.take(2)
    consuming.pair.core.renew(message, 10 * LEASE_MS, consuming.pair.now_ms)
    consuming.renewed()
    consuming.wait(START_AFTER_MS)
    assert consuming.renewed() == []
    consuming.wait(2 * LEASE_MS)
    (consumer,) = consuming.pair.core._consumers.open.values()
    assert list(consumer.held) == [message.handle]
