"""Messages that wait for a turn, in one queue per connection. Connections share the time fairly.

Each connection has a clock that shows the time its requests have used. The connection with the
lowest clock is served next. A request therefore waits only for connections that have used less
time. A flood of expensive requests delays only its sender.

    slot 7   [ A  C  D ]     connections with clocks at 7 slots of about 1 ms, in rotation
    slot 8   [ B ]
    slot 20  [ E ]           E sent a request that took 13 ms

1. Connections with clocks in the same slot count as equal and are served in rotation. Therefore,
   the next connection is found in O(1).
2. A connection without waiting requests starts just before the current slot, even if it used less
   time. The connection is served next, after others that joined in the same way. It cannot save up
   time.
3. A connection that has used its share of a turn waits for the next turn. Answers leave at the end
   of a turn. The share is small so that a flood does not delay other answers for a long time.
4. A connection is held, and is in no line, while its peer has too many unread answers, or its user
   has too many on all connections (unread_replies.py). A connection whose next request may have a
   long answer is also held while the answer does not fit in the room.
5. A connection is delayed, and is in no line, while its next request is a put and its user has put
   more than its limits allow (put_rates.py). If it is lost meanwhile, its requests are dropped as
   if they had not arrived: their sender has no answer, and sends the puts again.
6. When another connection is lost, its read-only requests are dropped (reads.py). Other requests
   are served.
"""

from collections import deque
from collections.abc import Callable, Generator, Sequence
from heapq import heappop, heappush

from qmgr_protocol import messages as m
from qmgrd.core.arrivals.arrival import Arrival, ConnectionArrivals
from qmgrd.core.arrivals.delayed_puts import DelayedPuts
from qmgrd.core.broker import Broker
from qmgrd.core.limits.budget import ENDLESS, Budget
from qmgrd.core.limits.put_rates import PutRates
from qmgrd.core.limits.unread_replies import Made, UnreadReplies
from qmgrd.core.requests.reads import DROPPED, LONG
from qmgrd.core.sessions.request_part import SETTLE_HANDLES, Arrived

# Limit in bytes for the waiting messages of one connection. Above it, reading pauses.
AHEAD_MAX_BYTES = 4 * 1024 * 1024
DELAYED_MAX_BYTES = 256 * 1024  # the same limit for a connection whose puts are delayed
SLOT_SHIFT = 20  # the length of a slot as a power of two: 2**20 ns, about a millisecond


