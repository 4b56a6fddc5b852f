"""The login of one connection: decides who is at its other end, before anything else is read.

unix socket, the daemon's user or root     administrator, without a password
none, while no user exists                 anybody: may do everything
scram-sha-256                              the user who proves the password
scram-sha-256-plus                         the same, bound to the TLS certificate of the daemon
external                                   the user of the client's TLS certificate
token                                      the user of a claim in a signed token (JWT)
everything else                            refused

The rules (rule.py) decide which of these a connection may use. They cannot refuse the first one.

A refusal shows neither which users exist, nor which rule decided: if any user may log in by SCRAM
from here, each user is challenged, and fails at the end in the same words. The log of the daemon
has the reason.
"""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeAlias

from qmgr_config.model import AuthConfig
from qmgr_protocol import messages as m
from qmgr_protocol import scram, verifier
from qmgr_protocol.certificate_login import EXTERNAL
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError, RequestError
from qmgr_protocol.scram import ScramFailed, ServerLogin
from qmgr_protocol.token_login import TOKEN, remaining_time
from qmgr_protocol.verifier import Verifier
from qmgrd.core.access import rule
from qmgrd.core.access.certificate import Certificates
from qmgrd.core.access.login_delays import LoginDelays, source_of
from qmgrd.core.access.origin import Origin, Tls
from qmgrd.core.access.rule import Rules
from qmgrd.core.access.token import TokenExpired, TokenRefused, Tokens, VerifiedToken
from qmgrd.core.access.user import User

_WRONG_TOKEN = (
    "the token is not valid for this queue manager, or its user does not exist, is disabled, or "
    "may not log in from here"
)
_SCRAM = (scram.METHOD, scram.PLUS_METHOD)
NO_METHOD = "none"
_HELLO_METHODS = (*_SCRAM, EXTERNAL, rule.TOKEN, NO_METHOD)
OTHER_METHOD = "(other)"  # stands for a method that no hello can use
_DEFAULTS = AuthConfig()
EXPIRED_RETRY_MS = 1_000  # time in which a client may receive a new token
RENEWAL_PAUSE_MS = 250  # minimum time between two renewals, because each checks a signature


class TokenEnded(RemoteProtocolError):
    """The token with which the peer logged in has expired."""

    code = ErrorCode.TOKEN_EXPIRED

    def __init__(self) -> None:
        super().__init__("the token of this connection has expired")


class Identity(NamedTuple):
    """The other end of a connection, after its login."""

    user: str  # "" without a user
    method: str  # way in which the identity was proved, for operators
    verifier: Verifier | None = None  # verifier of the password that proved it, if any


OPEN = Identity("", "open")
OWNER = Identity("", "owner of the daemon")
DIALLED = Identity("", "dialled by a link")


class Welcomed(NamedTuple):
    """A successful login."""

    identity: Identity
    auth_data: bytes = b""  # for the welcome


Decision: TypeAlias = Welcomed | m.AuthChallenge | m.Goaway


class KnownUsers(Protocol):
    """The users of a queue manager, as logins see them."""

    users: dict[str, User]
    is_open: bool


class Logins:
    """The logins of all connections of a queue manager."""

    def __init__(
        self,
        users: Callable[[], KnownUsers],
        secret: bytes,
        config: AuthConfig = _DEFAULTS,
        wall_ms: Callable[[], int] = lambda: 0,
    ) -> None:
        """Starts without failed logins.

        Args:
            users: A function that returns the users.
            secret: The secret of the store, from which the salts of unknown users are made.
            config: The rules, the users of certificates, and the issuers of tokens.
            wall_ms: A function that returns the wall-clock time, with which tokens are compared.
                By default, tokens are refused as too early.
        """
        self.users = users
        self.secret = secret
        self.rules = Rules(config.access)
        self.certificates = Certificates(config.certificates)
        self.tokens = Tokens(config.tokens)
        self.wall_ms = wall_ms
        self.delays = LoginDelays()


