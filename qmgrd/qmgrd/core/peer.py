"""The daemon's side of one connection, without I/O: handshake, heartbeats, credit.

A peer object replies immediately only to messages that need no durable storage, which are the
handshake and pings. All other messages go into the intake, and a turn replies to them.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from qmgr_config.model import FRAME_OVERHEAD_BYTES, LimitsConfig
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import (
    CreditExceeded,
    ErrorCode,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    StateViolation,
)
from qmgr_protocol.scram import ScramFailed
from qmgr_protocol.states import Side, State
from qmgr_protocol.token_login import TokenLogin
from qmgrd.core.access.login import OWNER, Decision, Identity, Login, Welcomed
from qmgrd.core.access.origin import Tls
from qmgrd.core.access.token_renewal import RENEWAL_ID, OwnLogin, TokenRenewal
from qmgrd.core.context.context import Dial
from qmgrd.core.intake import Intake
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from qmgrd.core.sessions.request_part import PUT_RECORDS, PartLimits, parts_of
from qmgrd.core.sessions.session import error_of
from qmgrd.core.sessions.session_token import SessionTokens
from qmgrd.core.sessions.unanswered import UnansweredRequests

if TYPE_CHECKING:
    from qmgrd.core.broker import Broker

Event: TypeAlias = "Callable[[Broker], None]"
Admit: TypeAlias = Callable[[m.Hello], m.Goaway | None]
AdmitUser: TypeAlias = Callable[[str], m.Goaway | None]

UNANSWERED_FACTOR = 4  # The limit is this many windows, because credits and cancels have no reply.
NEVER_MS = 1 << 62
FRAMES_MAX = 1_024  # The credit is checked after so many frames. A read may have 37,000.
HEARTBEATS_MAX = 100  # maximum number of pings and pongs in one read
_OWN = frozenset(
    {m.Hello, m.Welcome, m.AuthChallenge, m.AuthAnswer, m.TokenRenew, m.Goaway, m.Ping, m.Pong}
)


class LoginFailed(RemoteProtocolError):
    """The login of a link at its peer failed, for a reason that this end found."""

    code = ErrorCode.LOGIN_FAILED


class Peer:
    """One connection, dialled by a peer or by a link.

    Invariant: the broker receives ``opened`` (or ``dialled``) once, before any message, and
        ``closed`` once, after the last message. For a connection that never opened, the broker
        receives at most ``login_refused`` or ``dial_failed``.
    """

    def __init__(
        self,
        number: int,
        intake: Intake,
        limits: LimitsConfig,
        welcome: m.Welcome,
        tokens: SessionTokens,
        now_ms: int,
        *,
        dial: Dial | None = None,
        admit: Admit = lambda hello: None,
        admit_user: AdmitUser = lambda user: None,
        has_token: Callable[[], None] = lambda: None,
        login: Login | None = None,
        own_login: OwnLogin | None = None,
    ) -> None:
        """Creates the peer of a new connection.

        Args:
            number: The number of the connection. It is never used again in this process.
            welcome: The reply to a peer's hello, apart from the session. The hello of a link
                has the same name and store.
            dial: The reason why a link dialled, or None if the peer dialled.
            admit: A function that returns the refusal of a peer with this hello, or None. It is
                called once the peer has logged in.
            admit_user: A function that returns the refusal of a further connection of a user, or
                None. It is not called for a resumed session, which may replace its connection.
            has_token: A function that is called if a token ends the connection, or must be renewed.
                The shell then checks its end and renews it.
            login: The login of the peer. Without it, every peer may do everything.
            own_login: The login of this queue manager at the peer that a link dialled, or None.
        """
        self.number = number
        self.dial = dial
        # The goodbye that ended the connection, sent by either side.
        self.goaway: m.Goaway | None = None
        self.peer_name = ""
        # The session id of the peer that dialled; the session is new, or resumed by its token.
        self.session_id = b""
        self._tokens = tokens
        self._admit, self._admit_user = admit, admit_user
        self._login = login
        self._address = login.address if login is not None else ""
        self._own_login = own_login
        self._user = ""  # the user of the peer
        self.renewal = TokenRenewal(login, own_login)
        self._note_token = has_token
        self.has_token = False
        self._check_has_token()
        self._intake = intake
        self._limits = limits
        self._welcome = welcome
        self._side = Side.DIALLER if dial else Side.LISTENER
        # The connection's share of a turn.
        joined_max = min(PUT_RECORDS, limits.turn_rows // 4)
        self._connection = Connection(
            self._side, now_ms=now_ms, joined_max=joined_max, frames_max=FRAMES_MAX
        )
        self._is_announced = False
        # Whether the peer has sent a goodbye, which shows that it knows the protocol.
        self._is_refused = False
        self.partial_bytes = 0  # the received bytes of an incomplete frame
        self._heartbeats = 0  # the number of heartbeats in the last read
        self._unanswered = UnansweredRequests()
        self._pending = intake.of(number)
        self._pending.is_link = dial is not None
        self._part_limits = PartLimits(intake.handles_max)
        self._short_bytes = self._part_limits.short_bytes

    @property
    def is_open(self) -> bool:
        """Whether the handshake is finished."""
        return self._connection.state is State.OPEN

    @property
    def refusal(self) -> str:
        """The reason of a refused login, for operators only, or ""."""
        return self._login.reason if self._login is not None else ""

    def secured(self, tls: Tls) -> None:
        """Gives the login the facts that TLS proved about the connection, before the hello."""
        if self._login is not None:
            self._login.secured(tls)
        elif self._own_login is not None:
            self._own_login.bind(tls.server_hash)

    def hello(self) -> bytes:
        """Returns the first bytes that a link sends."""
        own, login = self._welcome, self._own_login
        hello = m.Hello(
            m.MAGIC,
            m.VERSION,
            m.VERSION,
            "queue-manager",
            own.name,
            own.features,
            own.store_id,
            own.boot,
            own.software,
            own.frame_max_bytes,
            piece_max_bytes=own.piece_max_bytes,
        )
        if login is not None:
            hello = hello._replace(auth_method=login.method, auth_data=login.first())
        return self._connection.send(hello)

    def receive(self, data: bytes, now_ms: int) -> bytes:
        """Processes received *data*. Returns the bytes to write immediately.

        Raises:
            RemoteProtocolError: The peer broke the protocol. Messages received before the error are
                still processed.
        """
        answers: list[bytes] = []
        connection, self._heartbeats = self._connection, 0
        while True:
            for message, size_bytes in connection.receive(data, now_ms):
                if type(message) in _OWN:
                    answers.append(self._answer(message, now_ms))
                    continue
                if self.has_token and self.renewal.takes(message, now_ms):
                    continue
                self._unanswered.asked(message)
                if size_bytes <= self._short_bytes or (
                    type(message) is m.Put and self._part_limits.fits(message.records, size_bytes)
                ):
                    self._intake.message(self.number, message, size_bytes)
                    continue
                for part, part_bytes in parts_of(message, size_bytes, self._part_limits):
                    self._intake.message(self.number, part, part_bytes)
            self.partial_bytes = connection.buffered_bytes
            if connection.error is not None:
                raise connection.error
            self._check_credit()
            if not connection.has_more:
                return b"".join(answers) if answers else b""
            data = b""

    def _answer(self, message: m.Received, now_ms: int) -> bytes:
        """Processes a message that is not for the broker. Returns the bytes to write at once."""
        if type(message) is m.Hello:
            return self._greet(message, now_ms)
        if type(message) is m.AuthAnswer:
            return self._authenticate(message, now_ms)
        if type(message) is m.AuthChallenge:
            return self._prove(message)
        if type(message) is m.Welcome:
            self._report(self._dialled(message, now_ms))
        elif type(message) is m.Goaway:
            self.goaway, self._is_refused = message, True
        else:
            self._heartbeats += 1
            if self._heartbeats > HEARTBEATS_MAX:
                raise CreditExceeded("heartbeats", self._heartbeats, HEARTBEATS_MAX)
            if type(message) is m.Ping:
                return self._send_back(m.Pong(message.number))
            if type(message) is m.TokenRenew:
                return self._send_back(self._renew(message, now_ms))
        return b""

    def _send_back(self, answer: m.Message) -> bytes:
        try:
            return self._connection.send(answer)
        except LocalProtocolError:
            return b""  # A goodbye followed the message.

    def _renew(self, renewal: m.TokenRenew, now_ms: int) -> m.Ok | m.Error:
        """Renews the token of the peer. A token that was refused is recorded."""
        request_id = renewal.request_id
        try:
            return m.Ok(request_id, self.renewal.renewed(renewal.token, self._user, now_ms))
        except RequestError as error:
            if error.code in (ErrorCode.LOGIN_FAILED, ErrorCode.TOKEN_EXPIRED):
                self._record_refusal(self.peer_name, Identity(self._user, TokenLogin.method), error)
            return error_of(request_id, error)

    def _check_has_token(self) -> None:
        if self.renewal.is_needed:
            self.has_token = True
            self._note_token()

    def _greet(self, hello: m.Hello, now_ms: int) -> bytes:
        self.peer_name = hello.name
        if self._connection.is_closed:
            return b""  # A goodbye followed the hello.
        refusal = self._refuse_frames(hello)
        if refusal is not None:
            return self._leave(refusal)
        if self._login is None:
            return self._welcome_peer(hello, Welcomed(OWNER))
        login, tokens = self._login, self._tokens

        def session_of(user: str) -> bytes:
            return tokens.session_id(hello.session, login.owner(Identity(user, "")))

        return self._decide(hello, login.begin(hello, now_ms, session_of))

    def _authenticate(self, answer: m.AuthAnswer, now_ms: int) -> bytes:
        hello, login = self._connection.hello, self._login
        if self._connection.is_closed:
            return b""  # A goodbye followed the answer.
        if login is None or hello is None:
            raise StateViolation("AuthAnswer", "no challenge was sent")
        return self._decide(hello, login.answer(answer, now_ms))

    def _prove(self, challenge: m.AuthChallenge) -> bytes:
        """Answers the challenge of a peer that a link dialled."""
        if self._own_login is None:
            raise LoginFailed("the peer asks for a login, and this link has none")
        try:
            answer = self._own_login.answer(challenge.data)
        except (ScramFailed, ValueError) as error:
            raise LoginFailed(f"the peer's challenge is invalid: {error}") from error
        return self._connection.send(m.AuthAnswer(answer))

    def _decide(self, hello: m.Hello, decision: Decision) -> bytes:
        if isinstance(decision, m.AuthChallenge):
            return self._connection.send(decision)
        if isinstance(decision, m.Goaway):
            assert self._login is not None
            return self._refuse_login(hello, self._login.claim(hello), decision)
        return self._welcome_peer(hello, decision)

    def _refuse_login(self, hello: m.Hello, identity: Identity, goaway: m.Goaway) -> bytes:
        """Refuses a connection. The broker records that, unless no login was required."""
        if self._login is None:
            return self._leave(goaway)
        self._record_refusal(hello.name, identity, goaway)
        return self._leave(goaway)

    def _record_refusal(
        self, name: str, identity: Identity, refusal: m.Goaway | RequestError
    ) -> None:
        facts = identity, self._address, name, refusal.code, self.refusal
        self._intake.event(self.number, lambda broker: broker.auditor.login_refused(*facts))

    def _leave(self, goaway: m.Goaway) -> bytes:
        self.goaway = goaway
        return self._connection.send(goaway)

    def _welcome_peer(self, hello: m.Hello, welcomed: Welcomed) -> bytes:
        """Opens the connection, unless the shell does not admit it."""
        identity = welcomed.identity
        token = hello.session
        owner = self._login.owner(identity) if self._login is not None else ""
        session_id = self._tokens.session_id(token, owner)
        self.session_id = session_id
        refusal = None if session_id else self._admit_user(identity.user)
        refusal = refusal or self._admit(hello)
        if refusal is not None:
            return self._refuse_login(hello, identity, refusal)
        address, self._user = self._address, identity.user
        self._check_has_token()
        self._pending.is_link = hello.role == "queue-manager"
        if not session_id:
            token = self._tokens.new(self.number, owner)
            self.session_id = session_id = self._tokens.session_id(token, owner)
        self._report(
            lambda broker: broker.opened(self.number, hello, session_id, identity, address)
        )
        welcome = self._welcome._replace(session=token, auth_data=welcomed.auth_data)
        return self._connection.send(welcome)

    def _refuse_frames(self, hello: m.Hello) -> m.Goaway | None:
        """Returns a goodbye if the peer cannot receive the longest possible frame, or None."""
        if hello.role == "queue-manager":
            return None  # No message is delivered to a peer that dialled for a link.
        # A frame may contain several messages. Longer messages may have pieces.
        longest = 0 if hello.piece_max_bytes else self._limits.message_max_bytes
        needed = max(longest, DELIVER_MAX_BYTES) + FRAME_OVERHEAD_BYTES
        if hello.frame_max_bytes >= needed:
            return None
        found = f"Hello.frame_max_bytes: {hello.frame_max_bytes}"
        why = f"{found}, but this queue manager needs {needed}"
        return m.Goaway(ErrorCode.FIELD_INVALID, why)

    def _dialled(self, welcome: m.Welcome, now_ms: int) -> Event:
        dial = self.dial
        assert dial is not None
        if self._own_login is not None:
            try:
                self._own_login.check(welcome.auth_data)
            except (ScramFailed, ValueError) as error:
                why = f"the peer did not prove that it knows this queue manager: {error}"
                raise LoginFailed(why) from error
        if isinstance(self._own_login, TokenLogin):
            self._own_login.welcomed(now_ms)
        self.peer_name = welcome.name
        return lambda broker: broker.dialled(dial, self.number, welcome)

    def _report(self, event: Event) -> None:
        self._is_announced = True
        self._intake.event(self.number, event)

    def _check_credit(self) -> None:
        pending, limits = self._pending, self._limits
        if pending.put_messages > limits.put_window_messages:
            raise CreditExceeded("puts", pending.put_messages, limits.put_window_messages)
        if pending.put_bytes > limits.put_window_bytes + limits.frame_max_bytes:
            raise CreditExceeded("bytes of puts", pending.put_bytes, limits.put_window_bytes)
        if len(self._unanswered) > limits.request_window:
            count = len(self._unanswered)
            raise CreditExceeded("unanswered requests", count, limits.request_window)
        limit = limits.request_window * UNANSWERED_FACTOR
        if pending.messages > limit:
            raise CreditExceeded("requests", pending.messages, limit)

    @property
    def is_ahead(self) -> bool:
        """Whether reading should pause because too many messages from this peer wait for a turn."""
        return self._intake.is_ahead(self._pending)

    @property
    def is_delayed(self) -> bool:
        """Whether the next request waits because the user puts faster than its limits allow."""
        return self._pending.is_delayed

    @property
    def frame_bytes(self) -> int:
        """The length of the incomplete frame, or 0 if it is unknown."""
        return self._connection.frame_bytes

    def facts(self, now_ms: int) -> dict[str, Any]:
        """Returns the fields for operators: the waiting messages, the delay, the end of the token.

        Call it in a turn.
        """
        pending, end_ms = self._pending, self.renewal.end_ms
        delayed_by, delay_ms = self._intake.delay(pending)
        return {
            "waiting": pending.messages + pending.put_messages,
            "waiting_bytes": pending.bytes,
            "delayed_by": delayed_by,
            "delay_ms": delay_ms,
            "token_ms": None if end_ms is None else max(end_ms - now_ms, 0),
        }

    def encode(self, message: m.Message) -> bytes:
        """Returns *message* as bytes, or b"" if the connection is already closing."""
        self._unanswered.answered(message)
        try:
            return self._connection.send(message)
        except LocalProtocolError:
            return b""

    def wrote(self, size_bytes: int) -> None:
        """Counts bytes that the shell wrote, for the limit of the user."""
        self._intake.wrote(self.number, size_bytes)

    def poll(self, now_ms: int) -> bytes:
        """Returns a ping if one is due.

        Raises:
            LivenessExpired: The peer has been silent for too long.
        """
        # The listener's intervals apply to both ends. A link uses its own until it knows them.
        welcome = self._connection.welcome if self._side is Side.DIALLER else None
        limits = welcome or self._limits
        # The daemon may not read a delayed connection, so its silence has no meaning.
        liveness_ms = NEVER_MS if self.is_delayed else limits.liveness_ms
        return self._connection.poll(now_ms, limits.heartbeat_ms, liveness_ms)

    def renew(self, token: bytes) -> bytes:
        """Returns the request of a link to renew its token by *token*."""
        return self._send_back(m.TokenRenew(RENEWAL_ID, token))

    def closed(self, why: str) -> None:
        """Reports once to the broker that the connection is closed."""
        number, dial = self.number, self.dial
        if dial:
            is_known = (
                self._is_announced or self._is_refused or self._connection.state is State.IDLE
            )
            why = f"{dial.address}: {why}{'' if is_known else '; is it a qmgrd?'}"
        if self._is_announced:
            self._intake.event(number, lambda broker: broker.closed(number, why))
        elif dial:
            self._intake.event(number, lambda broker: broker.dial_failed(dial, why, self.goaway))
        self._is_announced, self.dial = False, None
        self._intake.close(number)


def goodbye(error: RemoteProtocolError) -> m.Goaway:
    """Returns the goodbye for a peer that broke the protocol."""
    return m.Goaway(int(error.code), str(error)[:1000])
