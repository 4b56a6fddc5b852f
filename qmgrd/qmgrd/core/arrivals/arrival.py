"""An arrival, and the arrivals of one connection that wait for a turn."""

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from qmgr_protocol import messages as m
from qmgrd.core.broker import Broker
from qmgrd.core.requests.reads import DROPPED
from qmgrd.core.sessions.request_part import Arrived, SettlePart, UnitPutPart


class Arrival(NamedTuple):
    """A message from a peer, or an event from the shell for the broker."""

    message: Arrived | None  # the message, or None if ``event`` is set
    event: Callable[[Broker], None] | None
    size_bytes: int


class ConnectionArrivals:
    """The waiting arrivals of one connection. The peer's credit limits their number."""

    __slots__ = (
        "arrivals",
        "bytes",
        "closed",
        "connection",
        "is_delayed",
        "is_link",
        "messages",
        "pieces",
        "put_bytes",
        "put_messages",
        "used_ns",
    )

    def __init__(self, connection: int) -> None:
        self.connection = connection
        self.arrivals: deque[Arrival] = deque()
        self.closed = False
        self.is_link = False  # Puts and answers of a link are served even while the link is held.
        self.is_delayed = False  # whether the first arrival is a put that waits for tokens
        self.bytes = 0
        self.messages = 0  # the number of messages of all kinds except puts and pieces
        self.pieces = 0
        self.put_messages = 0
        self.put_bytes = 0
        self.used_ns = 0  # the connection's clock

    def count(self, message: Arrived, by: int) -> None:
        """Adds *by* to the number of messages like *message*, which is not a put.

        Of a request in parts, only the last one counts.
        """
        if type(message) is m.Piece:
            self.pieces += by
        elif not isinstance(message, (SettlePart, UnitPutPart)) or message.is_last:
            self.messages += by

    def drop_requests(self) -> int:
        """Removes all requests. Events stay. Returns the size of the requests in bytes."""
        size_bytes = self.bytes
        self.arrivals = deque(x for x in self.arrivals if x.event is not None)
        self.bytes = self.messages = self.pieces = self.put_messages = self.put_bytes = 0
        return size_bytes

    def drop_reads(self) -> int:
        """Removes the read-only requests. Returns their size in bytes."""
        reads = [x for x in self.arrivals if x.event is None and type(x.message) in DROPPED]
        if reads:
            self.arrivals = deque(
                x for x in self.arrivals if x.event is not None or type(x.message) not in DROPPED
            )
        size_bytes = sum(arrival.size_bytes for arrival in reads)
        self.bytes -= size_bytes
        return size_bytes