class Login:
    """The login of one connection. It ends with its first Welcomed or Goaway."""

    reason = ""  # reason of a refusal, for operators only
    address = ""  # the host at the other end, or "unix"
    claimed = ""  # the user that the other end claims to be, or "" if it claims none
    end_ms: int | None = None  # time at which the token of the connection ends, if it has one

    def __init__(self, logins: Logins, origin: Origin, nonce: str) -> None:
        self.address = origin.address
        self._logins = logins
        self._origin = origin
        self._nonce = nonce
        self._method = ""
        self._source = ""  # source of the login for delays
        self._server: ServerLogin | None = None  # set while a challenge is unanswered
        self._verifier: Verifier | None = None  # the verifier of that challenge
        self._renewed_ms: int | None = None  # time of the last renewal of the token

    def secured(self, tls: Tls) -> None:
        """Takes the facts that TLS proved about the other end, before the hello."""
        self._origin = self._origin._replace(tls=tls)

    def owner(self, identity: Identity) -> str:
        """Returns the text that stands for the user of *identity* in session tokens."""
        user = self._logins.users().users.get(identity.user)
        return user.owner if user is not None else identity.user

    def claim(self, hello: m.Hello) -> Identity:
        """Returns the unproved identity of a connection whose *hello* is refused, for operators.

        A hello cannot pretend to have a method such as that of OWNER.
        """
        is_known = hello.auth_method in _HELLO_METHODS
        return Identity(self.claimed, hello.auth_method if is_known else OTHER_METHOD)

    def begin(
        self, hello: m.Hello, now_ms: int, session_of: Callable[[str], bytes] = lambda user: b""
    ) -> Decision:
        """Decides on a connection that sent *hello*.

        Args:
            hello: The hello.
            now_ms: The time.
            session_of: A function that returns the session of a user that the hello proves, or b"".
        """
        if hello.auth_method in _SCRAM:
            return self._challenge(hello, now_ms, session_of)
        if hello.auth_method == EXTERNAL:
            return self._certified()
        if hello.auth_method == TOKEN:
            return self._tokened(hello, now_ms)
        if hello.auth_method != NO_METHOD:
            methods = ", ".join((*_SCRAM, EXTERNAL, TOKEN))
            why = f"the method {hello.auth_method[:40]!r} is not supported; use one of {methods}"
            return m.Goaway(ErrorCode.LOGIN_REQUIRED, why)
        if self._origin.is_owner:
            return Welcomed(OWNER)
        if self._logins.users().is_open and self._may("", rule.OPEN):
            return Welcomed(OPEN)
        return m.Goaway(ErrorCode.LOGIN_REQUIRED, "log in with a user and a password")

    def _may(self, user: str, method: str) -> bool:
        """Returns whether the rules allow *method*. Otherwise records the reason."""
        verdict = self._logins.rules.verdict(self._origin, user, method)
        if not verdict.is_allowed:
            self.reason = verdict.why
        return verdict.is_allowed

    def _certified(self) -> Decision:
        self.claimed = name = self._logins.certificates.user_of(self._origin.tls)
        user = self._logins.users().users.get(name)
        if not name:
            self.reason = "no entry of auth.certificates leads from the certificate to one user"
        elif self._may(name, rule.CERTIFICATE):
            if user is not None and user.is_enabled:
                return Welcomed(Identity(name, EXTERNAL))
            self.reason = f"the user {name} of the certificate does not exist or is disabled"
        if self._logins.users().is_open and self._may("", rule.OPEN):
            return Welcomed(OPEN)  # Before the first user, a client needs no certificate.
        why = "the certificate of this connection does not belong to a user that may log in here"
        return m.Goaway(ErrorCode.LOGIN_FAILED, why)

    def _tokened(self, hello: m.Hello, now_ms: int) -> Decision:
        if not self._logins.rules.may_use(self._origin, rule.TOKEN):
            self.reason = "no rule allows token here"
            why = "this queue manager does not accept tokens on this connection"
            if self._origin.tls is None:
                why += ": use TLS"
            return m.Goaway(ErrorCode.LOGIN_REFUSED, why)
        try:
            token = self._verified(hello.auth_data)
        except TokenExpired as error:
            # Only the issuer can make such a token, so a stranger learns nothing from this answer.
            self.reason = str(error)
            return m.Goaway(ErrorCode.TOKEN_EXPIRED, "the token has expired", EXPIRED_RETRY_MS)
        except TokenRefused as error:
            self.reason = str(error)
            return m.Goaway(ErrorCode.LOGIN_FAILED, _WRONG_TOKEN)
        remaining = remaining_time(self._set_end(token, now_ms))
        return Welcomed(Identity(token.user, TOKEN), remaining)

    def _verified(self, token: bytes) -> VerifiedToken:
        """Returns a token whose user may log in here.

        Raises:
            TokenRefused: The token is not valid, or its user may not log in here.
        """
        found = self._logins.tokens.verify(token, self._logins.wall_ms())
        self.claimed = name = found.user
        user = self._logins.users().users.get(name)
        if not name:
            raise TokenRefused("no entry of users leads from the token to one user")
        if user is None or not user.is_enabled:
            raise TokenRefused(f"the user {name} of the token does not exist or is disabled")
        verdict = self._logins.rules.verdict(self._origin, name, rule.TOKEN)
        if not verdict.is_allowed:
            raise TokenRefused(verdict.why)
        return found

    def _set_end(self, token: VerifiedToken, now_ms: int) -> int:
        """Ends the connection with the *token*. Returns the time until then in ms.

        Later changes of the wall clock do not change the end.
        """
        remaining_ms = max(token.ends_ms - self._logins.wall_ms(), 0)
        self.end_ms = now_ms + remaining_ms
        return remaining_ms

    def renew(self, token: bytes, user: str, now_ms: int) -> int:
        """Renews the token of an open connection of *user*. Returns its remaining time in ms.

        Raises:
            RequestError: LOGINS_DELAYED if the last renewal was a moment ago. TOKEN_EXPIRED if the
                new token has expired. LOGIN_FAILED if it is not valid, leads to another user, or
                this user may not log in by a token here. LOGIN_REFUSED if the connection has no
                token. The connection keeps its end.
        """
        if self.end_ms is None:
            why = "this connection did not log in by a token"
            raise RequestError(ErrorCode.LOGIN_REFUSED, why)
        last_ms, self._renewed_ms = self._renewed_ms, now_ms
        if last_ms is not None and now_ms - last_ms < RENEWAL_PAUSE_MS:
            self._renewed_ms = last_ms
            why = "the token of this connection was renewed a moment ago"
            raise RequestError(ErrorCode.LOGINS_DELAYED, why, RENEWAL_PAUSE_MS)
        try:
            found = self._verified(token)
            if found.user != user:
                raise TokenRefused(f"it leads to the user {found.user}")
        except TokenRefused as error:
            # The log shows this reason if the connection ends with its present token.
            self.reason = f"the last renewal of the token failed: {error}"
            if isinstance(error, TokenExpired):
                raise RequestError(ErrorCode.TOKEN_EXPIRED, "the token has expired") from None
            raise RequestError(ErrorCode.LOGIN_FAILED, _WRONG_TOKEN) from None
        self.reason = ""
        return self._set_end(found, now_ms)

    def _challenge(
        self, hello: m.Hello, now_ms: int, session_of: Callable[[str], bytes]
    ) -> Decision:
        rules, origin, method = self._logins.rules, self._origin, hello.auth_method
        if not rules.may_use(origin, method):
            self.reason = f"no rule allows {method} here"
            why = "this queue manager does not accept passwords on this connection"
            if origin.tls is None:
                why += ": use TLS"
            return m.Goaway(ErrorCode.LOGIN_REFUSED, why)
        server_hash = origin.tls.server_hash if origin.tls is not None else b""
        try:
            server = ServerLogin(self._verifier_of, self._nonce, server_hash, method)
            challenge = server.challenge(hello.auth_data)
        except ScramFailed as error:
            return m.Goaway(ErrorCode.FIELD_INVALID, f"Hello.auth_data: {error}")
        self._source = source_of(origin.address, session_of(server.user))
        self.claimed = server.user
        delayed = self._delayed(server.user, now_ms)
        if delayed is not None:
            return delayed
        self._server, self._method = server, method
        return m.AuthChallenge(challenge)

    def _delayed(self, name: str, now_ms: int) -> m.Goaway | None:
        wait_ms = self._logins.delays.wait_ms(self._source, name, now_ms)
        if not wait_ms:
            return None
        why = f"too many logins as {name[:80]} failed at {self._origin.address}"
        return m.Goaway(ErrorCode.LOGINS_DELAYED, why, wait_ms)

    def _verifier_of(self, name: str) -> Verifier:
        # Made for each user, so that the time of the answer does not show which users exist.
        found = verifier.of_nobody(self._logins.secret, name)
        user = self._logins.users().users.get(name)
        if user is not None and user.verifier is not None and user.is_enabled:
            found = user.verifier
        self._verifier = found
        return found

    def answer(self, answer: m.AuthAnswer, now_ms: int) -> Welcomed | m.Goaway:
        """Decides on a connection that answered the challenge."""
        server = self._server
        assert server is not None, "the protocol allows an answer only after a challenge"
        name, source, delays = server.user, self._source, self._logins.delays
        used, proof = self._verifier, b""
        # Other logins may have failed since the challenge. Without this check, a stranger could
        # collect challenges and then try as many passwords at once.
        delayed = self._delayed(name, now_ms)
        if delayed is not None:
            return delayed
        try:
            proof = server.finish(answer.data)
        except ScramFailed as error:
            self.reason = str(error)
            user = self._logins.users().users.get(name)
            if user is None or not user.is_enabled or user.verifier is None:
                self.reason = "the user does not exist, is disabled, or has no password"
        # The user may have been disabled, or its password changed, since the challenge.
        is_current = self._verifier_of(name) == used
        if not proof or not is_current or not self._may(name, self._method):
            delays.failed(source, name, now_ms)
            why = (
                f"the user {name[:80]} does not exist, is disabled, has another password, or may "
                "not log in from here"
            )
            return m.Goaway(ErrorCode.LOGIN_FAILED, why)
        delays.succeeded(source, name)
        return Welcomed(Identity(name, self._method, used), proof)
