"""Opens and ends consumers and gets.

Consumers that accept any message or use a selector are in their queue's rotation. Consumers that
ask for a correlation id, group or UID are not in the rotation: an index finds their messages. The
pump serves them only when a matching message arrives, so thousands of them can wait at the same
time.
"""

from collections.abc import Callable

from qmgr_protocol import messages as m
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.catalogue.attributes import get_inhibited_error
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.queue.group.held_groups import Reader
from qmgrd.core.queue.lease import Consumer, Lessee
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import Selection, selection
from qmgrd.core.sessions.pump import DeliveryPump, can_hand
from qmgrd.core.sessions.readers import Readers
from qmgrd.core.sessions.session import Session, error_of
from qmgrd.core.sessions.settlements import Settlements

CREDIT_MAX_MESSAGES = 2**32
CREDIT_MAX_BYTES = 64 * 1024 * 1024  # maximum number of unread bytes of one consumer


class Delivery:
    """The consumers of all connections.

    Invariant: each open consumer is in exactly one of three places: its queue's rotation, the
        consumers that pause without credit, or the consumers that seek through an index.
    """

    def __init__(
        self,
        context: Context,
        catalogue: Catalogue,
        sessions: dict[int, Session],
        settlements: Settlements,
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._sessions = sessions
        self._settlements = settlements
        self._readers = Readers(context)
        self._pump = DeliveryPump(context, settlements, self._end, sessions)
        self.on_use: list[Callable[[Queue], None]] = []

    def consume(self, session: Session, message: m.Consume) -> None:
        """Opens a consumer."""
        limit = self._context.config.limits.consumers_per_connection_max
        if len(session.consumers) >= limit:
            raise RequestError(
                ErrorCode.CONSUMERS_EXHAUSTED,
                f"{amount(len(session.consumers), 'consumer')} on this connection "
                f"(the limit is {limit})",
            )
        session.check_consumers()
        self._check_free(session, message.request_id)
        queue = self._readable(session, message.queue)
        lease_ms = message.lease_ms or queue.bounds.lease_ms
        self._check_selector(session, message.where)
        wanted = selection(queue, message.where, message.correlation_id, message.group_id)
        lessee = session.lessee(queue, lease_ms, is_started=not message.start_later)
        consumer = _consumer(
            session,
            message.request_id,
            lessee,
            message.messages,
            min(message.bytes, CREDIT_MAX_BYTES),
            wanted,
        )
        consumer.order, consumer.all_available = message.order, message.all_available
        consumer.reader = self._readers.of_consumer(session, queue, message.order)
        consumer.owns_reader = True
        self._context.send(session.connection, m.Ok(message.request_id, [queue.id, lease_ms]))
        self._join(session, consumer)

    def get(self, session: Session, message: m.Get) -> None:
        """Leases the available messages, or waits for the first message."""
        limits = self._context.config.limits
        limit = limits.request_window + limits.consumers_per_connection_max
        if len(session.consumers) >= limit:
            raise RequestError(
                ErrorCode.CONSUMERS_EXHAUSTED,
                f"{len(session.consumers)} gets and consumers are open on this connection "
                f"(the limit is {limit})",
            )
        session.check_consumers()
        self._check_free(session, message.request_id)
        queue = self._readable(session, message.queue)
        if queue.bounds.get_inhibit:
            raise get_inhibited_error(queue.name)
        deadline_ms = self._context.now.ms + message.wait_ms
        self._check_selector(session, message.where)
        wanted = selection(
            queue,
            message.where,
            message.correlation_id,
            message.group_id,
            message.uid,
            message.number,
        )
        reader = self._reader_of(session, queue, message)
        lessee = session.lessee(queue, message.lease_ms or queue.bounds.lease_ms)
        consumer = _consumer(
            session,
            message.request_id,
            lessee,
            message.messages_max,
            message.bytes_max,
            wanted,
            is_get=True,
        )
        consumer.order, consumer.all_available = message.order, message.all_available
        consumer.reader, consumer.owns_reader = reader, not message.reader
        self._join(session, consumer)
        # Set even for a wait of 0 ms, because a message that is put in this turn is still in time.
        consumer.timer = self._context.timers.at(
            deadline_ms, lambda: self._wait_is_over(session, consumer)
        )

    def _reader_of(self, session: Session, queue: Queue, message: m.Get) -> Reader | None:
        if message.reader:
            self._forget_readers(session, message.reader)
            return self._readers.find(session, queue, message.reader)
        return self._readers.of_consumer(session, queue, message.order)

    def _forget_readers(self, session: Session, number: int) -> None:
        """Forgets the readers of deleted queues if they prevent the use of reader *number*."""
        readers, by_id = session.readers, self._catalogue.by_id
        known = readers.get(number)
        limit = self._context.config.limits.consumers_per_connection_max
        if len(readers) >= limit if known is None else known.queue_id not in by_id:
            session.readers = {key: x for key, x in readers.items() if x.queue_id in by_id}

    def reader_close(self, session: Session, message: m.ReaderClose) -> None:
        """Ends a reader."""
        reader = session.readers.pop(message.reader, None)
        queue = None if reader is None else self._catalogue.by_id.get(reader.queue_id)
        if reader is not None and queue is not None:
            for consumer in [x for x in session.consumers.values() if x.reader is reader]:
                self._end(consumer, m.Ok(consumer.request_id))
            self._readers.close(queue, reader)
        self._context.send(session.connection, m.Ok(message.request_id))

    def _check_free(self, session: Session, request_id: int) -> None:
        if request_id in session.consumers:
            raise RequestError(
                ErrorCode.CONSUMER_EXISTS,
                f"request {request_id} is already in use by a consumer or a get",
            )

    def _check_selector(self, session: Session, where: str) -> None:
        self._context.selectors.check(session.owner, where, ErrorCode.CONSUMERS_EXHAUSTED)

    def _readable(self, session: Session, name: str) -> Queue:
        queue = self._catalogue.local(name)
        if queue.is_transmission:
            who = "by its subscriptions" if queue.is_publications else "by its link"
            raise RequestError(
                ErrorCode.QUEUE_IS_TRANSMISSION, f"{name} is consumed {who}; browse it instead"
            )
        if queue.bounds.exclusive:
            for other in queue.waiting:
                if other.connection != session.connection:
                    raise RequestError(
                        ErrorCode.QUEUE_EXCLUSIVE,
                        f"queue {name} is exclusive, and connection {other.connection} "
                        f"({other.lessee.client or 'without a name'}) consumes from it",
                        1_000,
                    )
        return queue

    def _join(self, session: Session, consumer: Consumer) -> None:
        session.add_consumer(consumer)
        if consumer.selector is not None:
            self._context.selectors.change(session.owner, consumer.selector.length)
        queue = consumer.queue
        queue.waiting.join(consumer)
        self._context.wake(queue)
        self.used(queue)

    def used(self, queue: Queue) -> None:
        """Records that the use of *queue* began or ended, or that the queue was altered."""
        if queue.notices_use:
            for notice in self.on_use:
                notice(queue)

    def _leave(self, session: Session, consumer: Consumer) -> None:
        consumer.open = False
        queue = consumer.queue
        queue.waiting.leave(consumer)
        session.consumers.pop(consumer.request_id, None)
        if consumer.selector is not None:
            self._context.selectors.change(session.owner, -consumer.selector.length)
        if consumer.timer is not None:
            self._context.timers.cancel(consumer.timer)
        if consumer.reader is not None and consumer.owns_reader and not queue.deleted:
            self._readers.close(queue, consumer.reader)
        if not queue.waiting and not queue.deleted:
            self.used(queue)

    def _wait_is_over(self, session: Session, consumer: Consumer) -> None:
        if not consumer.open:
            return
        if self._may_have(consumer):  # A message that was put in this turn is still in time.
            consumer.wait_over = True  # The consumer searches the rest of the queue in slices.
            consumer.queue.waiting.ending[consumer] = None
            self._context.wake(consumer.queue)
        else:
            self._end(consumer, m.Ok(consumer.request_id))

    def _may_have(self, consumer: Consumer) -> bool:
        """Returns whether *consumer* may have messages that it has not examined yet."""
        queue = consumer.queue
        if consumer.seeks:
            return can_hand(queue) and consumer.prefix in queue.waiting.sought
        if not can_hand(queue) and not queue.counters.parked:
            return False  # Parked messages that wait for a subscriber are sent in this turn.
        return queue.id in self._context.awake_queues

    def _end(self, consumer: Consumer, answer: m.Message | None) -> None:
        """Ends a get or a consumer, and sends *answer* unless it is None."""
        self._leave(self._sessions[consumer.connection], consumer)
        if answer is not None:
            self._context.send(consumer.connection, answer)

    def credit(self, session: Session, message: m.Credit) -> None:
        """Adds credit to a consumer. Credit for a consumer that has ended is ignored."""
        consumer = session.consumers.get(message.request_id)
        if consumer is None:
            return
        messages, bytes_ = consumer.credit_messages, consumer.credit_bytes
        consumer.credit_messages = min(messages + message.messages, CREDIT_MAX_MESSAGES)
        consumer.credit_bytes = min(bytes_ + message.bytes, CREDIT_MAX_BYTES)
        if consumer.reader is not None:
            consumer.reader.has_credit = consumer.has_credit
        queue = consumer.queue
        queue.waiting.resume(consumer)
        self._context.wake(queue)

    def cancel(self, session: Session, message: m.Cancel) -> None:
        """Ends a consumer or a get. The client may still settle its leased messages."""
        consumer = session.consumers.get(message.request_id)
        if consumer is None:
            # The consumer ended before the cancellation arrived, and its reply has been sent.
            return
        self._leave(session, consumer)
        ended = m.Ended(message.request_id, ErrorCode.CANCELLED, "cancelled by the client")
        self._context.send(session.connection, ended)

    def pump(self, budget_rows: int) -> None:
        """Delivers messages to consumers that have credit, until the turn has used up its rows."""
        context = self._context
        if context.piece_sender.can_go_on:
            context.count_read(context.piece_sender.run(context.tx, context.send), 0)
        self._pump.feed_starved()
        self._pump.run(budget_rows)

    def go_on(self, connection: int) -> None:
        """Resumes the consumers of a connection that was held."""
        session = self._sessions.get(connection)
        if session is None:
            return
        if session.path is not None:
            self._context.wake(session.path.link.queue)
        for consumer in session.consumers.values():
            if consumer.seeks:
                consumer.queue.waiting.sought[consumer.prefix] = None
            self._context.wake(consumer.queue)

    def queue_altered(self, queue: Queue) -> None:
        """Refuses the waiting gets if *queue* is now inhibited. Otherwise wakes its consumers."""
        if queue.bounds.get_inhibit:
            error = get_inhibited_error(queue.name)
            for consumer in [one for one in queue.waiting if one.is_get]:
                self._end(consumer, error_of(consumer.request_id, error))
        queue.waiting.seek_all()
        if queue.breaker.altered(queue.bounds) is not None:
            self._context.event("breaker closed", queue=queue.name)
        self._context.wake(queue)
        if not queue.waiting:
            self.used(queue)

    def revoke(self, session: Session, queue: Queue, error: RequestError) -> None:
        """Ends the consumers, gets and readers of *session* on *queue* with *error*.

        The leased messages return to the queue, as if the connection had closed.
        """
        for consumer in [x for x in session.consumers.values() if x.queue is queue]:
            self._leave(session, consumer)
            if consumer.is_get:
                answer: m.Message = error_of(consumer.request_id, error)
            else:
                answer = m.Ended(consumer.request_id, error.code, error.text)
            self._context.send(session.connection, answer)
        for number, reader in list(session.readers.items()):
            if reader.queue_id == queue.id:
                del session.readers[number]
                self._readers.close(queue, reader)
        self._settlements.revoke(session, queue)

    def queue_deleted(self, queue: Queue) -> None:
        """Ends the consumers and leases of a queue that was deleted."""
        for consumer in list(queue.waiting):
            self._leave(self._sessions[consumer.connection], consumer)
            text = f"queue {queue.name} was deleted"
            ended = m.Ended(consumer.request_id, ErrorCode.QUEUE_DELETED, text)
            self._context.send(consumer.connection, ended)
        for lease in list(queue.leases.values()):
            lease.lessee.leases.pop(lease.arrival, None)
        queue.leases.clear()
        self.used(queue)

    def close(self, session: Session) -> None:
        """Forgets the consumers of a closed connection and returns its leased messages."""
        self._context.piece_sender.close(session.connection)
        for consumer in list(session.consumers.values()):
            self._leave(session, consumer)
        for reader in session.readers.values():
            queue = self._catalogue.by_id.get(reader.queue_id)
            if queue is not None:
                self._readers.close(queue, reader)
        self._settlements.close(session)


def _consumer(
    session: Session,
    request_id: int,
    lessee: Lessee,
    messages: int,
    bytes_: int,
    wanted: Selection,
    *,
    is_get: bool = False,
) -> Consumer:
    consumer = Consumer(
        session.connection,
        request_id,
        lessee,
        messages,
        bytes_,
        is_get=is_get,
        selector=wanted.selector,
        prefix=wanted.prefix,
    )
    if session.piece_bytes:
        consumer.whole_max_bytes = DELIVER_MAX_BYTES
    return consumer
