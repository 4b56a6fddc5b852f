"""Delivers messages: decides which consumers of a queue receive messages, how many, and when.

Each consumer in the rotation receives a share. Consumers that seek through an index are served when
the index has a message for them. If a turn runs out of rows, the next turn continues.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping

from qmgr_protocol import messages as m
from qmgrd.core.context.context import Context
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.queue.breaker import BreakerState
from qmgrd.core.queue.group.select import MatchInconsistent
from qmgrd.core.queue.group.take import take_in_order
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.seek import SeekResult, seek
from qmgrd.core.queue.take import take
from qmgrd.core.sessions.long_delivery import LongDelivery
from qmgrd.core.sessions.readers import got_in_physical_order
from qmgrd.core.sessions.session import Session, error_of
from qmgrd.core.sessions.settlements import Settlements

# The maximum number of messages for one consumer before the next one is served.
SHARE_MESSAGES = 256


class DeliveryPump:
    """Delivers the messages of queues that are awake.

    Args:
        end: The function that ends a get and sends the given reply unless it is None.
        sessions: The sessions by connection.
    """

    def __init__(
        self,
        context: Context,
        settlements: Settlements,
        end: Callable[[Consumer, m.Message | None], None],
        sessions: Mapping[int, Session],
    ) -> None:
        self._context = context
        self._settlements = settlements
        self._end = end
        self._sessions = sessions
        self._unread_replies = context.unread_replies
        self._rows_max = context.turn_rows  # the number of rows above which no message is delivered
        self._starved: dict[int, Queue] = {}  # queues whose next message had no room

    def feed_starved(self) -> None:
        """Wakes the queues whose next message had no room, once room is available."""
        if self._unread_replies.is_room_short or not self._starved:
            return
        for queue in self._starved.values():
            if not queue.deleted:
                queue.waiting.seek_all()
                self._context.wake(queue)
        self._starved.clear()

    def run(self, budget_rows: int) -> None:
        """Delivers messages to consumers that have credit, until the turn has used up its rows."""
        context = self._context
        self._rows_max = budget_rows
        is_over = False
        for queue in list(context.awake_queues.values()):
            if context.rows > budget_rows or is_over:
                return
            if queue.is_transmission:
                continue  # Its link sends its messages.
            del context.awake_queues[queue.id]
            if context.begin_work("queue", queue.id):
                self._pump_queue(queue)
            is_over = context.budget.is_over

    def _pump_queue(self, queue: Queue) -> None:
        """Gives a share to each consumer of *queue* that wants messages, in rotation."""
        waiting = queue.waiting
        if waiting.available:
            waiting.tell()
        if not (waiting or waiting.sought) and queue.breaker.state is BreakerState.CLOSED:
            return  # Nobody waits, as on most queues with puts only.
        if queue.ready <= 0:
            # Whether a consumer may receive a message is decided again for each message.
            queue.waiting.sought.clear()
        allowed = queue.breaker.allowance(self._context.now.ms, queue.leases)
        if allowed == 0 or not can_hand(queue):
            self._end_waits(queue)
            return
        moved = bool(queue.waiting.sought) and self._pump_seeking(queue, allowed)
        if not (moved and allowed):
            moved |= self._pump_rotation(queue, allowed)
        if moved:  # Otherwise, nothing can be delivered until the state changes.
            self._context.totals.count(queue)  # A delivery by itself writes nothing to the store.
            self._context.wake(queue)
        elif queue.waiting.unasked:
            # The next round serves the consumers that were not asked yet.
            self._context.awake_queues[queue.id] = queue

    @property
    def _is_over(self) -> bool:
        """Whether the turn has used up its rows or its time. Checked for each consumer, because one
        that selects may examine hundreds of messages.
        """
        return self._context.rows > self._rows_max or self._context.budget.is_over

    def _pump_rotation(self, queue: Queue, allowed: int | None) -> bool:
        """Delivers to the consumers in rotation. Returns whether the state changed.

        Consumers that search for their messages may use up the turn's rows without finding any. In
        this case, the next turn starts with the consumers that were not asked. If one consumer
        outside of groups finds no group to begin, the other consumers outside of groups would not
        find one either. A consumer without credit leaves the rotation until it has credit.
        """
        waiting = queue.waiting
        rotation = waiting.rotation
        wanting = sum(self._may_have(consumer) for consumer in rotation)
        share = min(-(-queue.ready // max(wanting, 1)), SHARE_MESSAGES)
        moved, count = False, len(rotation)
        round_, waiting.unasked = min(waiting.unasked or count, count), 0
        in_vain: set[tuple[int, bool]] = set()
        for asked in range(round_):
            if queue.ready <= 0 or (moved and allowed):
                break
            if asked and self._is_over:
                waiting.unasked = round_ - asked
                break  # The next turn serves the other consumers.
            consumer = next(iter(rotation))
            if not consumer.wants:
                waiting.pause(consumer)
                continue
            rotation.move_to_end(consumer)
            if self._may_have(consumer):
                way = consumer.order, consumer.all_available
                is_new = consumer.is_new and not queue.groups.held_groups.has_assigned
                if is_new and way in in_vain and not consumer.wait_over:
                    continue
                had = self._hand(queue, consumer, allowed or share)
                if consumer.lacks_room:
                    break  # The message is also too long for the other consumers.
                if is_new and not had:
                    in_vain.add(way)
                moved |= had
        return moved

    def _pump_seeking(self, queue: Queue, allowed: int | None) -> bool:
        """Delivers to consumers for which an index has a message.

        Returns whether a message was found.
        """
        moved, first = False, next(iter(queue.waiting.sought))
        for prefix in list(queue.waiting.sought):
            if moved and allowed:
                break
            if prefix is not first and self._is_over:
                return True  # The next turn serves the other consumers.
            del queue.waiting.sought[prefix]
            moved |= self._pump_sought(queue, prefix, allowed)
        return moved

    def _pump_sought(self, queue: Queue, prefix: bytes, allowed: int | None) -> bool:
        """Delivers in rotation to consumers that seek *prefix*. Returns whether a consumer got a
        message.
        """
        moved = False
        seeking = queue.waiting.seeking.get(prefix, OrderedDict())
        for consumer in list(seeking):
            if moved and (allowed or self._is_over):
                # The other consumers receive their share in the next turn.
                queue.waiting.sought[prefix] = None
                break
            if self._may_have(consumer) and queue.ready > 0:
                seeking.move_to_end(consumer)
                moved |= self._hand(queue, consumer, allowed or SHARE_MESSAGES)
        return moved

    def _end_waits(self, queue: Queue) -> None:
        """Ends the gets whose wait is over, because the queue has no message for them."""
        for consumer in list(queue.waiting.ending):
            self._end(consumer, m.Ok(consumer.request_id))

    def _may_have(self, consumer: Consumer) -> bool:
        """Returns whether the daemon may send a message to *consumer* now."""
        return consumer.wants and consumer.connection not in self._unread_replies.held

    def _hand(self, queue: Queue, consumer: Consumer, share: int) -> bool:
        """Leases a share to *consumer*. Returns whether the state changed."""
        context, unread_replies = self._context, self._unread_replies
        consumer.frame_bytes, consumer.lacks_room = unread_replies.frame_bytes, False
        damaged_before = queue.counters.damaged
        try:
            items, at_end = self._take(queue, consumer, share)
        except MatchInconsistent as error:
            self._end(consumer, error_of(consumer.request_id, error))
            return True
        damaged = queue.counters.damaged - damaged_before
        if damaged:
            context.dirty_queues[queue.id] = queue
            context.note("error", "damaged messages set aside", queue=queue.name, count=damaged)
        if consumer.seeks and not at_end:
            queue.waiting.sought[consumer.prefix] = None
        if consumer.lacks_room:
            self._starved[queue.id] = queue
            return bool(damaged)
        if not items:
            if at_end and consumer.wait_over:
                self._end(consumer, m.Ok(consumer.request_id))
            return bool(damaged) or not at_end
        size_bytes = sum(map(len, items))
        context.count_read(len(items), size_bytes)
        unread_replies.count_made(consumer.connection, size_bytes)
        deliver = m.Deliver(consumer.request_id, queue.id, items)
        if consumer.long is None:
            context.send(consumer.connection, deliver)
        else:
            self._begin_long(consumer, consumer.long, deliver)
            consumer.long = None
        queue.breaker.handed(items)
        if queue.account is not None:
            queue.account.delivered(consumer.lessee.client, items, queue.leases)
        self._settlements.watch(consumer.lessee)
        if consumer.is_get:
            self._end(consumer, None)
        return True

    def _begin_long(self, consumer: Consumer, record: LongRecord, deliver: m.Deliver) -> None:
        session = self._sessions[consumer.connection]
        delivery = LongDelivery(
            self._context, self._settlements, session, consumer, record, deliver
        )
        self._context.piece_sender.begin(consumer.connection, delivery)

    def _take(self, queue: Queue, consumer: Consumer, share: int) -> tuple[list[bytes], bool]:
        """Returns delivery items for *consumer*, and whether no more messages are available to it.

        Raises:
            MatchInconsistent: The consumer does not select the next member of its group. No message
                is leased.
        """
        context, reader = self._context, consumer.reader
        is_any = not (consumer.seeks or consumer.has_own_position)
        if consumer.is_ordered:
            found = take_in_order(queue, context.tx, context.now, consumer, share)
        elif is_any and not queue.counters.grouped:
            items = take(queue, context.tx, context.now, consumer, share)
            found = SeekResult(items, 0, at_end=True)
        else:
            found = seek(queue, context.tx, context.now, consumer, share)
        if found.items and reader is not None and not consumer.is_ordered:
            item = found.items[-1]
            record = consumer.long or item[m.DELIVERY_BYTES :]
            got_in_physical_order(queue, context.tx, reader, item, record)
        context.count_read(found.looked_at, 0)
        return found.items, found.at_end


def can_hand(queue: Queue) -> bool:
    """Returns whether *queue* has a message that may be delivered."""
    bounds = queue.bounds
    return queue.ready > 0 and len(queue.leases) < bounds.leases_max and not bounds.get_inhibit
