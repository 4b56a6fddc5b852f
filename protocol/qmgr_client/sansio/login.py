"""The login of a client on its present connection, and the check of its queue manager."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from qmgr_protocol import messages as m
from qmgr_protocol.certificate_login import CertificateLogin
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError
from qmgr_protocol.pieces import PIECE_BYTES
from qmgr_protocol.states import State
from qmgr_protocol.token_login import TokenLogin

if TYPE_CHECKING:
    from qmgr_protocol.scram import ClientLogin

# A function that returns a new login for one connection. Its argument is the hash of the queue
# manager's certificate (tls-server-end-point of RFC 5929), or b"" if the connection has no TLS.
Login: TypeAlias = "ClientLogin | CertificateLogin | TokenLogin"
NewLogin: TypeAlias = Callable[[bytes], "Login"]


def hello_of(name: str, software: str, frame_max_bytes: int) -> m.Hello:
    """Returns the hello of a client that does not log in."""
    hello = m.Hello(m.MAGIC, m.VERSION, m.VERSION, "client", name, software=software)
    return hello._replace(frame_max_bytes=frame_max_bytes, piece_max_bytes=PIECE_BYTES)


class ServerUnproved(RemoteProtocolError):
    """The queue manager did not prove that it knows the user."""

    code = ErrorCode.LOGIN_FAILED

    def __init__(self, why: str) -> None:
        super().__init__(f"the queue manager did not prove that it knows the user: {why}")


class ClientProof:
    """The two proofs of a login: that of the client, and that of the queue manager.

    Without a function for new logins, the client does not log in and needs no proof.
    """

    def __init__(self, new_login: NewLogin | None) -> None:
        self._new_login = new_login
        self._login: Login | None = None  # login on the present connection
        self.renewal_id = 0  # the id of the unanswered request to renew a token, or 0

    def begin(self, hello: m.Hello, server_hash: bytes) -> m.Hello:
        """Begins a new login. Returns *hello* with its first message.

        Args:
            hello: The hello of a client that does not log in.
            server_hash: The hash of the queue manager's certificate, or b"" without TLS.

        Raises:
            ValueError: The login cannot begin, for example because the password is missing.
        """
        if self._new_login is None:
            return hello
        self.renewal_id = 0
        self._login = login = self._new_login(server_hash)
        return hello._replace(auth_method=login.method, auth_data=login.first())

    def answer(self, challenge: m.AuthChallenge) -> m.AuthAnswer:
        """Returns the proof of the client.

        Raises:
            ServerUnproved: The client has no user, or the challenge is invalid.
        """
        if self._login is None:
            raise ServerUnproved("it asks for a proof, but this client has no user")
        try:
            return m.AuthAnswer(self._login.answer(challenge.data))
        except Exception as error:
            raise ServerUnproved(str(error)) from error

    def check(self, welcome: m.Welcome, now_ms: int = 0) -> None:
        """Checks the proof of the queue manager. Schedules the renewal of a token.

        Without this proof, anybody who accepts the connection could pass for the queue manager.

        Raises:
            ServerUnproved: The proof is missing or wrong.
        """
        login = self._login
        if login is None:
            return
        try:
            login.check(welcome.auth_data)
        except Exception as error:
            raise ServerUnproved(str(error)) from error
        if isinstance(login, TokenLogin):
            login.welcomed(now_ms)

    @property
    def can_change(self) -> bool:
        """Whether the next login may use another token than the present one."""
        return isinstance(self._login, TokenLogin) and self._login.is_renewable

    def renewal(self, connection: Connection, next_id: Callable[[], int], now_ms: int) -> bytes:
        """Returns the request to renew the token, if that is due, otherwise b"".

        Args:
            connection: The present connection.
            next_id: A function that returns the id of the request.
            now_ms: The time.
        """
        login, is_open = self._login, connection.state is State.OPEN
        token = login.renewal(now_ms) if is_open and isinstance(login, TokenLogin) else b""
        if not token:
            return b""
        self.renewal_id = next_id()
        return connection.send(m.TokenRenew(self.renewal_id, token))

    def renewed(self, answer: m.Ok | m.Error, now_ms: int) -> None:
        """Handles the answer to the renewal. A refused one is repeated with a newer token."""
        self.renewal_id = 0
        if isinstance(self._login, TokenLogin) and type(answer) is m.Ok:
            self._login.renewed(answer.value, now_ms)
