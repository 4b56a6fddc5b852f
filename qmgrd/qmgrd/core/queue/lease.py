"""Leases, and the consumers that have them. They are in memory, and end with their connections.

A lease belongs to the session of its lessee: no other session can settle or renew it.
"""

from typing import TYPE_CHECKING, NamedTuple

from qmgr_protocol.messages import PHYSICAL
from qmgrd.core.limits.timers import Timer
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.queue.lease_number import LeaseNumbers

if TYPE_CHECKING:
    from qmgrd.core.queue.group.held_groups import Reader
    from qmgrd.core.queue.queue import Queue
    from qmgrd.core.selector.selector import Selector


AGAIN_MAX = (
    1_000  # messages that a selecting consumer looks at again; beyond, its position goes back
)


class Lease(NamedTuple):
    """A message that is handed to one consumer until it settles, or until the deadline."""

    number: int
    lessee: "Lessee"
    deadline_ms: int
    priority: int
    arrival: int
    size: int  # of its record
    key: bytes
    index_key: bytes
    is_plain: bool  # To settle it, only these two rows are deleted; the entry is not read.


class Lessee:
    """The leases of one connection on one queue that have the same length, by any request.

    If it is not started, the client has not seen its messages yet: their return is not a failure.

    Invariant: ``leases`` is in the order of deadlines. Leases outlast the consumer or get that
    received them. One timer serves all of them.
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
        self.client = client  # its name, for the history of failures
        self.is_unit = is_unit  # They end with a unit of work, and have no deadline.
        self.is_started = is_started  # else the first renewal starts a lease, with another lessee
        self.leases: dict[int, Lease] = {}
        self.timer_set = False  # one that rings no later than the first deadline

    def is_of(self, numbers: LeaseNumbers) -> bool:
        """Returns whether it belongs to that session, on this connection or an earlier one."""
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
        self.heads = [0] * 10  # of its own, if it selects: by priority
        # Messages that arrived before these since, by 9 - priority and arrival.
        self.again: dict[tuple[int, int], None] = {}
        self.prefix = prefix  # of the index keys that it seeks; empty if it does not seek
        self.reached = b""  # the index key from which it continues, if it selects there
        self.wait_over = False  # It ends once it has looked at all messages.
        self.timer: Timer | None = None  # of a get's wait
        self.order = PHYSICAL
        self.all_available = False  # It takes a group only if all of it is available.
        self.reader: Reader | None = None
        self.owns_reader = False  # The reader ends with it.
        self.open = True
        self.frame_bytes = DELIVER_MAX_BYTES  # of the next frame, at most
        self.lacks_room = False  # The next message is longer than such a frame.

    def look_again(self, priority: int, arrival: int) -> None:
        """Remembers to look at a message that is available, and may be before its position."""
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
        """Does the same for a consumer that selects in an index."""
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
        """Whether it reads groups one member after the other."""
        return self.order != PHYSICAL

    @property
    def seeks(self) -> bool:
        """Whether it wants all messages under an index key, and shares its position there."""
        return bool(self.prefix) and not (self.is_ordered or self.all_available)

    @property
    def has_own_position(self) -> bool:
        """Whether it steps over messages that others want, and so has its own position."""
        if self.selector is not None or self.prefix:
            return not self.seeks
        return self.all_available and not self.is_ordered

    @property
    def is_new(self) -> bool:
        """Whether it reads no group now, and takes any group, as others of its order do."""
        reader = self.reader
        return (
            reader is not None
            and reader.is_ordered
            and not (reader.held_groups or self.has_own_position)
        )

    def look_at_group(self, arrival: int) -> None:
        """Looks again at a group that is complete now, and begins at *arrival*."""
        if self.all_available:
            self.heads, self.reached = [min(head, arrival) for head in self.heads], b""
            if not self.prefix:  # The scan reaches those after the position anyway.
                ahead = [x for x in self.again if x[1] >= self.heads[9 - x[0]]]
                for place in ahead:
                    del self.again[place]

    @property
    def wants(self) -> bool:
        """Whether it may be sent a message now."""
        return self.open and self.credit_messages > 0 and self.credit_bytes > 0
