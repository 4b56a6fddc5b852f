"""The connections whose next put waits until their users may put again."""

from qmgr_protocol import messages as m
from qmgrd.core.arrivals.arrival import Arrival, ConnectionArrivals
from qmgrd.core.limits.put_rates import WAIT_MIN_MS, PutRate, PutRates
from qmgrd.core.sessions.request_part import Arrived, UnitPutPart

_DELAYED = frozenset({m.Put, m.UnitPut, UnitPutPart, m.Piece})


class DelayedPuts:
    """The delayed connections, by the rate of their user, each in the order of waiting.

    Invariant: a connection is in ``_delayed`` exactly if its ``is_delayed`` is set. Its first
        arrival is then a put.
    """

    def __init__(self, rates: PutRates) -> None:
        self.limited = rates.of  # the rates of connections whose users have a limit
        self._delayed: dict[PutRate, dict[int, ConnectionArrivals]] = {}
        self._now_ms = 0

    def waits(self, connection: int) -> bool:
        """Returns whether a connection of the user of *connection* is delayed."""
        return self.limited.get(connection) in self._delayed

    def wait_ms(self, pending: ConnectionArrivals) -> int:
        """Returns the time until the user of the delayed connection *pending* has tokens."""
        rate = self.limited.get(pending.connection)
        return 0 if rate is None else rate.wait_ms(self._now_ms)

    def by_user(self) -> list[list[ConnectionArrivals]]:
        """Returns the delayed connections of each user."""
        return [list(delayed.values()) for delayed in self._delayed.values()]

    def delays(self, pending: ConnectionArrivals, arrival: Arrival) -> bool:
        """Returns whether the first *arrival* of *pending* must wait for tokens of its user.

        If so, the connection is delayed, unless it is closed. Otherwise, takes the tokens.
        """
        rate = self.limited.get(pending.connection)
        if rate is None or type(arrival.message) not in _DELAYED:
            return False
        if not rate.wait_ms(self._now_ms):
            rate.take(*cost(arrival))
            return False
        if not pending.closed:
            pending.is_delayed = True
            self._delayed.setdefault(rate, {})[pending.connection] = pending
        return True

    def ready(self, now_ms: int) -> list[ConnectionArrivals]:
        """Removes and returns the connections for whose first puts the users have tokens.

        Connections that waited longer come first. The work is proportional to the number of puts
        that can be served, even if a user has many connections.
        """
        self._now_ms = now_ms
        if not self._delayed:
            return []
        found: list[ConnectionArrivals] = []
        for rate, delayed in list(self._delayed.items()):
            messages, bytes_ = (0, 0) if rate.wait_ms(now_ms) else rate.tokens
            while delayed and messages > 0 and bytes_ > 0:
                pending = delayed.pop(next(iter(delayed)))
                pending.is_delayed = False
                found.append(pending)
                arrival = pending.arrivals[0]
                more_messages, more_bytes = cost(arrival)
                messages, bytes_ = messages - more_messages, bytes_ - more_bytes
            if not delayed:
                del self._delayed[rate]
        return found

    def forget(self, pending: ConnectionArrivals) -> None:
        """Ends the delay of *pending*, which was lost."""
        if not pending.is_delayed:
            return
        pending.is_delayed = False
        for rate, delayed in list(self._delayed.items()):
            if delayed.pop(pending.connection, None) is not None and not delayed:
                del self._delayed[rate]

    def next_ms(self) -> int | None:
        """Returns the store clock time at which a connection can continue, or None."""
        if not self._delayed:
            return None
        wait_ms = min(rate.wait_ms(self._now_ms) for rate in self._delayed)
        return self._now_ms + max(wait_ms, WAIT_MIN_MS)


def cost(arrival: Arrival) -> tuple[int, int]:
    """Returns the messages and the bytes for which a put or a piece takes tokens."""
    message: Arrived | None = arrival.message
    put = message.put if isinstance(message, UnitPutPart) else message
    if isinstance(put, m.Piece):
        return 0, arrival.size_bytes
    assert isinstance(put, m.Put | m.UnitPut)
    return len(put.records) or 1, arrival.size_bytes
