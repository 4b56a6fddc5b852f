"""Leases and those who hold them. All of it lives in memory and dies with connections."""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from qmgrd.core.context import Timer
    from qmgrd.core.queue import Queue


class Lease(NamedTuple):
    """One message, handed to one consumer until it settles or the deadline passes."""

    number: int
    lessee: "Lessee"
    deadline_ms: int
    priority: int
    arrival: int
    size: int  # of its record
    key: bytes  # Settling needs no look at the entry: these two rows go.
    index_key: bytes
    in_rows: bool


class Lessee:
    """What one connection has leased of one queue for one length of time, by whichever request.

    Invariant: ``leases`` is in the order of deadlines. They outlast the consumer or get that had
    them; one timer looks after all.
    """

    __slots__ = ("leases", "queue", "timer_set")

    def __init__(self, queue: "Queue") -> None:
        self.queue = queue
        self.leases: dict[int, Lease] = {}
        self.timer_set = False  # one that rings no later than the first deadline


class Consumer:
    """A consumer or a waiting get of one connection."""

    __slots__ = ("connection", "credit_bytes", "credit_messages", "is_get", "lease_ms", "lessee",
                 "open", "queue", "request_id", "timer")  # fmt: skip

    def __init__(
        self, connection: int, request_id: int, queue: "Queue", messages: int, bytes_: int,
        lease_ms: int, *, is_get: bool = False,
    ) -> None:  # fmt: skip
        self.connection = connection
        self.request_id = request_id
        self.queue = queue
        self.credit_messages = messages
        self.credit_bytes = bytes_
        self.lease_ms = lease_ms
        self.is_get = is_get
        self.lessee = Lessee(queue)  # its connection's own, once it has joined
        self.timer: Timer | None = None  # of a get's wait
        self.open = True

    @property
    def wants(self) -> bool:
        """Whether it may be sent a message now."""
        return self.open and self.credit_messages > 0 and self.credit_bytes > 0
