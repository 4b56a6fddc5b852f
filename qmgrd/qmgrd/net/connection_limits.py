"""Admission of connections: handshakes in progress, and open connections.

    accepted ──▶ greeting ──hello──▶ open
                    │ too slow, or too many: the oldest one is closed

A greeting costs a stranger nothing. Therefore, greetings are limited in number and duration, and
they never replace an open connection. Greetings from networks from which a user has logged in have
limits of their own, so strangers elsewhere cannot replace them. The unix socket has separate limits
for greetings and connections, so an operator can always connect.
"""

import asyncio
from collections import Counter, OrderedDict
from typing import Any

from qmgr_config.model import UNIX_PLACES, ListenConfig
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.net.greetings import Greetings
from qmgrd.net.log_limit import LogLimit
from qmgrd.net.quarantine import Quarantine
from qmgrd.net.session import UNIX, SocketSession

LOOPBACK = ("127.", "::ffff:127.", "::1/")  # All processes on this machine have the same address.
RETRY_MS = 1_000
KNOWN_MAX = 4_096  # networks from which a user has logged in; the oldest one is forgotten
_LINK = "link"  # in the quarantine, the place of links that this daemon dials
_ORDERLY = {ErrorCode.SHUTTING_DOWN, ErrorCode.CANCELLED, ErrorCode.NOT_ACTIVE, 0}


