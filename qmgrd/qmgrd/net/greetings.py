"""The connections whose handshake is unfinished: their number for each network, and the oldest.

Each operation takes the same time for any number of greetings, because a stranger can cause
thousands of them in a second.
"""

from collections import OrderedDict

from qmgrd.net.session import UNIX, SocketSession


class Greetings:
    """The greetings in progress, in the order of arrival.

    Invariant: ``_sessions`` contains each greeting of ``_since_ms`` under its network, in the order
        of its last progress. ``_networks[n]`` contains the networks with n + 1 greetings, except
        the unix socket; its last element is not empty.
    """

    def __init__(self) -> None:
        self._since_ms: OrderedDict[SocketSession, int] = OrderedDict()
        self._sessions: dict[str, OrderedDict[SocketSession, None]] = {}
        self._networks: list[dict[str, None]] = []

    def __len__(self) -> int:
        return len(self._since_ms)

    def add(self, session: SocketSession, now_ms: int) -> None:
        """Adds the greeting of a new connection."""
        self._since_ms[session] = now_ms
        sessions = self._sessions.setdefault(session.network, OrderedDict())
        sessions[session] = None
        self._recount(session.network, len(sessions) - 1, len(sessions))

    def advanced(self, session: SocketSession) -> None:
        """Makes *session* the last of its network to be closed, if it is in progress."""
        if session in self._since_ms:
            self._sessions[session.network].move_to_end(session)

    def discard(self, session: SocketSession) -> None:
        """Removes the greeting of *session*, if it is in progress."""
        if self._since_ms.pop(session, None) is None:
            return
        sessions = self._sessions[session.network]
        del sessions[session]
        if not sessions:
            del self._sessions[session.network]
        self._recount(session.network, len(sessions) + 1, len(sessions))

    def _recount(self, network: str, before: int, count: int) -> None:
        if network == UNIX:
            return
        if count > len(self._networks):
            self._networks.append({})
        if before:
            del self._networks[before - 1][network]
        if count:
            self._networks[count - 1][network] = None
        while self._networks and not self._networks[-1]:
            self._networks.pop()

    def count(self, network: str) -> int:
        """Returns the number of greetings from *network*."""
        return len(self._sessions.get(network, ()))

    @property
    def remote_count(self) -> int:
        """The number of greetings except those of the unix socket."""
        return len(self._since_ms) - self.count(UNIX)

    def oldest_of(self, network: str) -> SocketSession:
        """Returns the greeting from *network* without progress for longest. There must be one."""
        return next(iter(self._sessions[network]))

    def busiest_network(self) -> str:
        """Returns the network with most greetings, except the unix socket. There must be one."""
        return next(iter(self._networks[-1]))

    def oldest(self) -> tuple[SocketSession, int] | None:
        """Returns the oldest greeting with its start time in milliseconds, or None."""
        return next(iter(self._since_ms.items()), None)
