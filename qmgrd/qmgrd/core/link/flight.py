"""What is on its way over one path of a link: puts that the peer may not have taken yet.

A connection keeps their order, and the peer says how many records it has taken of it. So what was
sent again, over this path or another, is counted for what it is.
"""

from collections import deque
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from qmgr_protocol.errors import FieldInvalid


class Sent(NamedTuple):
    """A put on its way."""

    first_id: int
    messages: int
    bytes: int
    at_ms: int  # store clock of when it was sent
    total: int  # records sent over the path until then, with its own

    @property
    def ids(self) -> range:
        """The ids of its messages."""
        return range(self.first_id, self.first_id + self.messages)


class Flight:
    """The puts in flight over a path, in their order; ``messages`` and ``bytes`` are of all."""

    __slots__ = ("bytes", "puts", "sent", "taken")

    def __init__(self) -> None:
        self.puts: deque[Sent] = deque()
        self.bytes = 0
        self.sent = 0  # records
        self.taken = 0  # of these, by the peer

    @property
    def messages(self) -> int:
        """How many records are in flight."""
        return self.sent - self.taken

    def add(self, first_id: int, messages: int, bytes_: int, now_ms: int) -> None:
        """Take note of a put that was sent."""
        self.sent += messages
        self.bytes += bytes_
        self.puts.append(Sent(first_id, messages, bytes_, now_ms, self.sent))

    def land(self, taken: int) -> list[Sent]:
        """Return the puts that have landed now that the peer has *taken* so many records.

        Raises:
            FieldInvalid: more than were sent.
        """
        if taken > self.sent:
            raise FieldInvalid("Committed", "taken", f"is {taken}, but {self.sent} were sent")
        landed = list(takewhile(lambda put: put.total <= taken, self.puts))
        for put in landed:
            self.puts.popleft()
            self.bytes -= put.bytes
        self.taken = max(self.taken, taken)
        return landed

    def has(self, seq_id: int) -> bool:
        """Return whether *seq_id* is in flight; quickly, where it is among the oldest."""
        return any(seq_id in put.ids for put in self.puts)

    def ids(self) -> Iterator[int]:
        """Yield the ids of all that is in flight."""
        for put in self.puts:
            yield from put.ids

    def with_id(self, seq_id: int) -> Sent | None:
        """Return the put in flight that has *seq_id*, of several the last."""
        return next((put for put in reversed(self.puts) if seq_id in put.ids), None)
