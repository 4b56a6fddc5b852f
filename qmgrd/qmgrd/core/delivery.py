"""Consumers, gets and what they settle: who is handed which message, and when it comes back."""

from collections import deque

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.amount import amount
from qmgrd.core.attributes import get_inhibited
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.intake import SettlePart
from qmgrd.core.lease import Consumer, Lease, Lessee
from qmgrd.core.queue import Queue
from qmgrd.core.session import Session

CREDIT_MAX_MESSAGES = 2**32
CREDIT_MAX_BYTES = 64 * 1024 * 1024  # what one consumer may leave unread
SHARE_MESSAGES = 256  # at most so many to one consumer before the next has its turn
RETURNS_PER_TURN = 500


class Delivery:
    """The consumers of all connections.

    Invariant: each open consumer stands in its queue's rotation once; leases of a connection that
    is gone wait in ``_returns`` until they have come back.
    """

    def __init__(
        self, context: Context, catalogue: Catalogue, sessions: dict[int, Session]
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._sessions = sessions
        self._rows_max = context.turn_rows  # beyond it nothing is handed out
        self._returns: deque[Lease] = deque()
        self._ends_left = RETURNS_PER_TURN  # leases whose time is over, in this turn

    @property
    def busy(self) -> bool:
        """Whether leases wait to come back."""
        return bool(self._returns)

    def consume(self, session: Session, message: m.Consume) -> None:
        """Open a consumer."""
        limit = self._context.config.limits.consumers_per_connection_max
        if len(session.consumers) >= limit:
            raise RequestError(
                ErrorCode.CONSUMERS_EXHAUSTED,
                f"{amount(len(session.consumers), 'consumer')} on this connection, at most {limit}",
            )
        self._check_free(session, message.request_id)
        queue = self._readable(message.queue)
        lease_ms = message.lease_ms or queue.bounds.lease_ms
        consumer = Consumer(
            session.connection, message.request_id, queue, message.messages,
            min(message.bytes, CREDIT_MAX_BYTES), lease_ms,
        )  # fmt: skip
        self._context.send(session.connection, m.Ok(message.request_id, [queue.id, lease_ms]))
        self._join(session, consumer)

    def get(self, session: Session, message: m.Get) -> None:
        """Lease what is there, or wait for the first."""
        limits = self._context.config.limits
        limit = limits.request_window + limits.consumers_per_connection_max
        if len(session.consumers) >= limit:
            raise RequestError(
                ErrorCode.CONSUMERS_EXHAUSTED,
                f"{len(session.consumers)} gets and consumers wait on this connection, "
                f"at most {limit}",
            )
        self._check_free(session, message.request_id)
        queue = self._readable(message.queue)
        if queue.bounds.get_inhibit:
            raise get_inhibited(queue.name)
        deadline_ms = self._context.now.ms + message.wait_ms
        consumer = Consumer(
            session.connection, message.request_id, queue, message.messages_max, message.bytes_max,
            message.lease_ms or queue.bounds.lease_ms, is_get=True,
        )  # fmt: skip
        self._join(session, consumer)
        # Set even for a wait of nothing: what this turn puts there is in time.
        consumer.timer = self._context.timers.at(
            deadline_ms, lambda: self._wait_is_over(session, consumer)
        )

    def _check_free(self, session: Session, request_id: int) -> None:
        if request_id in session.consumers:
            raise RequestError(
                ErrorCode.CONSUMER_EXISTS, f"request {request_id} is a consumer or a waiting get"
            )

    def _readable(self, name: str) -> Queue:
        queue = self._catalogue.local(name)
        if queue.is_transmission:
            raise RequestError(
                ErrorCode.QUEUE_IS_TRANSMISSION, f"{name} is emptied by its link; it can be browsed"
            )
        return queue

    def _join(self, session: Session, consumer: Consumer) -> None:
        session.add_consumer(consumer)
        consumer.queue.consumers[consumer] = None
        self._context.awake_queues[consumer.queue.id] = consumer.queue

    def _leave(self, session: Session, consumer: Consumer) -> None:
        consumer.open = False
        session.consumers.pop(consumer.request_id, None)
        consumer.queue.consumers.pop(consumer, None)  # A connection may leave with thousands.
        if consumer.timer is not None:
            self._context.timers.cancel(consumer.timer)

    def _wait_is_over(self, session: Session, consumer: Consumer) -> None:
        if not consumer.open:
            return
        self.pump_queue(consumer.queue)  # What this very turn put there is in time.
        if consumer.open:
            self._leave(session, consumer)
            self._context.send(session.connection, m.Ok(consumer.request_id))

    def credit(self, session: Session, message: m.Credit) -> None:
        """Let a consumer have more; credit for one that has ended is late, not wrong."""
        consumer = session.consumers.get(message.request_id)
        if consumer is None:
            return
        messages, bytes_ = consumer.credit_messages, consumer.credit_bytes
        consumer.credit_messages = min(messages + message.messages, CREDIT_MAX_MESSAGES)
        consumer.credit_bytes = min(bytes_ + message.bytes, CREDIT_MAX_BYTES)
        self._context.awake_queues[consumer.queue.id] = consumer.queue

    def cancel(self, session: Session, message: m.Cancel) -> None:
        """End a consumer or a get; what it has leased it may still settle."""
        consumer = session.consumers.get(message.request_id)
        if consumer is None:
            return  # It ended while the cancellation was under way: its answer is out.
        self._leave(session, consumer)
        ended = m.Ended(message.request_id, ErrorCode.CANCELLED, "cancelled by the client")
        self._context.send(session.connection, ended)

    def settle(self, session: Session, message: m.Settle) -> None:
        """Acknowledge or release what the handles name."""
        session.exceptions += self._settle(message, 0)
        session.settled_id = message.settle_id
        self._context.answering[session.connection] = session

    def settle_part(self, session: Session, part: SettlePart) -> None:
        """Acknowledge or release a piece of what a settle names; the last piece has the answer."""
        session.part_exceptions += self._settle(part, part.first_index)
        if part.is_last:
            session.exceptions += session.part_exceptions
            session.part_exceptions = []
            session.settled_id = part.settle_id
            self._context.answering[session.connection] = session

    def _settle(self, message: m.Settle | SettlePart, first_index: int) -> list[list[int]]:
        """Return the exceptions."""
        exceptions: list[list[int]] = []
        queue = self._catalogue.by_id.get(message.queue_id)
        if queue is None or queue.is_transmission:
            return exceptions  # Deleted, with the message; or nobody's to settle but its link's.
        tx, held_bytes = self._context.tx, queue.counters.bytes
        if message.action == m.ACK:
            failed = queue.ack_all(tx, message.handles)
        else:
            failed = queue.release_all(tx, message.handles)
        exceptions += [[message.settle_id, first_index + index, code] for index, code in failed]
        # The body rows of long messages go one by one.
        freed_bytes = held_bytes - queue.counters.bytes
        self._context.count_read(2 * len(message.handles) // m.HANDLE.size, freed_bytes)
        self._context.touch(queue)
        return exceptions

    def pump(self, budget_rows: int) -> None:
        """Hand out what is ready to those with credit, until the turn has had its rows."""
        context = self._context
        self._rows_max = budget_rows
        for queue in list(context.awake_queues.values()):
            if context.rows > budget_rows:
                return
            if queue.is_transmission:
                continue  # Its link looks after it.
            del context.awake_queues[queue.id]
            self.pump_queue(queue)

    def pump_queue(self, queue: Queue) -> None:
        """Give the consumers of *queue* that want something a share each, in rotation."""
        bounds = queue.bounds
        if queue.ready <= 0 or len(queue.leases) >= bounds.leases_max or bounds.get_inhibit:
            return
        wanting = sum(consumer.wants for consumer in queue.consumers)
        share = min(-(-queue.ready // max(wanting, 1)), SHARE_MESSAGES)
        moved = False
        for _ in range(len(queue.consumers)):
            if queue.ready <= 0:
                return
            if moved and self._context.rows > self._rows_max:
                break  # The others have their share in the next turn.
            consumer = next(iter(queue.consumers))
            queue.consumers.move_to_end(consumer)
            if consumer.wants:
                moved |= self._hand(queue, consumer, share)
        if moved:  # Else there is nothing to be had until something changes.
            self._context.awake_queues[queue.id] = queue

    def _hand(self, queue: Queue, consumer: Consumer, share: int) -> bool:
        """Lease a share to *consumer*; return whether that changed anything."""
        context = self._context
        damaged_before = queue.counters.damaged
        items = queue.take(context.tx, context.now, consumer, share)
        damaged = queue.counters.damaged - damaged_before
        if damaged:
            context.dirty_queues[queue.id] = queue
            context.note("error", "damaged messages set aside", queue=queue.name, count=damaged)
        if not items:
            return bool(damaged)
        context.count_read(len(items), sum(map(len, items)))
        deliver = m.Deliver(consumer.request_id, queue.id, items)
        context.send(consumer.connection, deliver)
        self._watch(consumer.lessee)
        if consumer.is_get:
            self._leave(self._sessions[consumer.connection], consumer)
        return True

    def _watch(self, lessee: Lessee) -> None:
        """Have the timer ring at the end of the oldest lease."""
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
        for lease in due:
            lessee.queue.come_back(self._context.tx, lease, failed=True)
        if due:
            self._context.rows += 2 * len(due)
            self._context.touch(lessee.queue)
        self._watch(lessee)

    def queue_altered(self, queue: Queue) -> None:
        """Refuse the gets that wait on a queue that is inhibited now; wake who waits for more."""
        if queue.bounds.get_inhibit:
            error = get_inhibited(queue.name)
            for consumer in [waiting for waiting in queue.consumers if waiting.is_get]:
                self._leave(self._sessions[consumer.connection], consumer)
                answer = m.Error(
                    consumer.request_id, error.code, error.error_class, error.retry_after_ms,
                    error.text,
                )  # fmt: skip
                self._context.send(consumer.connection, answer)
        self._context.awake_queues[queue.id] = queue

    def queue_deleted(self, queue: Queue) -> None:
        """End everything that hangs on a queue that is gone."""
        for consumer in list(queue.consumers):
            self._leave(self._sessions[consumer.connection], consumer)
            text = f"queue {queue.name} was deleted"
            ended = m.Ended(consumer.request_id, ErrorCode.QUEUE_DELETED, text)
            self._context.send(consumer.connection, ended)
        for lease in list(queue.leases.values()):
            lease.lessee.leases.pop(lease.arrival, None)
        queue.leases.clear()

    def close(self, session: Session) -> None:
        """Let what a connection that is gone had leased come back, in slices."""
        for consumer in list(session.consumers.values()):
            self._leave(session, consumer)
        for lessee in session.lessees.values():
            self._returns.extend(lessee.leases.values())

    def return_leases(self) -> None:
        """Bring back a slice of what lost connections held; the timers have rung in this turn."""
        self._ends_left = left = min(RETURNS_PER_TURN, self._context.turn_rows)
        for _ in range(min(RETURNS_PER_TURN, len(self._returns))):
            if not left:
                return
            lease = self._returns.popleft()
            queue = lease.lessee.queue
            if queue.deleted or queue.leases.get(lease.arrival) is not lease:
                continue  # It was settled, or ended, in the meantime.
            queue.come_back(self._context.tx, lease, failed=False)
            left -= 1
            self._context.rows += 2
            self._context.touch(queue)
