"""Ends leases after acks, releases, rejects, timeouts and lost connections."""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Right
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.queue import settle
from qmgrd.core.queue.lease import Lease, Lessee
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.returns import (
    CONNECTION_LOST,
    LEASE_ENDED,
    RELEASED,
    RETURNS_PER_TURN,
    UNREAD,
    Returns,
    ReturnTerms,
)
from qmgrd.core.sessions.request_part import SettlePart
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.units import Units


class Settlements:
    """The ends of leases: settles handles, and returns messages whose leases end otherwise."""

    def __init__(
        self,
        context: Context,
        catalogue: Catalogue,
        returns: Returns,
        units: Units,
        answering: dict[int, Session],
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._returns = returns
        self._units = units
        self._answering = answering
        # The number of leases that may still time out in this turn.
        self._ends_left = RETURNS_PER_TURN

    @property
    def busy(self) -> bool:
        """Whether leases wait to be returned."""
        return bool(self._returns.waiting)

    def settle(self, session: Session, message: m.Settle) -> None:
        """Settles the messages whose handles are in *message*."""
        session.exceptions += self._settle(session, message, 0)
        session.settled_id = message.settle_id
        self._answering[session.connection] = session

    def settle_part(self, session: Session, part: SettlePart) -> None:
        """Settles one part of a long settle request. The last part sends the reply."""
        session.part_exceptions += self._settle(session, part.settle, part.first_index)
        if part.is_last:
            session.exceptions += session.part_exceptions
            session.part_exceptions = []
            session.settled_id = part.settle.settle_id
            self._answering[session.connection] = session

    def _settle(self, session: Session, message: m.Settle, first_index: int) -> list[list[int]]:
        """Settles the handles. Returns those that failed as rows [index, code]."""
        queue = self._catalogue.by_id.get(message.queue_id)
        in_unit = message.action == m.ACK and message.unit
        is_lease_needed = in_unit or message.action == m.RENEW
        if queue is None or queue.is_transmission:
            # The queue was deleted with its messages, or only its link may settle its messages.
            if not is_lease_needed:
                return []
            indexes = range(first_index, first_index + len(message.handles) // m.HANDLE.size)
            return [[message.settle_id, index, int(ErrorCode.LEASE_LOST)] for index in indexes]
        if message.action == m.ACK and not in_unit:
            failed = self._ack(session, queue, message.handles)
        else:
            failed = self._one_by_one(session, queue, message)
            self._context.count_read(2 * len(message.handles) // m.HANDLE.size, 0)
        self._context.mark_changed(queue)
        if failed and not is_lease_needed and not _may_know(session, queue):
            return []
        return [[message.settle_id, first_index + index, code] for index, code in failed]

    def _ack(self, session: Session, queue: Queue, handles: bytes) -> list[tuple[int, int]]:
        before, context = queue.counters.acked, self._context
        failed = settle.ack_all(queue, context.tx, context.now, handles, session.numbers)
        if queue.bounds.breaker_percent:
            self._returns.count(queue, queue.counters.acked - before, 0)
        return failed

    def _one_by_one(
        self, session: Session, queue: Queue, message: m.Settle
    ) -> list[tuple[int, int]]:
        exceptions = []
        found = list(enumerate(m.HANDLE.iter_unpack(message.handles)))
        if message.action == m.UNREAD:
            found.reverse()  # Otherwise, the later members of a group would count as delivered.
        for index, (_, arrival, number) in found:
            lease = queue.leases.get(arrival)
            if lease is None and message.action in (m.RELEASE, m.RETURN, m.UNREAD):
                continue  # The message was returned or settled before.
            if arrival in queue.groups.held_groups.taken_back:
                if message.action in (m.ACK, m.RENEW, m.REJECT):
                    exceptions.append((index, int(ErrorCode.LEASE_LOST)))
                # The message returns without this settle, after an earlier member that failed.
                continue
            if lease is None or lease.number != number or not _is_own(session, lease, message):
                exceptions.append((index, int(ErrorCode.LEASE_LOST)))
                continue
            try:
                self._settle_one(session, queue, lease, message)
            except RequestError as error:
                exceptions.append((index, int(error.code)))
        return exceptions

    def _settle_one(self, session: Session, queue: Queue, lease: Lease, message: m.Settle) -> None:
        if message.action == m.ACK:
            self._units.take(session, message.unit, queue, lease)
        elif message.action == m.RENEW:
            self._renew(session, queue, lease, message.lease_ms)
        else:
            self._returns.give_back(lease, _how(message))

    def _renew(self, session: Session, queue: Queue, lease: Lease, lease_ms: int) -> None:
        """Extends the lease of a message to *lease_ms* from now."""
        lease_ms = lease_ms or lease.lessee.lease_ms
        lessee = session.lessee(queue, lease_ms)
        lease.lessee.leases.pop(lease.arrival, None)
        renewed = lease._replace(lessee=lessee, deadline_ms=self._context.now.ms + lease_ms)
        queue.leases[lease.arrival] = lessee.leases[lease.arrival] = renewed
        self.watch(lessee)

    def give_back(self, lease: Lease, how: ReturnTerms) -> None:
        """Ends *lease*, and returns its message to the queue."""
        self._returns.give_back(lease, how)

    def watch(self, lessee: Lessee) -> None:
        """Sets the timer of *lessee* to the end of its oldest lease."""
        if lessee.timer_set or not lessee.leases:
            return
        lessee.timer_set = True
        deadline_ms = next(iter(lessee.leases.values())).deadline_ms
        self._context.timers.at(deadline_ms, lambda: self._expire(lessee))

    def _expire(self, lessee: Lessee) -> None:
        lessee.timer_set = False
        due: list[Lease] = []
        for lease in lessee.leases.values():
            if lease.deadline_ms > self._context.now.ms or len(due) >= self._ends_left:
                break
            due.append(lease)
        self._ends_left -= len(due)
        how = LEASE_ENDED if lessee.is_started else UNREAD
        for lease in due if lessee.is_started else reversed(due):
            self._returns.give_back(lease, how)
        self.watch(lessee)

    def close(self, session: Session) -> None:
        """Returns the leased messages of a closed connection, in slices."""
        for lessee in session.all_lessees():
            if lessee.leases:
                self._context.event(
                    "consumer lost",
                    len(lessee.leases),
                    queue=lessee.queue.name,
                    client=session.name,
                )
        for lessee in session.lessees.values():
            self._return(lessee)
        self._units.close(session)

    def revoke(self, session: Session, queue: Queue) -> None:
        """Returns the messages of *queue* that *session* has leased, as if it had closed.

        The commit of a unit of work checks the messages that the unit has leased.
        """
        for lessee in session.lessees.values():
            if lessee.queue is queue:
                self._return(lessee)

    def _return(self, lessee: Lessee) -> None:
        leases = list(lessee.leases.values())
        if lessee.is_started:
            self._returns.give_back_later(leases, CONNECTION_LOST)
        else:
            # Reversed as in _one_by_one.
            self._returns.give_back_later(reversed(leases), UNREAD)

    def return_leases(self) -> None:
        """Returns a slice of the messages of lost connections to their queues, after this turn's
        timers.
        """
        self._ends_left = left = min(RETURNS_PER_TURN, self._context.slice_rows)
        self._returns.give_back_slice(left)


def _may_know(session: Session, queue: Queue) -> bool:
    """Returns whether the reply may show which messages *queue* has.

    Without this check, any user could count the messages of any queue with invented handles. For
    other users, the reply is the same as for a queue that does not exist.
    """
    if session.check_right is None or any(x.queue is queue for x in session.all_lessees()):
        return True
    try:
        session.check_right(Right.GET, queue.name)
    except RequestError:
        return False
    return True


def _is_own(session: Session, lease: Lease, message: m.Settle) -> bool:
    """Returns whether *session* may settle *lease* as *message* requests.

    Renewing a lease does not move it to another connection. A unit of work settles its own leases.
    """
    lessee = lease.lessee
    if lessee.is_unit:
        return False
    if message.action == m.RENEW:
        return lessee.numbers is session.numbers
    return lessee.is_of(session.numbers)


def _how(message: m.Settle) -> ReturnTerms:
    """Returns the terms under which *message* returns a leased message to its queue."""
    how = RELEASED._replace(delay_ms=message.delay_ms, reason=message.reason, text=message.text)
    if message.action == m.REJECT:
        return how._replace(rejected=True, code=int(ErrorCode.MESSAGE_REJECTED))
    if message.action == m.RELEASE:
        return how
    return how._replace(failed=False, delivered=message.action == m.RETURN)