class Intake:
    """All waiting arrivals.

    Invariant: between turns each connection with arrivals is exactly once in ``_lines``, ``_held``,
        ``_waiting`` or ``_delayed``, and no line is empty. ``_slots`` is a heap of the slots of all
        lines.
    """

    def __init__(
        self,
        handles_max: int = SETTLE_HANDLES,
        unread_replies: UnreadReplies | None = None,
        bytes_max: int = 64 * 1024 * 1024,
        put_rates: PutRates | None = None,
    ) -> None:
        """Creates an empty intake.

        Args:
            handles_max: The maximum number of handles in one part of a settle request.
            unread_replies: The unread answers, which determine the held connections and the room
                for long answers.
            bytes_max: The limit in bytes for waiting messages of all connections. Above it, the
                daemon reads only from connections without waiting arrivals.
            put_rates: The rates of connections whose users have a limit.
        """
        self._delayed = DelayedPuts(put_rates or PutRates())
        self.handles_max = min(handles_max, SETTLE_HANDLES)
        self._unread_replies = unread_replies or UnreadReplies()
        self._bytes_max = bytes_max
        self._held: dict[int, ConnectionArrivals] = {}
        # Connections that wait for room, in the order in which they began to wait.
        self._waiting: dict[int, ConnectionArrivals] = {}
        self._pending: dict[int, ConnectionArrivals] = {}
        # The line of connections of each slot.
        self._lines: dict[int, deque[ConnectionArrivals]] = {}
        self._slots: list[int] = []
        self._slot = 1  # the latest slot that was served
        # Number of slots that each connection used in the current turn.
        self._had: dict[ConnectionArrivals, int] = {}
        # Connections that have used their share of the current turn.
        self._aside: list[ConnectionArrivals] = []
        self.bytes = 0
        self._now_ms = 0  # store clock time of the present turn
        # The part of the time of the present request that is charged to other connections.
        self._charged_ns = 0

    def is_ahead(self, pending: ConnectionArrivals) -> bool:
        """Returns whether reading from the connection should pause because too many bytes wait."""
        if pending.pieces:
            return True  # Reading more of a long message would hold up other connections.
        waiting = pending.bytes
        limit = DELAYED_MAX_BYTES if pending.is_delayed else AHEAD_MAX_BYTES
        return waiting > 0 and (waiting > limit or self.bytes > self._bytes_max)

    @property
    def is_full(self) -> bool:
        """Whether only connections without waiting arrivals are read."""
        return self.bytes > self._bytes_max

    def __bool__(self) -> bool:
        return bool(self._lines)

    def of(self, connection: int) -> ConnectionArrivals:
        """Returns the waiting arrivals of *connection*."""
        found = self._pending.get(connection)
        if found is None:
            found = self._pending[connection] = ConnectionArrivals(connection)
        return found

    def message(self, connection: int, message: Arrived, size_bytes: int) -> None:
        """Adds a message from a peer."""
        pending = self._pending.get(connection) or self.of(connection)
        pending.bytes += size_bytes
        self.bytes += size_bytes
        if type(message) is m.Put:
            pending.put_messages += len(message.records) or 1
            pending.put_bytes += size_bytes
        else:
            pending.count(message, 1)
        if not pending.arrivals:
            self._add_to_rotation(pending)
        pending.arrivals.append(Arrival(message, None, size_bytes))

    def event(self, connection: int, event: Callable[[Broker], None]) -> None:
        """Adds an event after the earlier messages of the connection."""
        pending = self.of(connection)
        if not pending.arrivals:
            self._add_to_rotation(pending)
        pending.arrivals.append(Arrival(None, event, 0))

    def _add_to_rotation(self, pending: ConnectionArrivals) -> None:
        """Adds *pending*, which was in no line, to a line, and removes its saved-up time."""
        slot = self._slot - 1
        if pending.used_ns >> SLOT_SHIFT <= slot:
            pending.used_ns = slot << SLOT_SHIFT
            line = self._lines.get(slot)
            if line is not None:
                line.append(pending)
                return
        self._enqueue(pending)

    def _enqueue(self, pending: ConnectionArrivals) -> None:
        """Adds *pending*, which has arrivals, to the line of its slot."""
        slot = pending.used_ns >> SLOT_SHIFT
        line = self._lines.get(slot)
        if line is None:
            line = self._lines[slot] = deque()
            heappush(self._slots, slot)
        line.append(pending)

    def block(self, connection: int) -> None:
        """Holds *connection*, whose peer has too many unread answers."""
        self._unread_replies.block(connection)

    def is_held(self, connection: int) -> bool:
        """Returns whether requests of *connection* must wait until its peer has read answers."""
        return connection in self._held

    def unblock(self, connection: int) -> None:
        """Ends the hold on *connection*, whose peer has read all answers."""
        self._unread_replies.unblock(connection)
        self._go_on(connection)

    def _go_on(self, connection: int) -> None:
        pending = self._held.pop(connection, None)
        if pending is not None:
            self._add_to_rotation(pending)
        self.event(0, lambda broker: broker.delivery.go_on(connection))

    @property
    def is_room_short(self) -> bool:
        """Whether connections have waited for room, or may have to, since the last turn."""
        return self._unread_replies.is_room_short

    def set_room(self, room_bytes: float) -> None:
        """Sets the number of bytes that may be sent before peers read answers."""
        self._unread_replies.set_room(room_bytes)
        if self._waiting:
            self._use_room()

    def _use_room(self) -> None:
        """Continues with as many of the connections that wait for room as the room allows."""
        for connection in list(self._waiting)[: self._unread_replies.long_answers]:
            self._add_to_rotation(self._waiting.pop(connection))

    def begin_turn(self, now_ms: int) -> None:
        """Continues with connections whose users have read enough, or have tokens for puts."""
        self._now_ms = now_ms
        for connection in self._unread_replies.count_users(now_ms):
            self._go_on(connection)
        for pending in self._delayed.ready(now_ms):
            self._add_to_rotation(pending)

    def delay(self, pending: ConnectionArrivals) -> tuple[str, int]:
        """Returns the reason why the next request of a connection waits, or "", and the least time.

        The reason is "rate", or "unread" for unread answers of the connection or its user, whose
        time is unknown and thus 0.
        """
        if pending.is_delayed:
            return "rate", self._delayed.wait_ms(pending)
        return ("unread" if pending.connection in self._held else ""), 0

    def waits_for_tokens(self, connection: int) -> bool:
        """Returns whether puts of the user of *connection* are delayed."""
        return self._delayed.waits(connection)

    def delayed_connections(self) -> list[list[ConnectionArrivals]]:
        """Returns the delayed connections of each user."""
        return self._delayed.by_user()

    def next_put_ms(self) -> int | None:
        """Returns the store clock time at which a delayed connection can continue, or None."""
        return self._delayed.next_ms()

    def next_count_ms(self) -> int | None:
        """Returns the store clock time of the next count of users with too many unread answers."""
        return self._unread_replies.next_count_ms(self._now_ms)

    def wrote(self, connection: int, size_bytes: int) -> None:
        """Counts the bytes of answers that were written to *connection*."""
        self._unread_replies.wrote(connection, size_bytes)

    def _drop_requests(self, pending: ConnectionArrivals) -> None:
        """Drops all requests of the lost connection *pending*, which is in no line.

        Its events are served.
        """
        self._delayed.forget(pending)
        self.bytes -= pending.drop_requests()
        if pending.arrivals:
            self._add_to_rotation(pending)
        else:
            del self._pending[pending.connection]

    def left(self, made: Made) -> None:
        """Continues with connections that may do so after the answers of a turn have left."""
        for connection in self._unread_replies.left(made):
            self._go_on(connection)
        if self._waiting:
            self._use_room()

    def close(self, connection: int) -> None:
        """Drops the read-only requests of a lost connection.

        Forgets it once the others are served.
        """
        self._unread_replies.forget(connection)
        pending = self._pending.get(connection)
        if pending is None:
            return
        pending.closed = True
        if pending.is_delayed:
            self._drop_requests(pending)
            return
        is_separate = (
            self._held.pop(connection, None) or self._waiting.pop(connection, None)
        ) is not None
        is_in_line = bool(pending.arrivals) and not is_separate
        self.bytes -= pending.drop_reads()
        if is_in_line and not pending.arrivals:
            # Makes the connection leave its line when its turn comes.
            pending.arrivals.append(Arrival(None, _nothing, 0))
        elif is_separate and pending.arrivals:
            self._add_to_rotation(pending)
        if not pending.arrivals:
            del self._pending[connection]

    def take(
        self, requests_max: int, bytes_max: int, budget: Budget = ENDLESS
    ) -> Generator[tuple[int, Arrival], None, None]:
        """Yields arrivals up to a limit.

        The connection that has used the least time always comes next.

        The time until the caller requests the next arrival is charged to the connection.
        """
        clock_ns, share = budget.clock_ns, budget.share_ns >> SLOT_SHIFT
        lines, slots, slot = self._lines, self._slots, self._slot
        unread_replies = self._unread_replies
        held, limited = unread_replies.held, self._delayed.limited
        now_ns, self._charged_ns = clock_ns(), 0
        try:
            while slots and requests_max > 0 and bytes_max > 0:
                slot = slots[0]
                line = lines[slot]
                if not line:
                    del lines[heappop(slots)]
                    continue
                pending = line.popleft()
                number = pending.connection
                if (held or unread_replies.is_room_short or number in limited) and self._holds_back(
                    pending
                ):
                    continue
                arrival = pending.arrivals.popleft()
                message, _, size_bytes = arrival
                if pending.arrivals:
                    line.append(pending)
                elif pending.closed:
                    del self._pending[pending.connection]
                if message is not None:
                    if type(message) is m.Put:
                        pending.put_messages -= len(message.records) or 1
                        pending.put_bytes -= size_bytes
                    else:
                        pending.count(message, -1)
                    pending.bytes -= size_bytes
                    self.bytes -= size_bytes
                    bytes_max -= size_bytes
                requests_max -= 1
                before_ns = now_ns
                try:
                    yield number, arrival
                finally:
                    now_ns = clock_ns()
                    pending.used_ns += now_ns - before_ns - self._charged_ns
                    self._charged_ns = 0
                    if line and line[-1] is pending and pending.used_ns >> SLOT_SHIFT > slot:
                        line.pop()
                        self._move(pending, slot, share)
                if now_ns >= budget.end_ns:
                    return
        finally:
            self._end_take(slot)

    def charge(self, connections: Sequence[int], time_ns: int) -> None:
        """Charges *time_ns* to *connections* in equal parts, instead of the present request."""
        self._charged_ns += time_ns
        for connection in connections:
            if (pending := self._pending.get(connection)) is not None:
                pending.used_ns += time_ns // len(connections)

    def _holds_back(self, pending: ConnectionArrivals) -> bool:
        """Returns whether *pending* has to wait. If so, takes it out of its line."""
        unread_replies, arrival = self._unread_replies, pending.arrivals[0]
        if arrival.event is not None:
            return False
        kind = type(arrival.message)
        if pending.connection in unread_replies.held and (kind in DROPPED or not pending.is_link):
            self._held[pending.connection] = pending
            return True
        if unread_replies.is_room_short and kind in LONG:
            self._waiting[pending.connection] = pending
            return True
        if not self._delayed.delays(pending, arrival):
            return False
        if pending.closed:  # Otherwise, a user who closes each connection would never wait.
            self._drop_requests(pending)
        return True

    def _move(self, pending: ConnectionArrivals, slot: int, share: int) -> None:
        """Moves *pending* from *slot* to a later slot unless it has used its share of this turn."""
        used = (pending.used_ns >> SLOT_SHIFT) - slot
        self._had[pending] = had = self._had.get(pending, 0) + used
        if had < share:
            self._enqueue(pending)
        else:
            self._aside.append(pending)

    def _end_take(self, slot: int) -> None:
        """Adds the connections that have used their share to the lines for the next turn."""
        self._slot = max(slot, self._slot)
        while self._slots and not self._lines[self._slots[0]]:
            del self._lines[heappop(self._slots)]
        for pending in self._aside:
            self._enqueue(pending)
        self._aside.clear()
        self._had.clear()


def _nothing(broker: Broker) -> None:
    """Does nothing."""
