"""Rules that end leases, or renew them."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.actor import Actor
from tests.qmgrd.core.machine.chances import DELAYS_MS, LATE, NUMBERS, SETTLERS, WORDS
from tests.qmgrd.core.machine.how import How
from tests.qmgrd.core.machine.message import Lease, Message
from tests.qmgrd.core.machine.seat import Handle, Seat


class Settles(Actor):
    """The rules that settle deliveries, including old ones."""

    def _settle(
        self,
        seat: Seat,
        action: int,
        handle: Handle,
        *,
        unit: int = 0,
        delay_ms: int = m.DELAY_OF_QUEUE,
        lease_ms: int = 0,
        words: tuple[str, str] = ("", ""),
    ) -> None:
        bench, delivery = self.bench, handle.delivery
        bench.begin()
        code = self._settled(seat, action, handle, unit, delay_ms, lease_ms, words)
        self.model.sweep()
        settle_id = seat.client.next_id()
        message = m.Settle(
            settle_id, action, delivery.queue_id, delivery.handle, unit, delay_ms, lease_ms, *words
        )
        (answer,) = bench.say(seat, message)
        exceptions = [[settle_id, 0, int(code)]] if code else []
        assert answer == m.Settled(settle_id, exceptions), (answer, handle.message)
        bench.end()

    def _settled(
        self,
        seat: Seat,
        action: int,
        handle: Handle,
        unit: int,
        delay_ms: int,
        lease_ms: int,
        words: tuple[str, str],
    ) -> int:
        """Applies a settle to the model; returns the code of its error, or 0."""
        model, message = self.model, handle.message
        lease = message.lease if message in model.messages else None
        if lease is None:
            return self._settled_late(seat, action, handle, unit)
        # No lease outlives its connection, so a lease of a seat belongs to its current session.
        if lease.number != handle.delivery.number or lease.seat != seat.number or lease.unit:
            return ErrorCode.LEASE_LOST
        if action == m.ACK and unit:
            return self._take(seat, unit, message, lease)
        if action == m.ACK:
            self._consume(message)
        elif action == m.RENEW:
            lease.lease_ms = lease_ms or lease.lease_ms
            lease.deadline_ms = model.now_ms + lease.lease_ms
        else:
            model.give_back(message, _how(action, f"c{lease.seat}", delay_ms, words))
        return 0

    def _settled_late(self, seat: Seat, action: int, handle: Handle, unit: int) -> int:
        """Applies a settle to a message that is not leased; returns the code of its error, or 0."""
        if action in (m.RELEASE, m.RETURN, m.UNREAD):
            return 0
        if action != m.ACK or unit:
            return ErrorCode.LEASE_LOST
        if handle.message not in self.model.messages:
            return 0
        if handle.session != seat.session:
            return ErrorCode.LEASE_LOST
        self._consume(handle.message)
        return 0

    def _consume(self, message: Message) -> None:
        self.model.consume(message)
        if message.wish.uid is not None:
            self.consumed.append(message.wish.uid)

    def _take(self, seat: Seat, number: int, message: Message, lease: Lease) -> int:
        unit = self.model.units.get((seat.number, number))
        if unit is None:
            return ErrorCode.UNIT_UNKNOWN
        unit.gets.append(message)
        lease.unit, lease.deadline_ms = number, None
        return 0

    def _handle_of(self, number: int, *, late: bool) -> Handle:
        """Returns the handle of an open lease, or any handle if *late* or if no lease is open."""
        known = self.bench.handles
        alive = [x for x in known if x.message.lease and x.message in self.model.messages]
        found = known if late or not alive else alive
        return found[number % len(found)]

    def _holder(self, handle: Handle) -> Seat:
        """Returns the seat that received the handle, perhaps in an earlier session."""
        assert handle.session is not None
        return self._seat(handle.session.seat)

    def _settler(self, seat: int | None, handle: Handle) -> Seat:
        """Returns the seat with number *seat*, or by default the seat that received the handle."""
        return self._holder(handle) if seat is None else self._seat(seat)

    @precondition(lambda self: self.bench.handles)
    @rule(seat=SETTLERS, number=NUMBERS, late=LATE, twice=st.booleans())
    def ack(self, seat: int | None, number: int, late: bool, twice: bool) -> None:
        handle = self._handle_of(number, late=late)
        self._settle(self._settler(seat, handle), m.ACK, handle)
        if twice:
            self._settle(self._settler(seat, handle), m.ACK, handle)

    @precondition(lambda self: self.bench.handles)
    @rule(seat=SETTLERS, number=NUMBERS, late=LATE, delay_ms=DELAYS_MS, words=WORDS)
    def release(
        self, seat: int | None, number: int, late: bool, delay_ms: int, words: tuple[str, str]
    ) -> None:
        handle = self._handle_of(number, late=late)
        settler = self._settler(seat, handle)
        self._settle(settler, m.RELEASE, handle, delay_ms=delay_ms, words=words)

    @precondition(lambda self: self.bench.handles)
    @rule(seat=SETTLERS, number=NUMBERS, delay_ms=DELAYS_MS, unread=st.booleans())
    def return_(self, seat: int | None, number: int, delay_ms: int, unread: bool) -> None:
        action = m.UNREAD if unread else m.RETURN
        handle = self._handle_of(number, late=False)
        self._settle(self._settler(seat, handle), action, handle, delay_ms=delay_ms)

    @precondition(lambda self: self.bench.handles)
    @rule(seat=SETTLERS, number=NUMBERS, words=WORDS)
    def reject(self, seat: int | None, number: int, words: tuple[str, str]) -> None:
        handle = self._handle_of(number, late=False)
        self._settle(self._settler(seat, handle), m.REJECT, handle, words=words)

    @precondition(lambda self: self.bench.handles)
    @rule(
        seat=SETTLERS, number=NUMBERS, lease_ms=st.sampled_from([0, 300, 5_000]), late=st.booleans()
    )
    def renew(self, seat: int | None, number: int, lease_ms: int, late: bool) -> None:
        handle = self._handle_of(number, late=late)
        self._settle(self._settler(seat, handle), m.RENEW, handle, lease_ms=lease_ms)

    @precondition(lambda self: self.bench.handles)
    @rule(
        seat=SETTLERS,
        number=NUMBERS,
        late=LATE,
        flipped=st.sampled_from([0, 1 << 12, 1 << 63]),
        action=st.sampled_from([m.ACK, m.RELEASE, m.REJECT, m.RENEW]),
    )
    def forge(self, seat: int | None, number: int, late: bool, flipped: int, action: int) -> None:
        """Settles with a lease number that no session received: one from a browse, or a guess."""
        handle = self._handle_of(number, late=late)
        guess = handle.delivery.number ^ flipped if flipped else 0
        forged = Handle(handle.message, handle.delivery._replace(number=guess), None)
        self._settle(self._settler(seat, handle), action, forged)


def _how(action: int, client: str, delay_ms: int, words: tuple[str, str]) -> How:
    """Returns how a message returns to its queue after such a settle."""
    if action == m.UNREAD:
        return How(client, is_delivered=False, is_failed=False, delay_ms=max(delay_ms, 0))
    how = How(client, delay_ms=delay_ms, reason=words[0], text=words[1])
    if action == m.REJECT:
        return how._replace(is_rejected=True, code=ErrorCode.MESSAGE_REJECTED)
    return how if action == m.RELEASE else how._replace(is_failed=False)
