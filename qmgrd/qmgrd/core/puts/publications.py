"""Publications: each is stored once and sent to the subscriptions that match its topic.

    put to /topic ──▶ SYSTEM.PUBLICATIONS ──fan-out──▶ a reference on each subscription
                          │  number 7                      under the number 7
                          │                                    │ ack, expiry, purge, end
                          └───── removed with the last ◀───────┘

1. Publications have their own queue, which checks, stamps and refuses them like any other message.
   The arrival number on this queue is the number of a publication, and its arrival number on each
   subscription.
2. A reference has no record, only the length and UID of the record. One row counts the references.
3. The fan-out reads that queue in batches from its last position. The matching part of a batch is
   added to each subscription in one step. The position is stored so that the next turn, or a start,
   can continue. A batch is short if selectors are costly, so that each step takes a short time.
   Publications before the ``first`` of a subscription are older than the subscription
   and are not added.
4. A publication without references is removed once its batch has been sent.
5. If the store is nearly full, the fan-out pauses until there is room. Puts are refused before that
   point.
"""

from itertools import islice
from typing import NamedTuple

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgrd.core.catalogue import topics
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.subscription import Subscription
from qmgrd.core.context.context import CRAMPED_MS, Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.limits.budget import LOOK_EACH
from qmgrd.core.limits.timers import Timer
from qmgrd.core.puts.fan_out import Publication, publication_of, put_publications
from qmgrd.core.puts.forward import forward
from qmgrd.core.queue import lane
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.selector.selector import Cost, highest, sum_of

BATCH_MAX = 256
BATCH_BYTES_MAX = 1024 * 1024
# Maximum number of pairs of a topic and a matching subscription in one batch.
BATCH_MATCHES_MAX = 20_000
# Maximum number of steps of selectors between two looks at the time, except for one publication.
BATCH_STEPS_MAX = 5_000_000
_COUNT_BYTES = 4


class _Batch(NamedTuple):
    """Publications that are sent together, and the part for each subscription, by queue id."""

    first: int
    stop: int
    found: list[Publication]
    parts: list[tuple[int, Subscription, list[Publication]]]


