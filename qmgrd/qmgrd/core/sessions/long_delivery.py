"""A long message on its way to a consumer, in pieces (context/piece_sender.py).

1. The consumer receives nothing between the pieces of its message. So its messages keep their
   order.
2. Meanwhile the lease has the longest duration, and the message counts as unread. It has its own
   duration from the Deliver on. If the lease, the consumer or the right to get ends before, no
   Deliver follows.
3. If the record is damaged, the message is set aside, and no Deliver follows.
"""

from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from qmgr_protocol.need import Right
from qmgrd.core.context.context import Context
from qmgrd.core.context.piece_sender import BODY
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.queue import lane
from qmgrd.core.queue.lease import Consumer, Lessee
from qmgrd.core.returns.returns import UNREAD
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.settlements import Settlements


class LongDelivery:
    """One leased message. A :class:`~qmgrd.core.context.piece_sender.LongSend`."""

    def __init__(
        self,
        context: Context,
        settlements: Settlements,
        session: Session,
        consumer: Consumer,
        record: LongRecord,
        deliver: m.Deliver,
    ) -> None:
        """Makes the consumer wait.

        Args:
            context: The context of the core.
            settlements: The owner of the timers of leases.
            session: The session of the consumer.
            consumer: The consumer that has leased the message.
            record: The record.
            deliver: The message that follows the last piece, with the item of the record alone.
        """
        self.record = record
        self.piece_bytes = session.piece_bytes
        self._context = context
        self._settlements = settlements
        self._session = session
        self._consumer = consumer
        self._deliver = deliver
        arrival = m.DELIVERY.unpack_from(deliver.items[0])[1]
        self._lease = consumer.queue.leases[arrival]
        self._move_to(session.lessee(consumer.queue, m.LEASE_MAX_MS, is_started=False))
        consumer.is_sent_pieces = True

    def goes_on(self) -> bool:
        """Returns False if the lease or the consumer has ended."""
        lease, consumer = self._lease, self._consumer
        queue = consumer.queue
        is_taken_back = lease.arrival in queue.groups.held_groups.taken_back
        if queue.deleted or queue.leases.get(lease.arrival) is not lease or is_taken_back:
            self._end_without_delivery()
            return False
        if not (consumer.is_get or consumer.open):
            # The consumer was cancelled, and no Deliver may follow its Ended.
            self._settlements.give_back(lease, UNREAD)
            return False
        if not self._may_get():
            self._settlements.give_back(lease, UNREAD)
            self._end_without_delivery()
            return False
        return True

    def _may_get(self) -> bool:
        """Returns whether the user still has the right to get the message."""
        check = self._session.check_right
        try:
            if check is not None:
                check(Right.GET, self._consumer.queue.name)
        except RequestError:
            return False
        return True

    def _move_to(self, lessee: Lessee) -> None:
        """Makes the lease one of *lessee*, with its full duration from now on."""
        lease, queue = self._lease, self._consumer.queue
        lease.lessee.leases.pop(lease.arrival, None)
        deadline_ms = self._context.now.ms + lessee.lease_ms
        self._lease = lease._replace(lessee=lessee, deadline_ms=deadline_ms)
        queue.leases[lease.arrival] = lessee.leases[lease.arrival] = self._lease
        self._settlements.watch(lessee)

    def finish(self) -> None:
        """Delivers the message, and lets the consumer receive further ones."""
        lessee = self._consumer.lessee  # The session may have dropped it, as it had no leases.
        queue, is_started = self._consumer.queue, lessee.is_started
        self._move_to(self._session.lessee(queue, lessee.lease_ms, is_started=is_started))
        deliver = self._deliver._replace(bodies=[[0, BODY]])
        self._context.send(self._consumer.connection, deliver)
        self._let_go()

    def set_aside(self) -> None:
        """Ends the lease, and moves the message to the damaged ones."""
        context, lease, queue = self._context, self._lease, self._consumer.queue
        self._settlements.give_back(lease, UNREAD)
        row = queue.find(context.tx, lease.priority, lease.arrival)
        if row is not None:
            lane.set_aside(queue, context.tx, *row)
        context.mark_changed(queue)
        context.note("error", "damaged messages set aside", queue=queue.name, count=1)
        self._end_without_delivery()

    def _end_without_delivery(self) -> None:
        consumer = self._consumer
        if consumer.is_get:
            self._context.send(consumer.connection, m.Ok(consumer.request_id))
        self._let_go()

    def _let_go(self) -> None:
        consumer = self._consumer
        consumer.is_sent_pieces = False
        if consumer.open:
            consumer.queue.waiting.resume(consumer)
            self._context.wake(consumer.queue)
