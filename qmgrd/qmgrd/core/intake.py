"""What has arrived and waits for its turn: a queue per connection, taken in rotation."""

from collections import deque
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from qmgr_protocol import messages as m

if TYPE_CHECKING:
    from qmgrd.core.broker import Broker

AHEAD_MAX_BYTES = 4 * 1024 * 1024  # of one connection; then it is not read from for a while
TOTAL_MAX_BYTES = 256 * 1024 * 1024  # of all; then only those are read from that have nothing here


class SettlePart(NamedTuple):
    """A piece of a settle that is too long for one turn; the last one has its answer."""

    settle: m.Settle
    first_index: int  # of these handles in the settle
    is_last: bool


def parts_of(settle: m.Settle, handles_max: int) -> Iterator[SettlePart]:
    """Yield *settle* in pieces of at most *handles_max* handles; what is unread from the back."""
    size = handles_max * m.HANDLE.size
    starts = range(0, len(settle.handles), size)
    if settle.action == m.UNREAD:
        starts = starts[::-1]
    for start in starts:
        part = settle._replace(handles=settle.handles[start : start + size])
        yield SettlePart(part, start // m.HANDLE.size, is_last=start == starts[-1])


class Arrival(NamedTuple):
    """A message of a peer, or something that the shell wants the broker to know."""

    message: m.Message  # None where ``event`` is set
    event: "Callable[[Broker], None] | None"
    size_bytes: int


class Pending:
    """What one connection has waiting. The counts are what its credit is held against."""

    __slots__ = ("arrivals", "bytes", "closed", "messages", "put_bytes", "put_messages")

    def __init__(self) -> None:
        self.arrivals: deque[Arrival] = deque()
        self.closed = False
        self.bytes = 0
        self.messages = 0  # of any kind but puts
        self.put_messages = 0
        self.put_bytes = 0


class Intake:
    """All that waits. Invariant: ``_rotation`` names each connection with arrivals once."""

    def __init__(self) -> None:
        self._pending: dict[int, Pending] = {}
        self._rotation: deque[int] = deque()
        self._bytes = 0

    def is_ahead(self, pending: Pending) -> bool:
        """Return whether so much waits that the connection should not be read from for now."""
        return pending.bytes > AHEAD_MAX_BYTES or (
            self._bytes > TOTAL_MAX_BYTES and pending.bytes > 0
        )

    def __bool__(self) -> bool:
        return bool(self._rotation)

    def of(self, connection: int) -> Pending:
        """Return what *connection* has waiting."""
        found = self._pending.get(connection)
        if found is None:
            found = self._pending[connection] = Pending()
        return found

    def message(self, connection: int, message: m.Message, size_bytes: int) -> None:
        """Add a message of a peer."""
        pending = self.of(connection)
        pending.bytes += size_bytes
        self._bytes += size_bytes
        if type(message) is m.Put:
            pending.put_messages += len(message.records) or 1
            pending.put_bytes += size_bytes
        else:
            pending.messages += _counts(message)
        self._add(connection, pending, Arrival(message, None, size_bytes))

    def event(self, connection: int, event: "Callable[[Broker], None]") -> None:
        """Add an event, behind what the connection sent before it."""
        self._add(connection, self.of(connection), Arrival(None, event, 0))

    def _add(self, connection: int, pending: Pending, arrival: Arrival) -> None:
        if not pending.arrivals:
            self._rotation.append(connection)
        pending.arrivals.append(arrival)

    def close(self, connection: int) -> None:
        """Forget a connection that is gone, once what it left is taken."""
        pending = self._pending.get(connection)
        if pending is not None:
            pending.closed = True
            if not pending.arrivals:
                del self._pending[connection]

    def take(self, requests_max: int, bytes_max: int) -> Iterator[tuple[int, Arrival]]:
        """Yield arrivals, one of each connection in rotation, until a bound is reached."""
        for _ in range(requests_max):
            if not self._rotation or bytes_max <= 0:
                return
            connection = self._rotation.popleft()
            pending = self._pending[connection]
            arrival = pending.arrivals.popleft()
            if pending.arrivals:
                self._rotation.append(connection)
            elif pending.closed:
                del self._pending[connection]
            if arrival.event is None:
                if type(arrival.message) is m.Put:
                    pending.put_messages -= len(arrival.message.records) or 1
                    pending.put_bytes -= arrival.size_bytes
                else:
                    pending.messages -= _counts(arrival.message)
                pending.bytes -= arrival.size_bytes
                self._bytes -= arrival.size_bytes
            bytes_max -= arrival.size_bytes
            yield connection, arrival


def _counts(message: m.Message) -> bool:
    """Return whether *message* counts towards what a peer may have waiting."""
    return type(message) is not SettlePart or message.is_last
