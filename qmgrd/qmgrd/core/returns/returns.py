"""Returns messages from consumers: to their queues, possibly after a delay, or as dead letters.

    returned ───▶ counts raised ──▶ threshold reached? ──▶ dead letter
                                         │ no
                                         ▼
                             delayed, as the consumer or the queue requests

The delay grows with each failure. The delay is shortened by a random part, so that messages that
failed together are not retried together. The part is computed from the message's UID, because the
core has no source of randomness.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.group_id import shown
from qmgr_protocol.messages import DELAY_OF_QUEUE
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.layout.bounds import Bounds
from qmgrd.core.limits.budget import LOOK_EACH
from qmgrd.core.queue import notes, settle
from qmgrd.core.queue.breaker import BreakerState
from qmgrd.core.queue.lease import Lease
from qmgrd.core.queue.notes import Cause
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters

STUCK_MS = 10_000  # the time until a dead letter that no queue accepts is delivered again
RETURNS_PER_TURN = 500
_EXPONENT_MAX = 100


class ReturnTerms(NamedTuple):
    """The terms under which a message returns to its queue."""

    delivered: bool = True  # whether the consumer has seen the message
    failed: bool = False
    delay_ms: int = 0
    code: int = 0  # the reason for the note
    reason: str = ""
    text: str = ""
    rejected: bool = False  # whether the message becomes a dead letter immediately
    is_own: bool = True  # False if the message returns only because another member of its group did


RELEASED = ReturnTerms(failed=True, delay_ms=DELAY_OF_QUEUE)
LEASE_ENDED = RELEASED._replace(code=int(ErrorCode.LEASE_LOST))
BACKED_OUT = RELEASED._replace(code=int(ErrorCode.UNIT_BACKED_OUT))
CONNECTION_LOST = ReturnTerms()
UNREAD = ReturnTerms(delivered=False)
TAKEN_BACK = ReturnTerms(is_own=False)


class Returns:
    """Returns leased messages to their queues.

    Invariant: ``waiting`` contains the leases of lost connections and units whose messages have not
    been returned yet.
    """

    def __init__(self, context: Context, dead_letters: DeadLetters) -> None:
        self._context = context
        self._dead_letters = dead_letters
        self.waiting: deque[tuple[Lease, ReturnTerms]] = deque()

    def give_back_later(self, leases: Iterable[Lease], how: ReturnTerms) -> None:
        """Schedules the return of the messages of *leases*, in slices.

        No client waits for the result.
        """
        self.waiting.extend((lease, how) for lease in leases)

    def give_back_slice(self, count: int) -> None:
        """Returns the messages of up to *count* waiting leases.

        Examines at most RETURNS_PER_TURN leases.
        """
        for at in range(min(RETURNS_PER_TURN, len(self.waiting))):
            if not count or (at and not at % LOOK_EACH and self._context.budget.is_over):
                return
            lease, how = self.waiting.popleft()
            queue = lease.lessee.queue
            found = queue.leases.get(lease.arrival)
            if queue.deleted or found is None or found.number != lease.number:
                continue  # The lease was settled or timed out in the meantime.
            self.give_back(found, how)
            count -= 1

    def give_back(self, lease: Lease, how: ReturnTerms) -> None:
        """Ends *lease*.

        Its message becomes available again, perhaps after a delay, or a dead letter.
        """
        if not self._context.begin_work("message", lease.key):
            return
        self._give_back(lease, how)
        if how.failed:
            self.count(lease.lessee.queue, 0, 1)

    def count(self, queue: Queue, consumed: int, failed: int) -> None:
        """Counts results in the breaker of *queue*. Reports changes of the breaker to operators."""
        context = self._context
        state = queue.breaker.note(queue.bounds, context.now.ms, consumed, failed)
        if state is None:
            return
        event = "breaker opened" if state is BreakerState.OPEN else "breaker closed"
        context.event(event, queue=queue.name)
        context.note("warning" if state is BreakerState.OPEN else "info", event, queue=queue.name)
        if state is BreakerState.OPEN:
            context.timers.at(queue.breaker.until_ms, lambda: context.wake(queue))
        context.wake(queue)

    def _give_back(self, lease: Lease, how: ReturnTerms) -> None:
        context, queue = self._context, lease.lessee.queue
        value = queue.value_of(context.tx, lease)
        entry = entries.decode(value)
        context.count_read(1, 0)
        context.mark_changed(queue)
        # A message past its expiry expires once it is returned.
        is_over = 0 < entry.expires_ms <= context.now.ms
        code = 0 if is_over else self._end_of(queue, entry, how)
        delay_ms = _delay_ms(queue.bounds, entry, how)
        if code and self._park(queue, lease, entry, code):
            delay_ms = code = 0
        if code:
            cause = Cause(
                code, how.reason, how.text, lease.lessee.client, how.delivered, how.failed, how.code
            )
            if self._dead_letters.make_dead_letter(queue, lease.key, value, cause):
                queue.end(lease)
                return
            delay_ms = max(delay_ms, STUCK_MS)
        behind = settle.return_to_queue(
            queue,
            context.tx,
            lease,
            failed=how.failed,
            delivered=_counts(queue.bounds, entry, how),
            ready_ms=context.now.ms + delay_ms if delay_ms else 0,
            note=self._note(queue, entry, lease, how),
        )
        self.give_back_later((one for one in behind if not one.lessee.is_unit), TAKEN_BACK)

    def _park(self, queue: Queue, lease: Lease, entry: entries.Entry, code: int) -> bool:
        """Parks the group of a message that becomes a dead letter. Returns whether it has a group.

        The whole group leaves in order after it is complete or closed (group_end.py).
        """
        group = index.selected_by(entries.front(self._context.tx, entry))[1]
        if lease.key[keys.POSITION_AT] != keys.LANE_GROUPED or group is None:
            return False
        if not self._dead_letters.has_destination(queue, code):
            # Messages do not leave the dead-letter queue itself, so the message is retried.
            return False
        row = queue.groups.row(self._context.tx, group[0])
        if row is None:
            return False
        # The reader of the group continues with other groups.
        queue.groups.held_groups.release(group[0])
        if not row.parked_number:  # The first member that failed gives the reason.
            row.parked_number, row.parked_code = group[1], int(code)
            queue.groups.mark_changed(group[0])
            self._context.event("group parked", queue=queue.name, group=shown(group[0]))
        return True

    def _end_of(self, queue: Queue, entry: entries.Entry, how: ReturnTerms) -> int:
        """Returns the code of the reason why the message becomes a dead letter now, or 0."""
        bounds = queue.bounds
        if how.rejected:
            return ErrorCode.MESSAGE_REJECTED
        if how.failed:
            threshold, code = self._dead_letters.threshold(queue, entry)
            if 0 < threshold <= entry.failed + 1:
                return code
            return 0
        in_vain = entry.delivered + 1 - entry.failed
        if how.delivered and how.is_own and 0 < bounds.delivery_limit <= in_vain:
            return ErrorCode.DELIVERY_LIMIT_REACHED
        return 0

    def _note(self, queue: Queue, entry: entries.Entry, lease: Lease, how: ReturnTerms) -> bytes:
        if not how.failed or self._context.store_full:
            return b""  # The counters are raised in any case. A note would use the remaining room.
        note = notes.read(self._context.tx, queue.id, lease.arrival) if entry.noted else {}
        now_us, client = self._context.now.wall_us, lease.lessee.client
        note = notes.with_attempt(note, now_us, how.code, how.reason, how.text, client)
        return notes.encode(note)


def _counts(bounds: Bounds, entry: entries.Entry, how: ReturnTerms) -> bool:
    """Returns whether a delivery without a result is counted.

    A message that returns because of its group does not count toward a delivery limit. Only its
    first delivery is counted, to record that the message was delivered.
    """
    return how.delivered and (how.is_own or not (bounds.delivery_limit and entry.delivered))


def _delay_ms(bounds: Bounds, entry: entries.Entry, how: ReturnTerms) -> int:
    """Returns the time for which a returned message stays unavailable."""
    if how.delay_ms != DELAY_OF_QUEUE:
        return how.delay_ms
    if not how.failed or not bounds.retry_initial_ms:
        return 0
    exponent = min(entry.failed, _EXPONENT_MAX)
    wait_ms = min(bounds.retry_initial_ms * bounds.retry_factor**exponent, bounds.retry_max_ms)
    chance = crc32(entries.uid_trailer(entry), entry.failed) % 1_000
    return int(wait_ms * (1 - bounds.retry_jitter_percent / 100 * chance / 1_000))
