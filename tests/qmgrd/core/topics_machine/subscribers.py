"""Rules for subscribers, which subscribe, consume, fail and leave."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.topics_machine.table import SEATS, Handle, Seat, Table
from tests.qmgrd.core.topics_machine.things import Consumer, Copy, Subscription

NUMBERS = st.integers(0, 59)
SEAT_NUMBERS = st.integers(0, SEATS - 1)
# None stands for the seat that received the message.
SETTLERS = st.sampled_from([None, None, None, *range(SEATS)])
LATE = st.sampled_from([False, False, True])
FILTERS = st.sampled_from(["a/b", "a/b", "a/+", "a/#", "#", "+", "+/b/#", "a/+/c", "d"])
NAMES = ["B:one", "B:two", ":three", "C:four"]
LEASES_MS = st.sampled_from([503, 2_003, 30_003])
GIVEN = st.fixed_dictionaries(
    {},
    optional={
        "redelivery_limit": st.sampled_from([0, 0, 1, 1, 3, -1]),
        "depth_max": st.sampled_from([1, 2, 4]),
        "overflow": st.sampled_from(["discard-newest", "discard-oldest", "suspend"]),
        "priority_default": st.sampled_from([0, 7]),
        "expiry_max_ms": st.sampled_from([803, 5_003]),
        "unused_expiry_ms": st.sampled_from([3_003, 15_003]),
    },
)
WORDS = st.sampled_from([("", ""), ("BAD_INPUT", "line 7")])


class Subscribers(RuleBasedStateMachine):
    """Subscribers, and what they do with deliveries."""

    def __init__(self) -> None:
        super().__init__()
        self.table = Table()
        self.model = self.table.model

    def _seat(self, number: int) -> Seat:
        return self.table.seats[number]

    def _subscription(self, number: int, *states: str) -> Subscription:
        """Returns a subscription, if possible one with a copy in one of *states*."""
        known = list(self.model.subscriptions.values())
        found = [x for x in known if x.those(*states)] or known
        return found[number % len(found)]

    # -- begin and end

    @rule(
        seat=SEAT_NUMBERS,
        name=st.sampled_from(NAMES),
        filter_=FILTERS,
        colour=st.sampled_from(["", "", "", "red"]),
        given=GIVEN,
        retained=st.booleans(),
    )
    def subscribe(
        self, seat: int, name: str, filter_: str, colour: str, given: dict[str, Any], retained: bool
    ) -> None:
        """C3, C15: A name is one subscription, which gets later and retained publications."""
        self._subscribe(seat, name, filter_, colour, given, retained=retained)

    @rule(seat=SEAT_NUMBERS, filter_=FILTERS, given=GIVEN, retained=st.booleans())
    def subscribe_while_connected(
        self, seat: int, filter_: str, given: dict[str, Any], retained: bool
    ) -> None:
        """C2: Subscribes under a new name. The subscription ends with its connection."""
        self._subscribe(seat, "", filter_, "", given, retained=retained)

    def _subscribe(
        self,
        seat: int,
        name: str,
        filter_: str,
        colour: str,
        given: dict[str, Any],
        *,
        retained: bool,
    ) -> None:
        model = self.table.begin()
        where = f"colour = '{colour}'" if colour else ""
        fields = filter_, name, where, given, retained
        known = model.subscriptions.get(name)
        value = self.table.ask(self._seat(seat), m.Subscribe, *fields)
        if known is None:
            assert isinstance(value, dict), value
            owner = None if name else seat
            model.subscribe(value["subscription"], filter_, colour, given, owner, retained=retained)
        elif (known.filter, known.colour) != (filter_, colour) or given not in ({}, known.given):
            assert value == ErrorCode.SUBSCRIPTION_EXISTS
        else:
            assert isinstance(value, dict), value
        self.table.end()

    @precondition(lambda self: len(self.model.subscriptions) > 2)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS)
    def unsubscribe(self, seat: int, number: int) -> None:
        """C23: All copies of the subscription are deleted."""
        self._unsubscribe(seat, self._subscription(number))
        self.table.end()

    def _unsubscribe(self, seat: int, found: Subscription) -> None:
        count = self.table.begin().end(found)
        value = self.table.ask(self._seat(seat), m.Unsubscribe, found.name)
        assert value == {"messages": count}

    def _end_all(self) -> None:
        """Ends all subscriptions, and clears retained publications."""
        for found in list(self.model.subscriptions.values()):
            self._unsubscribe(0, found)
        for topic in list(self.model.retained):
            self.table.begin().retained.pop(topic)
            assert self.table.ask(self._seat(0), m.TopicDelete, topic, True) is None
        self.table.end()

    # -- consuming

    @precondition(lambda self: self.model.subscriptions)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, credit=st.sampled_from([1, 2, 5]), lease_ms=LEASES_MS)
    def consume(self, seat: int, number: int, credit: int, lease_ms: int) -> None:
        """C16: A new consumer receives copies that were republished while no consumer existed."""
        self._consume(seat, self._subscription(number, "ready", "parked"), credit, lease_ms)
        self.table.end()

    def _consume(self, seat: int, found: Subscription, credit: int, lease_ms: int) -> None:
        if found.consumer is not None:
            return
        client = self._seat(seat).client
        request_id = client.next_id()
        self.table.begin().open(found, Consumer(seat, request_id, credit, lease_ms))
        message = m.Consume(request_id, found.name, credit, 1 << 40, lease_ms)
        (answer,) = self.table.say(self._seat(seat), message)
        assert type(answer) is m.Ok, answer
        assert answer.value[1] == lease_ms

    @precondition(lambda self: self.model.subscriptions)
    @rule(number=NUMBERS, credit=st.sampled_from([1, 3]))
    def let_it_have_more(self, number: int, credit: int) -> None:
        consumer = self._subscription(number).consumer
        if consumer is None:
            return
        self.table.begin()
        consumer.credit += credit
        message = m.Credit(consumer.request_id, credit, 1 << 20)
        assert not self.table.say(self._seat(consumer.seat), message)
        self.table.end()

    @precondition(lambda self: self.model.subscriptions)
    @rule(number=NUMBERS)
    def stop_consuming(self, number: int) -> None:
        found = self._subscription(number)
        consumer = found.consumer
        if consumer is None:
            return
        model = self.table.begin()
        model.close(found)
        model.ended.add((consumer.seat, consumer.request_id))
        assert not self.table.say(self._seat(consumer.seat), m.Cancel(consumer.request_id))
        self.table.end()

    @precondition(lambda self: self.model.subscriptions)
    @rule(
        seat=SEAT_NUMBERS, number=NUMBERS, count=st.sampled_from([1, 1, 2, 5]), lease_ms=LEASES_MS
    )
    def get(self, seat: int, number: int, count: int, lease_ms: int) -> None:
        self._get(seat, self._subscription(number, "ready"), count, lease_ms)
        self.table.end()

    def _get(self, seat: int, found: Subscription, count: int, lease_ms: int) -> list[Copy]:
        """Gets available copies that no consumer received first; returns these copies."""
        if found.consumer is not None and found.consumer.credit:
            return []
        model, client = self.table.begin(), self._seat(seat).client
        request_id = client.next_id()
        model.open(found, None)
        found.used_ms = model.now_ms if found.consumer is None else found.used_ms
        copies = found.available(model.now_ms)[:count]
        self.table.expect(found, seat, request_id, copies, lease_ms)
        message = m.Get(request_id, found.name, count, 0, lease_ms, 1 << 30)
        answers = self.table.say(self._seat(seat), message)
        assert [type(x) for x in answers] == [m.Ok] * (not copies), answers
        return copies

    # -- settling

    def _handle_of(self, number: int, *, late: bool) -> Handle:
        known = self.table.handles
        alive = [
            x
            for x in known
            if x.copy.lease is not None and x.copy.lease.number == x.delivery.number
        ]
        found = known if late or not alive else alive
        return found[number % len(found)]

    def _settler(self, seat: int | None, handle: Handle) -> Seat:
        """Returns the seat with number *seat*, or by default the seat that received the handle."""
        if seat is not None:
            return self._seat(seat)
        assert handle.session is not None
        return self._seat(handle.session.seat)

    @precondition(lambda self: self.table.handles)
    @rule(seat=SETTLERS, number=NUMBERS, late=LATE)
    def ack(self, seat: int | None, number: int, late: bool) -> None:
        handle = self._handle_of(number, late=late)
        self._settle(self._settler(seat, handle), m.ACK, handle)
        self.table.end()

    @precondition(lambda self: self.table.handles)
    @rule(
        seat=SETTLERS,
        number=NUMBERS,
        late=LATE,
        action=st.sampled_from([m.RELEASE, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT]),
        delay_ms=st.sampled_from([m.DELAY_OF_QUEUE, m.DELAY_OF_QUEUE, 703]),
        words=WORDS,
    )
    def give_back(
        self,
        seat: int | None,
        number: int,
        late: bool,
        action: int,
        delay_ms: int,
        words: tuple[str, str],
    ) -> None:
        """C5, C7, C8: Each subscriber's failures are counted separately."""
        handle = self._handle_of(number, late=late)
        self._settle(self._settler(seat, handle), action, handle, delay_ms, words)
        self.table.end()

    @precondition(lambda self: self.table.handles)
    @rule(
        seat=SETTLERS,
        number=NUMBERS,
        late=LATE,
        flipped=st.sampled_from([0, 1 << 12, 1 << 63]),
        action=st.sampled_from([m.ACK, m.RELEASE, m.REJECT]),
    )
    def forge(self, seat: int | None, number: int, late: bool, flipped: int, action: int) -> None:
        """Settles with a lease number that no session received: from a browse, or a guess."""
        handle = self._handle_of(number, late=late)
        guess = handle.delivery.number ^ flipped if flipped else 0
        delivery = handle.delivery._replace(number=guess)
        forged = Handle(handle.subscription, handle.copy, delivery, None)
        self._settle(self._settler(seat, handle), action, forged)
        self.table.end()

    def _settle(
        self,
        seat: Seat,
        action: int,
        handle: Handle,
        delay_ms: int = m.DELAY_OF_QUEUE,
        words: tuple[str, str] = ("", ""),
    ) -> None:
        self.table.begin()
        code = self._settled(seat, action, handle, delay_ms, words)
        settle_id, delivery = seat.client.next_id(), handle.delivery
        message = m.Settle(
            settle_id, action, delivery.queue_id, delivery.handle, 0, delay_ms, 0, *words
        )
        (answer,) = self.table.say(seat, message)
        assert answer == m.Settled(settle_id, [[settle_id, 0, code]] if code else [])

    def _settled(
        self, seat: Seat, action: int, handle: Handle, delay_ms: int, words: tuple[str, str]
    ) -> int:
        """Applies a settle to the model; returns the code of its error, or 0."""
        model, found, copy = self.model, handle.subscription, handle.copy
        if model.subscriptions.get(found.name) is not found:
            return 0  # The queue was deleted together with the message.
        lease = copy.lease if copy in found.copies else None
        if lease is None:
            return self._settled_late(seat, action, handle)
        # No lease outlives its connection, so a lease of a seat belongs to its current session.
        if lease.number != handle.delivery.number or lease.seat != seat.number:
            return int(ErrorCode.LEASE_LOST)
        if action == m.ACK:
            copy.lease = None
            model.consume(found, copy)
            return 0
        client = f"c{lease.seat}"
        why = (int(ErrorCode.MESSAGE_REJECTED) if action == m.REJECT else 0, *words)
        model.give_back(
            found,
            copy,
            delivered=action != m.UNREAD,
            failed=action in (m.RELEASE, m.REJECT),
            rejected=action == m.REJECT,
            delay_ms=max(delay_ms, 0),
            why=why,
            client=client,
        )
        return 0

    def _settled_late(self, seat: Seat, action: int, handle: Handle) -> int:
        """Applies a settle to a copy that is not leased; returns the code of its error, or 0."""
        if action != m.ACK:
            return int(ErrorCode.LEASE_LOST) if action == m.REJECT else 0
        if handle.copy not in handle.subscription.copies:
            return 0
        if handle.session != seat.session:
            return int(ErrorCode.LEASE_LOST)
        self.model.consume(handle.subscription, handle.copy)
        return 0

    @precondition(lambda self: self.model.subscriptions)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, times=st.integers(1, 6))
    def fail_again_and_again(self, seat: int, number: int, times: int) -> None:
        """C6, C7: A copy that always fails is delivered 1 + limit times, for any limit."""
        found = self._subscription(number, "ready")
        for _ in range(times):
            copies = self._get(seat, found, 1, 30_003)
            if copies:
                handle = self.table.handles[-1]
                assert handle.copy is copies[0]
                self._settle(self._seat(seat), m.RELEASE, handle)
        self.table.end()
