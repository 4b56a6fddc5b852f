"""Tracks the puts in flight over one path of a link. The peer may not have received these yet.

A connection preserves the order of puts, and the peer reports how many records it has received over
the connection. Therefore, each copy of a put that is sent again, over this path or another, is
counted separately.
"""

from collections import deque
from collections.abc import Iterator
from itertools import takewhile
from typing import NamedTuple

from qmgr_protocol.errors import FieldInvalid


class Sent(NamedTuple):
    """A put in flight."""

    first_id: int
    messages: int
    bytes: int
    at_ms: int  # the store clock time at which the put was sent
    total: int  # the number of records sent over the path so far, including this put

    @property
    def ids(self) -> range:
        """The ids of the messages in the put."""
        return range(self.first_id, self.first_id + self.messages)


class Flight:
    """The puts in flight over a path, in order.

    ``messages`` and ``bytes`` are the totals of these puts.
    """

    __slots__ = ("bytes", "puts", "sent", "taken")

    def __init__(self) -> None:
        self.puts: deque[Sent] = deque()
        self.bytes = 0
        self.sent = 0  # the number of records sent
        self.taken = 0  # the number of records that the peer has received

    @property
    def messages(self) -> int:
        """The number of records in flight."""
        return self.sent - self.taken

    def add(self, first_id: int, messages: int, bytes_: int, now_ms: int) -> None:
        """Adds a put that was sent."""
        self.sent += messages
        self.bytes += bytes_
        self.puts.append(Sent(first_id, messages, bytes_, now_ms, self.sent))

    def remove_received(self, taken: int) -> list[Sent]:
        """Removes and returns the puts received by a peer that has *taken* records in total.

        Raises:
            FieldInvalid: *taken* exceeds the number of records sent.
        """
        if taken > self.sent:
            raise FieldInvalid(
                "Committed", "taken", f"is {taken}, but {self.sent} records were sent"
            )
        landed = list(takewhile(lambda put: put.total <= taken, self.puts))
        for put in landed:
            self.puts.popleft()
            self.bytes -= put.bytes
        self.taken = max(self.taken, taken)
        return landed

    def has(self, seq_id: int) -> bool:
        """Returns whether *seq_id* is in flight. The check is fast for the oldest puts."""
        return any(seq_id in put.ids for put in self.puts)

    def ids(self) -> Iterator[int]:
        """Yields the ids of all messages in flight."""
        for put in self.puts:
            yield from put.ids

    def with_id(self, seq_id: int) -> Sent | None:
        """Returns the latest put in flight that contains *seq_id*."""
        return next((put for put in reversed(self.puts) if seq_id in put.ids), None)
