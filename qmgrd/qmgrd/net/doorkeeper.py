"""Decides who may come in: handshakes that are not done, and connections that are open.

    accepted ──▶ greeting ──hello──▶ open
                    │ too slow, or too many: the oldest one gives way

A greeting costs a stranger nothing, so greetings are few and short, and never take the place of an
open connection. The unix socket has greetings and places of its own: the operator always gets in.
"""

from collections import Counter, OrderedDict

from qmgr_config.model import UNIX_PLACES, Listen
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.net.kept_out import KeptOut
from qmgrd.net.log_limit import LogLimit
from qmgrd.net.session import UNIX, Session

LOOPBACK = ("127.", "::ffff:127.", "::1/")  # Each process of this machine has the same address.
RETRY_MS = 1_000
_ORDERLY = {ErrorCode.SHUTTING_DOWN, ErrorCode.CANCELLED, 0}


class Doorkeeper:
    """The connections of a daemon.

    Invariant: ``sessions`` has each connection that is not closed. One that a peer dialled is a
    greeting until it is admitted. ``_open`` counts those that are ``_admitted`` by origin.
    """

    def __init__(self, listen: Listen, keep_out_ms: int, now_ms: int) -> None:
        self.sessions: dict[int, Session] = {}
        self.kept_out = KeptOut(keep_out_ms)
        self.log = LogLimit(now_ms)
        self._listen = listen
        self._greetings: OrderedDict[Session, int] = OrderedDict()  # in ms, since when
        self._greeting: Counter[str] = Counter()  # by origin
        self._admitted: set[Session] = set()
        self._open: Counter[str] = Counter()  # by origin

    @property
    def open_count(self) -> int:
        """How many connections are open."""
        return len(self._admitted)

    def entered(self, session: Session, now_ms: int) -> None:
        """Takes in a new connection; the oldest greeting gives way if there are too many."""
        self.sessions[session.peer.number] = session
        origin = session.origin
        if session.peer.dial is not None:
            self._open_up(session)  # A link of ours: the operator wants it.
            return
        self._greetings[session] = now_ms
        self._greeting[origin] += 1
        listen = self._listen
        if self._greeting[origin] > listen.greetings_per_address_max:
            self._give_way(origin, listen.greetings_per_address_max)
        elif self._greeting.total() - self._greeting[UNIX] > listen.greetings_max:
            others = [x for x in self._greeting.items() if x[0] != UNIX]
            self._give_way(max(others, key=lambda x: x[1])[0], listen.greetings_max)

    def _give_way(self, origin: str, limit: int) -> None:
        oldest = next(session for session in self._greetings if session.origin == origin)
        why = f"{limit} connections have not said hello yet, and this is the oldest of its address"
        self._turn_away(oldest, m.Goaway(ErrorCode.CONNECTIONS_EXHAUSTED, why, RETRY_MS))

    def _turn_away(self, session: Session, goaway: m.Goaway) -> None:
        self._end_greeting(session)
        session.cut_off(goaway)

    def _end_greeting(self, session: Session) -> None:
        if self._greetings.pop(session, None) is not None:
            _count_down(self._greeting, session.origin)

    def _open_up(self, session: Session) -> None:
        self._end_greeting(session)
        self._admitted.add(session)
        self._open[session.origin] += 1

    def admit(self, session: Session, hello: m.Hello, now_ms: int) -> m.Goaway | None:
        """Opens the connection that said *hello*; return why not if it may not come in.

        One that is refused stays a greeting until it is closed, so that these are bounded, too.
        """
        refusal = self._refusal(session, hello, now_ms)
        if refusal is None:
            self._open_up(session)
        return refusal

    def _refusal(self, session: Session, hello: m.Hello, now_ms: int) -> m.Goaway | None:
        origin, listen = session.origin, self._listen
        wait_ms = self.kept_out.wait_ms(origin, hello.name, now_ms, session.peer.session_id)
        if wait_ms:
            why = "a request of this peer met a bug here; see the log"
            return m.Goaway(ErrorCode.PEER_KEPT_OUT, why, wait_ms)
        limit = listen.connections_max + (UNIX_PLACES if origin == UNIX else 0)
        if self.open_count >= limit:
            why = f"all places are taken: {limit} connections are open (listen.connections_max)"
            if origin != UNIX:
                why += "; the unix socket has places of its own"
            return m.Goaway(ErrorCode.CONNECTIONS_EXHAUSTED, why, RETRY_MS)
        limit = listen.connections_per_address_max
        if self._open[origin] >= limit and not is_of_this_machine(origin):
            why = (
                f"{limit} connections from {origin} are open, and no more may be "
                "(listen.connections_per_address_max)"
            )
            return m.Goaway(ErrorCode.CONNECTIONS_EXHAUSTED, why, RETRY_MS)
        return None

    def left(self, session: Session, why: str) -> None:
        """Forgets a connection that is closed."""
        if self.sessions.pop(session.peer.number, None) is None:
            return
        origin = session.origin
        self._end_greeting(session)
        if session in self._admitted:
            self._admitted.remove(session)
            _count_down(self._open, origin)
        goaway = session.peer.goaway
        if goaway is not None and goaway.code not in _ORDERLY:
            self.log.write(
                "warning",
                "connection closed",
                {"from": origin, "code": int(goaway.code)},
                peer=session.peer.peer_name,
                why=why,
                address=session.address,
            )

    def look(self, now_ms: int) -> None:
        """Turns away whoever has not said hello in time, and sum up what was not logged."""
        limit_ms = self._listen.handshake_ms
        while self._greetings:
            session, since_ms = next(iter(self._greetings.items()))
            if now_ms - since_ms < limit_ms:
                break
            why = f"the handshake was not done within {limit_ms} ms"
            self._turn_away(session, m.Goaway(ErrorCode.LIVENESS_EXPIRED, why))
        self.log.sum_up(now_ms)


def _count_down(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def is_of_this_machine(origin: str) -> bool:
    """Returns whether *origin* is the unix socket or a loopback address."""
    return origin == UNIX or f"{origin}/".startswith(LOOPBACK)
