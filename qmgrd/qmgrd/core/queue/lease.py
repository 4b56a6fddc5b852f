"""Leases and those who hold them. All of it lives in memory and dies with connections.

A lease belongs to the session of its lessee: no other session can settle or renew it.
"""

from typing import TYPE_CHECKING, NamedTuple

from qmgr_protocol.messages import PHYSICAL
from qmgrd.core.limits.outflow import DELIVER_MAX_BYTES
from qmgrd.core.queue.lease_number import LeaseNumbers

if TYPE_CHECKING:
    from qmgrd.core.context.context import Timer
    from qmgrd.core.queue.group.hold import Reader
    from qmgrd.core.queue.queue import Queue
    from qmgrd.core.selector.selector import Selector


AGAIN_MAX = 1_000  # messages that one who selects looks at once more; beyond it goes back


class Lease(NamedTuple):
    """One message, handed to one consumer until it settles or the deadline passes."""

    number: int
    lessee: "Lessee"
    deadline_ms: int
    priority: int
    arrival: int
    size: int  # of its record
    key: bytes
    index_key: bytes
    is_plain: bool  # Settling needs no look at the entry: these two rows are all that goes.


class Lessee:
    """What one connection has leased of one queue for one length of time, by whichever request.

    Nobody has seen yet what it holds that is not started: its end is no failure.

    Invariant: ``leases`` is in the order of deadlines. They outlast the consumer or get that had
    them; one timer looks after all.
    """

    __slots__ = (
        "client",
        "is_started",
        "is_unit",
        "lease_ms",
        "leases",
        "numbers",
        "queue",
        "timer_set",
    )

    def __init__(
        self,
        queue: "Queue",
        numbers: LeaseNumbers,
        client: str = "",
        lease_ms: int = 0,
        *,
        is_unit: bool = False,
        is_started: bool = True,
    ) -> None:
        self.queue = queue
        self.numbers = numbers  # of its connection
        self.lease_ms = lease_ms
        self.client = client  # its name, for the history of what fails
        self.is_unit = is_unit  # They end with a unit of work, and have no deadline.
        self.is_started = is_started  # else the first renewal starts a lease, with another lessee
        self.leases: dict[int, Lease] = {}
        self.timer_set = False  # one that rings no later than the first deadline

    def is_of(self, numbers: LeaseNumbers) -> bool:
        """Return whether it belongs to that session, perhaps to a connection that it had before."""
        return self.numbers is numbers or self.numbers.session_id == numbers.session_id


class Consumer:
    """A consumer or a waiting get of one connection."""

    __slots__ = (
        "again",
        "all_available",
        "connection",
        "credit_bytes",
        "credit_messages",
        "frame_bytes",
        "heads",
        "is_get",
        "lacks_room",
        "lease_ms",
        "lessee",
        "open",
        "order",
        "owns_reader",
        "prefix",
        "queue",
        "reached",
        "reader",
        "request_id",
        "selector",
        "timer",
        "wait_over",
    )

    def __init__(
        self,
        connection: int,
        request_id: int,
        lessee: Lessee,
        messages: int,
        bytes_: int,
        *,
        is_get: bool = False,
        selector: "Selector | None" = None,
        prefix: bytes = b"",
    ) -> None:
        self.connection = connection
        self.request_id = request_id
        self.queue = lessee.queue
        self.lessee = lessee  # its connection's own
        self.credit_messages = messages
        self.credit_bytes = bytes_
        self.lease_ms = lessee.lease_ms
        self.is_get = is_get
        self.selector = selector
        self.heads = [0] * 10  # If it is choosy: by priority, what is before it does not want.
        # And by 9 - priority and arrival what came there since, to be looked at once more.
        self.again: dict[tuple[int, int], None] = {}
        self.prefix = prefix  # of an index: all that it wants; empty for whatever comes
        self.reached = b""  # if it is choosy, and in an index: where it is to look on
        self.wait_over = False  # It goes once it has looked at all there is.
        self.timer: Timer | None = None  # of a get's wait
        self.order = PHYSICAL
        self.all_available = False  # Of a group it has nothing before all of it can be had.
        self.reader: Reader | None = None
        self.owns_reader = False  # which ends with it
        self.open = True
        self.frame_bytes = DELIVER_MAX_BYTES  # of the next frame, at most
        self.lacks_room = False  # for what is next, which is longer than such a frame

    def look_again(self, priority: int, arrival: int) -> None:
        """Have a message looked at that can be got, though it lies before the position."""
        if self.prefix:
            self._look_again_in_index(priority, arrival)
            return
        if arrival >= self.heads[priority]:
            return
        if len(self.again) < AGAIN_MAX:
            self.again[9 - priority, arrival] = None
        else:
            self.heads[priority] = arrival

    def _look_again_in_index(self, priority: int, arrival: int) -> None:
        """The same, of what may be what it seeks in an index."""
        if len(self.again) < AGAIN_MAX:
            self.again[9 - priority, arrival] = None
        else:
            self.again.clear()
            self.reached = b""

    @property
    def is_short(self) -> bool:
        """Whether a message that is too long for a frame has to wait."""
        return self.frame_bytes < DELIVER_MAX_BYTES

    @property
    def is_ordered(self) -> bool:
        """Whether it has groups one member after the other."""
        return self.order != PHYSICAL

    @property
    def seeks(self) -> bool:
        """Whether it wants all that an index has for it, so that it shares a position there."""
        return bool(self.prefix) and not (self.is_ordered or self.all_available)

    @property
    def is_choosy(self) -> bool:
        """Whether it steps over what others want, so that it has a position of its own."""
        if self.selector is not None or self.prefix:
            return not self.seeks
        return self.all_available and not self.is_ordered

    @property
    def is_new(self) -> bool:
        """Whether it is in no group, and wants whatever comes first: as others of its order."""
        reader = self.reader
        return reader is not None and reader.is_ordered and not (reader.holds or self.is_choosy)

    def look_at_group(self, arrival: int) -> None:
        """Have a group looked at all of which can be had now, and lies from *arrival* on."""
        if self.all_available:
            self.heads, self.reached = [min(head, arrival) for head in self.heads], b""
            if not self.prefix:  # What lies behind the position is looked at in its turn.
                ahead = [x for x in self.again if x[1] >= self.heads[9 - x[0]]]
                for place in ahead:
                    del self.again[place]

    @property
    def wants(self) -> bool:
        """Whether it may be sent a message now."""
        return self.open and self.credit_messages > 0 and self.credit_bytes > 0