class Publications:
    """The fan-out of publications. Invariant: all publications before ``_next`` have been sent."""

    def __init__(self, context: Context, catalogue: Catalogue, dead_letters: DeadLetters) -> None:
        self._context = context
        self._catalogue = catalogue
        self._dead_letters = dead_letters
        self._batch: _Batch | None = None
        self._at = 0  # the number of parts of the batch that have been sent
        self._is_stored = False  # whether the position is stored
        self._look: Timer | None = None  # the timer for the next check for room
        queue = catalogue.by_id.get(keys.PUBLICATIONS_ID)
        self._next = queue.counters.next_arrival if queue is not None else 1
        row = rows.find(context.tx, keys.FAN_OUT)
        if row is not None and queue is not None:
            position: tuple[int, int, int] | None = None
            with context.aside.guard(context, keys.FAN_OUT):
                position = _position(row, self._next)
            if position is not None:
                self._is_stored = True
                self._resume(queue, *position)
        catalogue.topics.next_out = self._next

    @property
    def is_busy(self) -> bool:
        """Whether any publication has not been sent yet."""
        if self._batch is not None:
            return True
        queue = self._catalogue.by_id.get(keys.PUBLICATIONS_ID)
        return queue is not None and self._next < queue.counters.next_arrival

    @property
    def can_go_on(self) -> bool:
        """Whether any publication has not been sent yet and has room."""
        return self.is_busy and not self._context.is_cramped

    def _resume(self, queue: Queue, first: int, stop: int, queue_id: int) -> None:
        self._next = first
        if stop > first:
            self._batch = self._read(queue, stop, is_known=True)
            queue.flush(self._context.tx)  # Damage may have been found.
            self._context.totals.count(queue)
            parts = self._batch.parts
            self._at = sum(known <= queue_id for known, _, _ in parts)

    def run(self) -> None:
        """Sends publications as long as the turn has rows left for them."""
        queue, context = self._catalogue.by_id.get(keys.PUBLICATIONS_ID), self._context
        if queue is None:
            return
        context.awake_queues.pop(queue.id, None)  # The queue has no consumers.
        rows_max = max(context.turn_rows, context.rows + context.turn_rows // 2)
        is_over = False
        while context.rows < rows_max and self.can_go_on and not is_over:
            if self._batch is None:
                self._batch = self._read(queue, queue.counters.next_arrival)
                self._next, self._at = self._batch.first, 0
                for publication in self._batch.found:
                    # The publication is kept until its batch has been sent.
                    self._catalogue.references.add(publication.arrival)
            self._give(self._batch, rows_max)
            is_over = context.budget.is_over
        self._catalogue.topics.next_out = self._next
        self._count(queue)
        if context.is_cramped and self.is_busy and (self._look is None or self._look.call is None):
            self._look = context.timers.at(context.now.ms + CRAMPED_MS, lambda: None)

    def _give(self, batch: _Batch, rows_max: int) -> None:
        context, given, is_slow = self._context, 0, False
        while self._at < len(batch.parts):
            is_over = context.rows >= rows_max and self._at
            if given and (is_slow or not given % LOOK_EACH) and context.budget.is_over:
                is_over = True
            given += 1
            # The stored position is a queue id. Proxies have none, so they all come first, in one
            # step.
            if is_over and batch.parts[self._at][0]:
                return
            queue_id, subscription, part = batch.parts[self._at]
            is_slow = subscription.selector is not None
            self._at += 1
            if self._catalogue.topics.subscriptions.get(subscription.name) is not subscription:
                continue  # The subscription ended while the batch was being sent.
            if not self._context.begin_work("fan-out", f"{batch.first} {queue_id}"):
                continue
            if subscription.manager:
                forward(self._context, self._catalogue, subscription, part)
            else:
                put_publications(
                    self._context, self._catalogue, self._dead_letters, subscription, part
                )
        for publication in batch.found:
            is_retained = publication.front[records.FLAGS_AT] & records.FLAG_RETAINED
            if is_retained and self._context.begin_work("publication", publication.arrival):
                self._retain(publication)
            self._catalogue.references.remove(publication.arrival)
        self._batch, self._next = None, batch.stop

    def _read(self, queue: Queue, stop: int, *, is_known: bool = False) -> _Batch:
        """Returns the next batch before *stop*, and sets damaged publications aside.

        Args:
            is_known: Whether this batch was already being sent up to *stop*. The batch keeps its
                length, because some subscriptions already have all of it.
        """
        tx, found, size = self._context.tx, list[Publication](), 0
        matches, steps, costs = 0, 0, dict[str, Cost]()
        start = keys.publication(self._next)
        rows_ = list(islice(tx.scan(start, keys.publication(stop)), BATCH_MAX))
        if len(rows_) == BATCH_MAX:
            stop = keys.place(rows_[-1][0])[1] + 1
        for key, value in rows_:
            publication = publication_of(self._context, keys.place(key)[1], value)
            if publication is not None:
                found.append(publication)
                size += len(value)
                if (topic := publication.entry.target) not in costs:
                    matching = self._catalogue.topics.match(topic)
                    costs[topic] = _selection_cost(matching)
                    matches += len(matching)
                if (cost := costs[topic]).selectors:
                    envelope_bytes = records.envelope_bytes(publication.front)
                    steps += cost.steps(publication.size, envelope_bytes)
            else:
                lane.set_aside(queue, tx, key, value)
                self._context.dirty_queues[queue.id] = queue
            is_full = (
                size >= BATCH_BYTES_MAX or matches >= BATCH_MATCHES_MAX or steps >= BATCH_STEPS_MAX
            )
            if is_full and not is_known:
                stop = keys.place(key)[1] + 1
                break
        self._context.count_read(len(rows_), 0)
        return _Batch(self._next, stop, found, self._parts(found))

    def _parts(self, found: list[Publication]) -> list[tuple[int, Subscription, list[Publication]]]:
        by_id: dict[tuple[int, str], tuple[Subscription, list[Publication]]] = {}
        by_topic: dict[str, list[Publication]] = {}
        for publication in found:
            by_topic.setdefault(publication.entry.target, []).append(publication)
        is_mixed = len(by_topic) > 1
        for topic, some in by_topic.items():
            for subscription in self._catalogue.topics.match(topic):
                queue_id = 0 if subscription.queue is None else subscription.queue.id
                part = by_id.setdefault((queue_id, subscription.name), (subscription, []))[1]
                part += some
        parts = [(queue_id, *by_id[queue_id, name]) for queue_id, name in sorted(by_id)]
        for _, _, part in parts if is_mixed else ():
            part.sort(key=lambda publication: publication.arrival)
        return parts

    def _retain(self, publication: Publication) -> None:
        """Retains *publication* for later subscribers. An empty publication clears the topic."""
        tx, topic = self._context.tx, publication.entry.target
        before = topics.retained(tx, topic)
        if before is not None:
            self._catalogue.references.remove(before)
        is_empty = not records.HEAD.unpack_from(publication.front)[-1]
        topics.retain(tx, topic, 0 if is_empty else publication.arrival)
        if not is_empty:
            self._catalogue.references.add(publication.arrival)

    def _count(self, queue: Queue) -> None:
        """Writes the changed numbers of references. Removes publications without references."""
        tx, changes = self._context.tx, self._catalogue.references.changes
        for arrival, change in changes.items():
            if not self._context.begin_work("publication", arrival):
                continue
            key = keys.reference_count(arrival)
            row = rows.find(tx, key)
            count = change + (int.from_bytes(row, "big") if row is not None else 0)
            self._context.count_read(1, 0)
            if count > 0:
                if change:
                    rows.put(tx, key, count.to_bytes(_COUNT_BYTES, "big"))
                continue
            if row is not None:
                tx.delete(key)
            self._remove(queue, arrival)
        changes.clear()

    def _remove(self, queue: Queue, arrival: int) -> None:
        context, key = self._context, keys.publication(arrival)
        value = context.tx.get(key)
        if value is None:
            return
        entry = lane.remove(queue, context.tx, key, value)
        queue.counters.count_acked()
        queue.record_history(history.SETTLED, key, entry, target=entry.target)
        context.dirty_queues[queue.id] = queue
        if queue.bounds.dedup_retention_ms:
            until_ms = context.now.ms + queue.bounds.dedup_retention_ms
            queue.remember(context.tx, until_ms, entries.uid_trailer(entry), 9, arrival)

    def count(self) -> None:
        """Writes the position of the fan-out, and the references removed since *run* in this
        turn.
        """
        queue = self._catalogue.by_id.get(keys.PUBLICATIONS_ID)
        if queue is None:
            return
        if self._catalogue.references.changes:
            self._count(queue)
        self._store()

    def _store(self) -> None:
        """Stores the position of the fan-out, or deletes it if all publications have been sent."""
        context = self._context
        if self.is_busy:
            batch = self._batch
            stop = self._next if batch is None else batch.stop
            queue_id = batch.parts[self._at - 1][0] if batch is not None and self._at else 0
            rows.put(context.tx, keys.FAN_OUT, keys.FAN_OUT_ROW.pack(self._next, stop, queue_id))
            context.wrote = self._is_stored = True
        elif self._is_stored:
            context.tx.delete(keys.FAN_OUT)
            context.wrote, self._is_stored = True, False


def _selection_cost(matching: tuple[Subscription, ...]) -> Cost:
    """Returns the maximum cost of selecting a publication in one step of the fan-out.

    One step sends a publication to all proxies. Each further step sends it to one subscription.
    """
    proxies, others = list[Cost](), list[Cost]()
    for subscription in matching:
        if subscription.selector is not None:
            (proxies if subscription.manager else others).append(subscription.selector.cost)
    return sum_of([*proxies, highest(others)])


def _position(row: bytes, next_arrival: int) -> tuple[int, int, int]:
    """Returns the first and stop number of the batch in progress, and the last queue id that
    received it.

    Raises:
        ValueError: The values are impossible.
    """
    first, stop, queue_id = keys.FAN_OUT_ROW.unpack(row)
    if not 1 <= first <= stop <= next_arrival:
        raise ValueError(f"batch {first} to {stop} exceeds the last number, {next_arrival - 1}")
    return first, stop, queue_id
