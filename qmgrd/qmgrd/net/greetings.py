"""The connections whose handshake is unfinished: their number for each origin, and the oldest.

Each operation takes the same time for any number of greetings, because a stranger can cause
thousands of them in a second.
"""

from collections import OrderedDict

from qmgrd.net.session import UNIX, SocketSession


class Greetings:
    """The greetings in progress, in the order of arrival.

    Invariant: ``_sessions`` contains each greeting of ``_since_ms`` under its origin, in the same
        order. ``_origins[n]`` contains the origins with n + 1 greetings, except the unix socket;
        its last element is not empty.
    """

    def __init__(self) -> None:
        self._since_ms: OrderedDict[SocketSession, int] = OrderedDict()
        self._sessions: dict[str, OrderedDict[SocketSession, None]] = {}
        self._origins: list[dict[str, None]] = []

    def __len__(self) -> int:
        return len(self._since_ms)

    def add(self, session: SocketSession, now_ms: int) -> None:
        """Adds the greeting of a new connection."""
        self._since_ms[session] = now_ms
        sessions = self._sessions.setdefault(session.origin, OrderedDict())
        sessions[session] = None
        self._recount(session.origin, len(sessions) - 1, len(sessions))

    def discard(self, session: SocketSession) -> None:
        """Removes the greeting of *session*, if it is in progress."""
        if self._since_ms.pop(session, None) is None:
            return
        sessions = self._sessions[session.origin]
        del sessions[session]
        if not sessions:
            del self._sessions[session.origin]
        self._recount(session.origin, len(sessions) + 1, len(sessions))

    def _recount(self, origin: str, before: int, count: int) -> None:
        if origin == UNIX:
            return
        if count > len(self._origins):
            self._origins.append({})
        if before:
            del self._origins[before - 1][origin]
        if count:
            self._origins[count - 1][origin] = None
        while self._origins and not self._origins[-1]:
            self._origins.pop()

    def count(self, origin: str) -> int:
        """Returns the number of greetings from *origin*."""
        return len(self._sessions.get(origin, ()))

    @property
    def remote_count(self) -> int:
        """The number of greetings except those of the unix socket."""
        return len(self._since_ms) - self.count(UNIX)

    def oldest_of(self, origin: str) -> SocketSession:
        """Returns the oldest greeting from *origin*, which must have one."""
        return next(iter(self._sessions[origin]))

    def busiest_origin(self) -> str:
        """Returns the origin with most greetings, except the unix socket. There must be one."""
        return next(iter(self._origins[-1]))

    def oldest(self) -> tuple[SocketSession, int] | None:
        """Returns the oldest greeting with its start time in milliseconds, or None."""
        return next(iter(self._since_ms.items()), None)
