"""The login of one connection: decides who is at its other end, before anything else is read.

unix socket, the daemon's user or root     administrator, without a password
no user exists, unix socket or loopback    anybody: may do everything
SCRAM-SHA-256, also bound to the TLS       the user who proves the password
certificate (PLUS)
everything else                            refused
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple, Protocol, TypeAlias

from qmgr_protocol import messages as m
from qmgr_protocol import scram, verifier
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.scram import ScramFailed, ServerLogin
from qmgr_protocol.verifier import Verifier
from qmgrd.core.access.login_delays import LoginDelays
from qmgrd.core.access.origin import Origin
from qmgrd.core.access.user import User

NO_METHOD = "none"


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

    def __init__(self, users: Callable[[], KnownUsers], secret: bytes) -> None:
        """Starts without failed logins.

        Args:
            users: A function that returns the users.
            secret: The secret of the store, from which the salts of unknown users are made.
        """
        self.users = users
        self.secret = secret
        self.delays = LoginDelays()


class Login:
    """The login of one connection. It ends with its first Welcomed or Goaway."""

    def __init__(self, logins: Logins, origin: Origin, nonce: str) -> None:
        self._logins = logins
        self._origin = origin
        self._nonce = nonce
        self._method = ""
        self._server: ServerLogin | None = None  # set while a challenge is unanswered
        self._verifier: Verifier | None = None  # the verifier of that challenge

    def begin(self, hello: m.Hello, now_ms: int) -> Decision:
        """Decides on a connection that sent *hello*."""
        if hello.auth_method in (scram.METHOD, scram.PLUS_METHOD):
            return self._challenge(hello, now_ms)
        if hello.auth_method != NO_METHOD:
            return m.Goaway(
                ErrorCode.LOGIN_REQUIRED,
                f"the method {hello.auth_method[:40]!r} is not supported; use {scram.METHOD}",
            )
        if self._origin.is_owner:
            return Welcomed(OWNER)
        if self._logins.users().is_open and self._origin.is_trusted:
            return Welcomed(OPEN)
        return m.Goaway(ErrorCode.LOGIN_REQUIRED, "log in with a user and a password")

    def _challenge(self, hello: m.Hello, now_ms: int) -> Decision:
        tls = self._origin.tls
        server_hash = tls.server_hash if tls is not None else b""
        try:
            server = ServerLogin(self._verifier_of, self._nonce, server_hash, hello.auth_method)
            challenge = server.challenge(hello.auth_data)
        except ScramFailed as error:
            return m.Goaway(ErrorCode.FIELD_INVALID, f"Hello.auth_data: {error}")
        delayed = self._delayed(server.user, now_ms)
        if delayed is not None:
            return delayed
        self._server, self._method = server, hello.auth_method
        return m.AuthChallenge(challenge)

    def _delayed(self, name: str, now_ms: int) -> m.Goaway | None:
        wait_ms = self._logins.delays.wait_ms(self._origin.address, name, now_ms)
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
        name, address, delays = server.user, self._origin.address, self._logins.delays
        used, proof = self._verifier, b""
        # Other logins may have failed since the challenge. Without this check, a stranger could
        # collect challenges and then try as many passwords at once.
        delayed = self._delayed(name, now_ms)
        if delayed is not None:
            return delayed
        with suppress(ScramFailed):
            proof = server.finish(answer.data)
        # The user may have been disabled, or its password changed, since the challenge.
        if not proof or self._verifier_of(name) != used:
            delays.failed(address, name, now_ms)
            why = f"the user {name[:80]} does not exist, is disabled, or has another password"
            return m.Goaway(ErrorCode.LOGIN_FAILED, why)
        delays.succeeded(address, name)
        return Welcomed(Identity(name, self._method, used), proof)
