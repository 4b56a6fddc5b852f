"""Leases and consumers. Both are in memory only, and end when their connection closes.

A lease belongs to the session of its lessee. No other session can settle or renew the lease.
"""

from typing import TYPE_CHECKING, NamedTuple

from qmgr_protocol.messages import PHYSICAL
from qmgrd.core.layout.entry import WHOLE
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.limits.timers import Timer
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.queue.lease_number import LeaseNumbers

if TYPE_CHECKING:
    from qmgrd.core.queue.group.held_groups import Reader
    from qmgrd.core.queue.queue import Queue
    from qmgrd.core.selector.selector import Selector


# Maximum number of messages that a selecting consumer examines again one by one. Above the limit,
# its position moves back instead.
AGAIN_MAX = 1_000


class Lease(NamedTuple):
    """The exclusive right of one consumer to a message, until it is settled or the deadline
    passes.
    """

    number: int
    lessee: "Lessee"
    deadline_ms: int
    priority: int
    arrival: int
    size: int  # the size of the record in bytes
    key: bytes  # the key of the entry
    index_key: bytes  # the key of the row in the UID index, which the message may not need
    is_plain: bool  # whether a settle deletes only these two rows without reading the entry


class Lessee:
    """The leases of one connection on one queue, all with the same duration.

    While a lessee is not started, the client has not yet seen its messages. The return of such a
    message is not a failure. A lease continues after the consumer or get that received the message
    has ended. One timer serves all leases of a lessee.

    Invariant: ``leases`` is in the order of deadlines.
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
        self.numbers = numbers  # the lease numbers of the connection
        self.lease_ms = lease_ms
        self.client = client  # the name of the client, for the history of failures
        self.is_unit = is_unit  # whether the leases end with a unit of work and have no deadline
        # If a lessee is not started, the first renewal of a lease moves the lease to another lessee
        # and starts it.
        self.is_started = is_started
        self.leases: dict[int, Lease] = {}  # leases by arrival number
        self.timer_set = False  # whether a timer is set for the first deadline or earlier

    def is_of(self, numbers: LeaseNumbers) -> bool:
        """Returns whether the lessee belongs to the session of *numbers*, on any connection."""
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
        "is_sent_pieces",
        "lacks_room",
        "lease_ms",
        "lessee",
        "long",
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
        "whole_max_bytes",
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
        self.lessee = lessee  # the lessee of the same connection
        self.credit_messages = messages
        self.credit_bytes = bytes_
        self.lease_ms = lessee.lease_ms
        self.is_get = is_get
        self.selector = selector
        self.heads = [0] * 10  # the positions, by priority, of a consumer that selects
        # Messages before these positions that became available, as pairs of 9 - priority and
        # arrival number.
        self.again: dict[tuple[int, int], None] = {}
        self.prefix = prefix  # the prefix of the index keys to seek; empty without an index
        self.reached = b""  # the index key from which a consumer that selects in an index continues
        self.wait_over = False  # whether the get ends after it has examined all messages
        self.timer: Timer | None = None  # the timer for the end of a get's wait
        self.order = PHYSICAL
        # Whether only groups that are completely available are delivered.
        self.all_available = False
        self.reader: Reader | None = None
        self.owns_reader = False  # whether the reader ends with this consumer
        self.open = True
        self.frame_bytes = DELIVER_MAX_BYTES  # the maximum number of bytes of the next frame
        self.lacks_room = False  # whether the next message is longer than this maximum
        # The size of a record above which it is sent in pieces. It is then the only message of its
        # delivery, and ``long``. Until all pieces are sent, the consumer receives nothing else.
        self.whole_max_bytes = WHOLE
        self.long: LongRecord | None = None
        self.is_sent_pieces = False

    def look_again(self, priority: int, arrival: int) -> None:
        """Stores an available message for examination if it is before the position."""
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
        """Stores an available message for examination by a consumer that selects in an index."""
        if len(self.again) < AGAIN_MAX:
            self.again[9 - priority, arrival] = None
        else:
            self.again.clear()
            self.reached = b""

    def move_back(self, lowest: dict[int, int]) -> None:
        """Moves the positions back to *lowest*, arrival numbers by priority.

        A consumer that selects in an index examines all messages under its prefix again.
        """
        if self.prefix:
            self.again.clear()
            self.reached = b""
            return
        for priority, arrival in lowest.items():
            self.heads[priority] = min(self.heads[priority], arrival)

    @property
    def is_short(self) -> bool:
        """Whether a message that is too long for the next frame must wait."""
        return self.frame_bytes < DELIVER_MAX_BYTES

    @property
    def is_ordered(self) -> bool:
        """Whether the consumer receives the members of a group in sequence."""
        return self.order != PHYSICAL

    @property
    def seeks(self) -> bool:
        """Whether the consumer seeks through an index, at a position that it shares with others."""
        return bool(self.prefix) and not (self.is_ordered or self.all_available)

    @property
    def has_own_position(self) -> bool:
        """Whether the consumer has its own positions, because it skips messages that others
        receive.
        """
        if self.selector is not None or self.prefix:
            return not self.seeks
        return self.all_available and not self.is_ordered

    @property
    def is_new(self) -> bool:
        """Whether the consumer reads no group now and may begin any group."""
        reader = self.reader
        return (
            reader is not None
            and reader.is_ordered
            and not (reader.held_groups or self.has_own_position)
        )

    def look_at_group(self, arrival: int) -> None:
        """Moves the positions back to *arrival*, the start of a group that is now complete."""
        if self.all_available:
            self.heads, self.reached = [min(head, arrival) for head in self.heads], b""
            if not self.prefix:  # The scan reaches messages after the position anyway.
                ahead = [x for x in self.again if x[1] >= self.heads[9 - x[0]]]
                for place in ahead:
                    del self.again[place]

    @property
    def wants(self) -> bool:
        """Whether the daemon may send a message to the consumer now."""
        return self.has_credit and not self.is_sent_pieces

    @property
    def has_credit(self) -> bool:
        """Whether the consumer is open and has credit."""
        return self.open and self.credit_messages > 0 and self.credit_bytes > 0
