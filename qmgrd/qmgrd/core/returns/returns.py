"""How messages come back from consumers: when they can be had again, or that they never are.

    given back ──▶ counts raised ──▶ threshold reached? ──▶ dead letter
                                         │ no
                                         ▼
                             delayed, as the consumer says, or as the queue has it

A wait after a failure grows with each, and is cut by chance, so that what failed together is not
tried together. The chance is made of the message itself: nothing here rolls a die.
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
from qmgrd.core.queue.breaker import State
from qmgrd.core.queue.lease import Lease
from qmgrd.core.queue.notes import Cause
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters

STUCK_MS = 10_000  # until what should be a dead letter, and has no place, is handed out again
RETURNS_PER_TURN = 500
_EXPONENT_MAX = 100


class How(NamedTuple):
    """How a message comes back."""

    delivered: bool = True  # it was handed out for good
    failed: bool = False
    delay_ms: int = 0
    code: int = 0  # why, for its history
    reason: str = ""
    text: str = ""
    rejected: bool = False  # for good
    is_own: bool = True  # else it is another member of its group that came back


RELEASED = How(failed=True, delay_ms=DELAY_OF_QUEUE)
LEASE_ENDED = RELEASED._replace(code=int(ErrorCode.LEASE_LOST))
BACKED_OUT = RELEASED._replace(code=int(ErrorCode.UNIT_BACKED_OUT))
CONNECTION_LOST = How()
UNREAD = How(delivered=False)
TAKEN_BACK = How(is_own=False)


class Returns:
    """What comes back. Invariant: what connections and units left that are gone is ``waiting``."""

    def __init__(self, context: Context, dead_letters: DeadLetters) -> None:
        self._context = context
        self._dead_letters = dead_letters
        self.waiting: deque[tuple[Lease, How]] = deque()

    def later(self, leases: Iterable[Lease], how: How) -> None:
        """Have *leases*, for which nobody waits, come back in slices."""
        self.waiting.extend((lease, how) for lease in leases)

    def slice(self, count: int) -> None:
        """Bring back up to *count* of those that wait, looking at RETURNS_PER_TURN at most."""
        for at in range(min(RETURNS_PER_TURN, len(self.waiting))):
            if not count or (at and not at % LOOK_EACH and self._context.budget.is_over):
                return
            lease, how = self.waiting.popleft()
            queue = lease.lessee.queue
            if queue.deleted or queue.leases.get(lease.arrival) is not lease:
                continue  # It was settled, or ended, in the meantime.
            self.give_back(lease, how)
            count -= 1

    def give_back(self, lease: Lease, how: How) -> None:
        """Ends *lease*; its message can be had again, in time, or is a dead letter."""
        if not self._context.begin_work("message", lease.key):
            return
        self._give_back(lease, how)
        if how.failed:
            self.count(lease.lessee.queue, 0, 1)

    def count(self, queue: Queue, consumed: int, failed: int) -> None:
        """Have the breaker of *queue* know, and operators where it opens or closes."""
        context = self._context
        state = queue.breaker.note(queue.bounds, context.now.ms, consumed, failed)
        if state is None:
            return
        event = "breaker opened" if state is State.OPEN else "breaker closed"
        context.event(event, queue=queue.name)
        context.note("warning" if state is State.OPEN else "info", event, queue=queue.name)
        if state is State.OPEN:
            context.timers.at(queue.breaker.until_ms, lambda: context.awake(queue))
        context.awake(queue)

    def _give_back(self, lease: Lease, how: How) -> None:
        context, queue = self._context, lease.lessee.queue
        value = queue.value_of(context.tx, lease)
        entry = entries.decode(value)
        context.count_read(1, 0)
        context.touch(queue)
        is_over = 0 < entry.expires_ms <= context.now.ms  # Then it just expires, once it is back.
        code = 0 if is_over else self._end_of(queue, entry, how)
        delay_ms = _delay_ms(queue.bounds, entry, how)
        if code and self._park(queue, lease, entry, code):
            delay_ms = code = 0
        if code:
            cause = Cause(
                code, how.reason, how.text, lease.lessee.client, how.delivered, how.failed, how.code
            )
            if self._dead_letters.bury(queue, lease.key, value, cause):
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
        self.later((one for one in behind if not one.lessee.is_unit), TAKEN_BACK)

    def _park(self, queue: Queue, lease: Lease, entry: entries.Entry, code: int) -> bool:
        """Have a group wait of which a member is a dead letter; return whether it is in one.

        All of it goes once it is whole, in order, or is closed (group_end.py): never one alone.
        """
        group = index.selected_by(entries.front(self._context.tx, entry))[1]
        if lease.key[keys.POSITION_AT] != keys.LANE_GROUPED or group is None:
            return False
        if not self._dead_letters.has_way(queue, code):
            return False  # From the dead-letter queue itself nothing goes: it is tried again.
        row = queue.groups.row(self._context.tx, group[0])
        if row is None:
            return False
        queue.groups.holds.let_go(group[0])  # Its reader goes on with others.
        if not row.parked_number:  # The first one that failed says why.
            row.parked_number, row.parked_code = group[1], int(code)
            queue.groups.touch(group[0])
            self._context.event("group parked", queue=queue.name, group=shown(group[0]))
        return True

    def _end_of(self, queue: Queue, entry: entries.Entry, how: How) -> int:
        """Returns why the message is a dead letter from here on, or 0."""
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

    def _note(self, queue: Queue, entry: entries.Entry, lease: Lease, how: How) -> bytes:
        if not how.failed or self._context.store_full:
            return b""  # Its counts are raised in any case; a note would take the last room.
        note = notes.read(self._context.tx, queue.id, lease.arrival) if entry.noted else {}
        now_us, client = self._context.now.wall_us, lease.lessee.client
        note = notes.with_attempt(note, now_us, how.code, how.reason, how.text, client)
        return notes.encode(note)


def _counts(bounds: Bounds, entry: entries.Entry, how: How) -> bool:
    """Returns whether a delivery is counted that came to nothing.

    What is taken back uses up no limit: it is counted once, for all to know that it was handed out.
    """
    return how.delivered and (how.is_own or not (bounds.delivery_limit and entry.delivered))


def _delay_ms(bounds: Bounds, entry: entries.Entry, how: How) -> int:
    """Returns for how long a message that comes back cannot be had."""
    if how.delay_ms != DELAY_OF_QUEUE:
        return how.delay_ms
    if not how.failed or not bounds.retry_initial_ms:
        return 0
    exponent = min(entry.failed, _EXPONENT_MAX)
    wait_ms = min(bounds.retry_initial_ms * bounds.retry_factor**exponent, bounds.retry_max_ms)
    chance = crc32(entries.uid_trailer(entry), entry.failed) % 1_000
    return int(wait_ms * (1 - bounds.retry_jitter_percent / 100 * chance / 1_000))
