"""Leases and those who hold them. All of it lives in memory and dies with connections."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qmgrd.core.queue import Queue


class Lease:
    """One message, handed to one consumer until it settles or the deadline passes."""

    __slots__ = ("arrival", "consumer", "deadline_ms", "in_rows", "number", "priority", "size",
                 "trailer")  # fmt: skip

    def __init__(
        self, number: int, consumer: "Consumer", deadline_ms: int, priority: int, arrival: int,
        size: int, trailer: bytes, in_rows: bool,
    ) -> None:  # fmt: skip
        self.number = number
        self.consumer = consumer
        self.deadline_ms = deadline_ms
        self.priority = priority
        self.arrival = arrival
        self.size = size
        self.trailer = trailer  # The encoded UID: settling needs no look at the entry.
        self.in_rows = in_rows


class Consumer:
    """A consumer or a waiting get of one connection.

    Invariant: ``leases`` is in the order of deadlines, as all are as long.
    """

    __slots__ = ("connection", "credit_bytes", "credit_messages", "deadline_ms", "is_get",
                 "lease_ms", "leases", "open", "queue", "request_id", "timer_ms")  # fmt: skip

    def __init__(
        self, connection: int, request_id: int, queue: "Queue", messages: int, bytes_: int,
        lease_ms: int, deadline_ms: int | None = None,
    ) -> None:  # fmt: skip
        self.connection = connection
        self.request_id = request_id
        self.queue = queue
        self.credit_messages = messages
        self.credit_bytes = bytes_
        self.lease_ms = lease_ms
        self.is_get = deadline_ms is not None
        self.deadline_ms = deadline_ms  # of a get's wait
        self.leases: dict[int, Lease] = {}
        self.open = True
        self.timer_ms: int | None = None  # when the timer set for its leases rings

    @property
    def wants(self) -> bool:
        """Whether it may be sent a message now."""
        return self.open and self.credit_messages > 0 and self.credit_bytes > 0

    def first_deadline_ms(self) -> int | None:
        """Return when the oldest lease ends."""
        for lease in self.leases.values():
            return lease.deadline_ms
        return None
