"""Rules that end leases, or have them go on."""

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.actor import Actor
from tests.qmgrd.core.machine.chances import DELAYS_MS, NUMBERS, SEAT_NUMBERS, WORDS
from tests.qmgrd.core.machine.how import How
from tests.qmgrd.core.machine.message import Lease, Message
from tests.qmgrd.core.machine.seat import Handle, Seat


class Settles(Actor):
    """Settles of what somebody was handed, be it long ago."""

    def _settle(
        self, seat: Seat, action: int, handle: Handle, *, unit: int = 0,
        delay_ms: int = m.DELAY_OF_QUEUE, lease_ms: int = 0, words: tuple[str, str] = ("", ""),
    ) -> None:  # fmt: skip
        bench, delivery = self.bench, handle.delivery
        bench.begin()
        code = self._settled(seat, action, handle, unit, delay_ms, lease_ms, words)
        self.model.sweep()
        settle_id = seat.client.next_id()
        message = m.Settle(
            settle_id, action, delivery.queue_id, delivery.handle, unit, delay_ms, lease_ms,
            *words,
        )  # fmt: skip
        (answer,) = bench.say(seat, message)
        exceptions = [[settle_id, 0, int(code)]] if code else []
        assert answer == m.Settled(settle_id, exceptions), (answer, handle.message)
        bench.end()

    def _settled(
        self, seat: Seat, action: int, handle: Handle, unit: int, delay_ms: int, lease_ms: int,
        words: tuple[str, str],
    ) -> int:  # fmt: skip
        """Have the model do what a settle says; return the code of its exception, or 0."""
        model, message = self.model, handle.message
        is_there = message in model.messages
        lease = message.lease if is_there else None
        if lease is None:
            if action == m.ACK and not unit and is_there:
                self._consume(message)  # Its lease is over, and nobody else has it.
            idempotent = (m.RELEASE, m.RETURN, m.UNREAD, *(() if unit else (m.ACK,)))
            return 0 if action in idempotent else ErrorCode.LEASE_LOST
        if lease.number != handle.delivery.number or lease.unit:
            return ErrorCode.LEASE_LOST
        if action == m.ACK and unit:
            return self._take(seat, unit, message, lease)
        if action == m.ACK:
            self._consume(message)
        elif action == m.RENEW:
            lease.seat = seat.number if lease_ms else lease.seat
            lease.lease_ms = lease_ms or lease.lease_ms
            lease.deadline_ms = model.now_ms + lease.lease_ms
        else:
            model.give_back(message, _how(action, f"c{lease.seat}", delay_ms, words))
        return 0

    def _consume(self, message: Message) -> None:
        self.model.consume(message)
        if message.wish.uid is not None:
            self.consumed.append(message.wish.uid)

    def _take(self, seat: Seat, number: int, message: Message, lease: Lease) -> int:
        unit = self.model.units.get((seat.number, number))
        if unit is None:
            return ErrorCode.UNIT_UNKNOWN
        if lease.seat != seat.number:
            return ErrorCode.LEASE_LOST
        unit.gets.append(message)
        lease.seat, lease.unit, lease.deadline_ms = seat.number, number, None
        return 0

    def _handle_of(self, number: int, *, late: bool) -> Handle:
        """Return a handle: one of a lease that is open, where there is any, or of whatever was."""
        known = self.bench.handles
        alive = [x for x in known if x.message.lease and x.message in self.model.messages]
        found = known if late or not alive else alive
        return found[number % len(found)]

    @precondition(lambda self: self.bench.handles)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, late=st.sampled_from([False, False, True]),
          twice=st.booleans())  # fmt: skip
    def ack(self, seat: int, number: int, late: bool, twice: bool) -> None:
        handle = self._handle_of(number, late=late)
        self._settle(self._seat(seat), m.ACK, handle)
        if twice:
            self._settle(self._seat(seat), m.ACK, handle)

    @precondition(lambda self: self.bench.handles)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, late=st.sampled_from([False, False, True]),
          delay_ms=DELAYS_MS, words=WORDS)  # fmt: skip
    def release(
        self, seat: int, number: int, late: bool, delay_ms: int, words: tuple[str, str]
    ) -> None:
        handle = self._handle_of(number, late=late)
        self._settle(self._seat(seat), m.RELEASE, handle, delay_ms=delay_ms, words=words)

    @precondition(lambda self: self.bench.handles)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, delay_ms=DELAYS_MS, unread=st.booleans())
    def return_(self, seat: int, number: int, delay_ms: int, unread: bool) -> None:
        action = m.UNREAD if unread else m.RETURN
        handle = self._handle_of(number, late=False)
        self._settle(self._seat(seat), action, handle, delay_ms=delay_ms)

    @precondition(lambda self: self.bench.handles)
    @rule(seat=SEAT_NUMBERS, number=NUMBERS, words=WORDS)
    def reject(self, seat: int, number: int, words: tuple[str, str]) -> None:
        handle = self._handle_of(number, late=False)
        self._settle(self._seat(seat), m.REJECT, handle, words=words)

    @precondition(lambda self: self.bench.handles)
    @rule(number=NUMBERS, lease_ms=st.sampled_from([0, 300, 5_000]), late=st.booleans())
    def renew(self, number: int, lease_ms: int, late: bool) -> None:
        handle = self._handle_of(number, late=late)
        lease = handle.message.lease
        seat = self._seat(lease.seat if lease else 0)
        self._settle(seat, m.RENEW, handle, lease_ms=lease_ms)


def _how(action: int, client: str, delay_ms: int, words: tuple[str, str]) -> How:
    """Return how a message comes back that its consumer settles so."""
    if action == m.UNREAD:
        return How(client, is_delivered=False, is_failed=False, delay_ms=max(delay_ms, 0))
    how = How(client, delay_ms=delay_ms, reason=words[0], text=words[1])
    if action == m.REJECT:
        return how._replace(is_rejected=True, code=ErrorCode.MESSAGE_REJECTED)
    return how if action == m.RELEASE else how._replace(is_failed=False)