class ConnectionLimits:
    """The connections of a daemon.

    Invariant: ``sessions`` contains each connection that is not closed. A connection that a peer
        dialled is a greeting until it is admitted. ``_open`` counts the ``_admitted`` connections
        by network. The greetings of ``_known`` networks are in ``_expected``, if the network was
        known when they began, and all others are in ``_strangers``.
    """

    def __init__(self, listen: ListenConfig, quarantine_ms: int, now_ms: int) -> None:
        self.sessions: dict[int, SocketSession] = {}
        self._quarantine = Quarantine(quarantine_ms)
        self.log = LogLimit(now_ms)
        self.with_token: set[SocketSession] = set()  # connections whose tokens are checked
        self._listen = listen
        self._strangers, self._expected = Greetings(), Greetings()
        self._known: OrderedDict[str, None] = OrderedDict()  # by the time of the last login
        self._admitted: set[SocketSession] = set()
        self._open: Counter[str] = Counter()  # number of open connections by network

    @property
    def open_count(self) -> int:
        """The number of open connections."""
        return len(self._admitted)

    def entered(self, session: SocketSession, now_ms: int) -> None:
        """Registers a new connection. Closes the oldest greeting if there are too many."""
        self.sessions[session.peer.number] = session
        network, listen = session.network, self._listen
        if session.peer.dial is not None:
            # A connection that a local link dialled was requested by the operator.
            session.is_known = True
            self._mark_open(session)
            return
        session.is_known = network == UNIX or network in self._known
        greetings = self._greetings_of(session)
        greetings.add(session, now_ms)
        if greetings.count(network) > listen.greetings_per_address_max:
            limit = listen.greetings_per_address_max
            self._close_oldest_greeting(greetings.oldest_of(network), limit)
        elif greetings.remote_count > listen.greetings_max:
            oldest = greetings.oldest_of(greetings.busiest_network())
            self._close_oldest_greeting(oldest, listen.greetings_max)

    def advanced(self, session: SocketSession) -> None:
        """Records progress in the handshake of *session*: others give way before it."""
        self._greetings_of(session).advanced(session)

    def _greetings_of(self, session: SocketSession) -> Greetings:
        return self._expected if session.is_known else self._strangers

    def _close_oldest_greeting(self, oldest: SocketSession, limit: int) -> None:
        why = f"{limit} connections have sent no hello yet, and this is the oldest from its address"
        self._refuse_greeting(oldest, m.Goaway(ErrorCode.CONNECTIONS_EXHAUSTED, why, RETRY_MS))

    def _refuse_greeting(self, session: SocketSession, goaway: m.Goaway) -> None:
        self._greetings_of(session).discard(session)
        session.cut_off(goaway)

    def _mark_open(self, session: SocketSession) -> None:
        self._greetings_of(session).discard(session)
        self._admitted.add(session)
        self._open[session.network] += 1

    def admit(self, session: SocketSession, hello: m.Hello, now_ms: int) -> m.Goaway | None:
        """Opens the connection that sent *hello*. Returns the reason if it is refused.

        A refused connection remains a greeting until it is closed, so the number of refused
        connections is limited as well.
        """
        refusal = self._refusal(session, hello, now_ms)
        if refusal is None:
            self._mark_open(session)
            self._remember(session.network)
        return refusal

    def _remember(self, network: str) -> None:
        self._known[network] = None
        self._known.move_to_end(network)
        if len(self._known) > KNOWN_MAX:
            self._known.popitem(last=False)

    def _refusal(self, session: SocketSession, hello: m.Hello, now_ms: int) -> m.Goaway | None:
        origin, listen = session.origin, self._listen
        wait_ms = self._quarantine.wait_ms(
            session.network, hello.name, now_ms, session.peer.session_id
        )
        if wait_ms:
            why = "a request of this peer caused an internal error; see the log"
            return m.Goaway(ErrorCode.PEER_KEPT_OUT, why, wait_ms)
        limit = listen.connections_max + (UNIX_PLACES if origin == UNIX else 0)
        if self.open_count >= limit:
            why = f"too many connections: {limit} are open (listen.connections_max)"
            if origin != UNIX:
                why += "; the unix socket has its own limit"
            return m.Goaway(ErrorCode.CONNECTIONS_EXHAUSTED, why, RETRY_MS)
        limit = listen.connections_per_address_max
        if self._open[session.network] >= limit and not is_of_this_machine(origin):
            why = (
                f"{limit} connections from {session.network} are open, which is the limit "
                "(listen.connections_per_address_max)"
            )
            return m.Goaway(ErrorCode.CONNECTIONS_EXHAUSTED, why, RETRY_MS)
        return None

    def keep_out(self, session: SocketSession, now_ms: int) -> None:
        """Refuses the peer of *session* for a while, because it caused an internal error."""
        peer, network, name = session.peer, session.network, session.peer.peer_name
        if peer.dial is not None:
            network, name = _LINK, peer.dial.link
        self._quarantine.add(network, name, now_ms, peer.session_id)

    def is_kept_out(self, link: str, now_ms: int) -> bool:
        """Returns whether *link* may not be dialled yet after an internal error."""
        return self._quarantine.wait_ms(_LINK, link, now_ms) > 0

    def left(self, session: SocketSession, why: str) -> None:
        """Unregisters a closed connection."""
        if self.sessions.pop(session.peer.number, None) is None:
            return
        origin = session.origin
        self.with_token.discard(session)
        self._greetings_of(session).discard(session)
        if session in self._admitted:
            self._admitted.remove(session)
            _count_down(self._open, session.network)
        goaway = session.peer.goaway
        if goaway is not None and goaway.code not in _ORDERLY:
            reason = session.peer.refusal  # which the peer does not receive
            facts: dict[str, Any] = {"reason": reason} if reason else {}
            self.log.write(
                "warning",
                "connection closed",
                {"from": origin, "code": int(goaway.code)},
                peer=session.peer.peer_name,
                why=why,
                address=session.address,
                **facts,
            )

    async def cut_off_all(self) -> None:
        """Closes the connections that are left at the end.

        uvloop could wait forever for an open connection when it closes.
        """
        goaway = m.Goaway(ErrorCode.SHUTTING_DOWN, "the queue manager stopped")
        for session in list(self.sessions.values()):
            session.cut_off(goaway, is_silent=True)
        await asyncio.sleep(0)

    def tick(self, now_ms: int) -> None:
        """Closes greetings that took too long, checks tokens, and sums up suppressed log lines."""
        limit_ms = self._listen.handshake_ms
        for greetings in (self._strangers, self._expected):
            while (oldest := greetings.oldest()) and now_ms - oldest[1] >= limit_ms:
                why = f"the handshake took longer than {limit_ms} ms"
                self._refuse_greeting(oldest[0], m.Goaway(ErrorCode.LIVENESS_EXPIRED, why))
        for session in list(self.with_token):
            session.check_token(now_ms)
        self.log.sum_up(now_ms)


def _count_down(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def is_of_this_machine(origin: str) -> bool:
    """Returns whether *origin* is the unix socket or a loopback address."""
    return origin == UNIX or f"{origin}/".startswith(LOOPBACK)
