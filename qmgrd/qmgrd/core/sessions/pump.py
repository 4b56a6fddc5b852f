"""Handing out: which of those who want something of a queue are asked, in which order, how much.

Those in rotation have a share each. Those who seek through an index are asked when it has something
for them. What cannot be handed out in one turn, as it has had its rows, is left to the next.
"""

from collections import OrderedDict
from collections.abc import Callable

from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from qmgrd.core.context.context import Context
from qmgrd.core.limits.budget import LOOK_EACH
from qmgrd.core.queue.group.select import MatchInconsistent
from qmgrd.core.queue.group.take import take_in_order
from qmgrd.core.queue.lease import Consumer
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.seek import Found, seek
from qmgrd.core.sessions.readers import got_in_physical_order
from qmgrd.core.sessions.settlements import Settlements

SHARE_MESSAGES = 256  # at most so many to one consumer before the next has its turn


class Pump:
    """Hands out what the queues that are awake have.

    Args:
        end: has a get be over, with that answer if it has none yet.
    """

    def __init__(
        self,
        context: Context,
        settlements: Settlements,
        end: Callable[[Consumer, m.Message | None], None],
    ) -> None:
        self._context = context
        self._settlements = settlements
        self._end = end
        self._outflow = context.outflow
        self._rows_max = context.turn_rows  # beyond it nothing is handed out

    def run(self, budget_rows: int) -> None:
        """Hand out what is ready to those with credit, until the turn has had its rows."""
        context = self._context
        self._rows_max = budget_rows
        is_over = False
        for queue in list(context.awake_queues.values()):
            if context.rows > budget_rows or is_over:
                return
            if queue.is_transmission:
                continue  # Its link looks after it.
            del context.awake_queues[queue.id]
            if context.begin_work("queue", queue.id):
                self._pump_queue(queue)
            is_over = context.budget.is_over

    def _pump_queue(self, queue: Queue) -> None:
        """Give the consumers of *queue* that want something a share each, in rotation."""
        if queue.ready <= 0:
            queue.sought.clear()  # Whatever comes tells anew for whom it may be.
        allowed = queue.breaker.lets(self._context.now.ms, queue.leases)
        if allowed == 0 or not can_hand(queue):
            self._end_waits(queue)
            return
        moved = bool(queue.sought) and self._pump_seeking(queue, allowed)
        if not (moved and allowed):
            moved |= self._pump_rotation(queue, allowed)
        if moved:  # Else there is nothing to be had until something changes.
            self._context.totals.count(queue)  # A delivery alone writes nothing.
            self._context.awake(queue)
        elif queue.unasked:
            self._context.awake_queues[queue.id] = queue  # For these only.

    def _is_late(self, asked: int = 0) -> bool:
        """Return whether the turn has had its time; looked up at every 16th consumer *asked*."""
        return not asked % LOOK_EACH and self._context.budget.is_over

    def _pump_rotation(self, queue: Queue, allowed: int | None) -> bool:
        """Hand out in rotation; return whether that changed anything.

        Those who have to look for what they want may use up the turn's rows and find nothing: then
        the first ones of the rotation stay unasked, until the next turn. Where one in no group
        finds nothing to begin, neither would others that are in none. A consumer without credit
        leaves the rotation until it has some.
        """
        wanting = sum(self._may_have(consumer) for consumer in queue.consumers)
        share = min(-(-queue.ready // max(wanting, 1)), SHARE_MESSAGES)
        moved, count = False, len(queue.consumers)
        round_, queue.unasked = min(queue.unasked or count, count), 0
        in_vain: set[tuple[int, bool]] = set()
        for asked in range(round_):
            if queue.ready <= 0 or (moved and allowed):
                break
            if asked and (self._context.rows > self._rows_max or self._is_late(asked)):
                queue.unasked = round_ - asked
                break  # The others have their share in the next turn.
            consumer = next(iter(queue.consumers))
            if not consumer.wants:
                del queue.consumers[consumer]
                queue.resting[consumer] = None
                continue
            queue.consumers.move_to_end(consumer)
            if self._may_have(consumer):
                way = consumer.order, consumer.all_available
                is_new = consumer.is_new and not queue.groups.holds.has_assigned
                if is_new and way in in_vain and not consumer.wait_over:
                    continue
                had = self._hand(queue, consumer, allowed or share)
                if consumer.lacks_room:
                    break  # The others would meet the same long message.
                if is_new and not had:
                    in_vain.add(way)
                moved |= had
        return moved

    def _pump_seeking(self, queue: Queue, allowed: int | None) -> bool:
        """Hand out to those for whom an index has something; return whether it had."""
        moved, first = False, next(iter(queue.sought))
        for prefix in list(queue.sought):
            if moved and allowed:
                break
            if prefix is not first and (self._context.rows > self._rows_max or self._is_late()):
                return True  # The others are looked after in the next turn.
            del queue.sought[prefix]
            moved |= self._pump_sought(queue, prefix, allowed)
        return moved

    def _pump_sought(self, queue: Queue, prefix: bytes, allowed: int | None) -> bool:
        """Hand out in rotation to those who seek *prefix*; return whether there was something."""
        moved = False
        seeking = queue.seeking.get(prefix, OrderedDict())
        for consumer in list(seeking):
            if moved and (allowed or self._context.rows > self._rows_max or self._is_late()):
                queue.sought[prefix] = None  # The others have their share in the next turn.
                break
            if self._may_have(consumer) and queue.ready > 0:
                seeking.move_to_end(consumer)
                moved |= self._hand(queue, consumer, allowed or SHARE_MESSAGES)
        return moved

    def _end_waits(self, queue: Queue) -> None:
        """Have those go whose wait is over, as there is nothing more to be had for now."""
        for consumer in list(queue.ending):
            self._end(consumer, m.Ok(consumer.request_id))

    def _may_have(self, consumer: Consumer) -> bool:
        """Return whether *consumer* may be sent something now."""
        return consumer.wants and consumer.connection not in self._outflow.held

    def _hand(self, queue: Queue, consumer: Consumer, share: int) -> bool:
        """Lease a share to *consumer*; return whether that changed anything."""
        context, outflow = self._context, self._outflow
        consumer.frame_bytes, consumer.lacks_room = outflow.frame_bytes, False
        damaged_before = queue.counters.damaged
        try:
            items, at_end = self._take(queue, consumer, share)
        except MatchInconsistent as error:
            self._end(consumer, refusal(consumer, error))
            return True
        damaged = queue.counters.damaged - damaged_before
        if damaged:
            context.dirty_queues[queue.id] = queue
            context.note("error", "damaged messages set aside", queue=queue.name, count=damaged)
        if consumer.seeks and not at_end:
            queue.sought[consumer.prefix] = None
        if consumer.lacks_room:
            outflow.starved[queue.id] = queue
            return bool(damaged)
        if not items:
            if at_end and consumer.wait_over:
                self._end(consumer, m.Ok(consumer.request_id))
            return bool(damaged) or not at_end
        size_bytes = sum(map(len, items))
        context.count_read(len(items), size_bytes)
        outflow.made(consumer.connection, size_bytes)
        deliver = m.Deliver(consumer.request_id, queue.id, items)
        context.send(consumer.connection, deliver)
        queue.breaker.handed(items)
        if queue.account is not None:
            queue.account.delivered(consumer.lessee.client, items, queue.leases)
        self._settlements.watch(consumer.lessee)
        if consumer.is_get:
            self._end(consumer, None)
        return True

    def _take(self, queue: Queue, consumer: Consumer, share: int) -> tuple[list[bytes], bool]:
        """Return delivery items for *consumer*, and whether there is nothing more for it now.

        Raises:
            MatchInconsistent: nothing is leased.
        """
        context, reader = self._context, consumer.reader
        is_any = not (consumer.seeks or consumer.is_choosy)
        if consumer.is_ordered:
            found = take_in_order(queue, context.tx, context.now, consumer, share)
        elif is_any and not queue.counters.grouped:
            items = queue.take(context.tx, context.now, consumer, share)
            found = Found(items, 0, at_end=True)
        else:
            found = seek(queue, context.tx, context.now, consumer, share)
        if found.items and reader is not None and not consumer.is_ordered:
            got_in_physical_order(queue, context.tx, reader, found.items[-1])
        context.count_read(found.looked_at, 0)
        return found.items, found.at_end


def refusal(consumer: Consumer, error: RequestError) -> m.Error:
    """Return what a get that cannot go on is answered."""
    return m.Error(
        consumer.request_id, error.code, error.error_class, error.retry_after_ms, error.text
    )


def can_hand(queue: Queue) -> bool:
    """Return whether *queue* has anything that may be handed out."""
    bounds = queue.bounds
    return queue.ready > 0 and len(queue.leases) < bounds.leases_max and not bounds.get_inhibit
