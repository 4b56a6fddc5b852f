"""The connection to a queue manager, for asyncio."""

import asyncio
import os
import secrets
from collections.abc import Sequence
from types import TracebackType

from qmgr_client import address as addresses
from qmgr_client.aio.admin import Admin
from qmgr_client.aio.dialler import ConnectTimes, Dialler
from qmgr_client.aio.groups import Groups
from qmgr_client.aio.replies import Replies
from qmgr_client.aio.session import Session
from qmgr_client.aio.settle import Settling
from qmgr_client.aio.work import Work
from qmgr_client.client_name import checked, client_name
from qmgr_client.credentials import credentials, token_credentials
from qmgr_client.duration import Duration, in_ms, in_ms_or_none
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.login import NewLogin
from qmgr_client.tls import tls_options
from qmgr_protocol.certificate_login import CertificateLogin
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.tls import TlsOptions

CLOSE_MAX_MS = 5_000


def connect(
    address: str,
    *,
    name: str = "",
    producer_id: bytes | None = None,
    reconnect: bool = True,
    wait_ms: Duration | None = 0,
    give_up_ms: Duration | None = None,
    coalesce: bool = True,
    user: str = "",
    password: str = "",
    password_file: str = "",
    token: str = "",
    token_file: str = "",
    tls: TlsOptions | None = None,
) -> "QueueManager":
    """Returns a client of the queue manager at *address*. The client is not connected yet.

    To connect, open the client with ``async with`` or ``await open()``.

    Args:
        address: ``"host:port"``, ``"tls:host:port"`` or ``"unix:/path"``. The host may follow a
            user, as in ``"tls:billing@nyc.example.org:7471"``. For a queue manager with standbys:
            up to 16 addresses with commas, as in ``"tls:nyc1:7471,tls:nyc2:7471"``. The client
            tries them in turn until it finds the active one.
        name: The name of this client in logs and in ``qmctl``. The queue manager also uses the name
            to refuse a client whose request triggered a bug. Default: program, host and process id,
            such as ``"billing.host7.4711"``.
        producer_id: 16 bytes that identify the puts of this application across restarts. Only one
            process at a time may use the same bytes: the queue manager disconnects the older
            process. Default: random bytes.
        reconnect: Whether to connect again if the connection is lost. If false, all open requests
            fail when the connection is lost.
        wait_ms: The time for which to try the first connection. 0 means one attempt at each
            address. None means no time limit.
        give_up_ms: The time for which to try to connect again. None means no time limit.
        coalesce: Whether to send puts in one frame if they are made at about the same time.
        user: The user to log in as. Default: the user in *address*, or else in the environment
            variable QMGR_USER, with the password in QMGR_PASSWORD or in the file
            QMGR_PASSWORD_FILE. If no user is given there either, the client logs in by the
            certificate that it shows, or not at all.
        password: The password of the user. The password is never sent.
        password_file: A file with the password, instead of *password*. The client reads the file at
            each new connection.
        token: A token (JWT) to log in with, instead of a user and a password. The client ends when
            the token expires. Default: the environment variables QMGR_TOKEN and QMGR_TOKEN_FILE.
            The address must use TLS, a unix socket, or a loopback address.
        token_file: A file with the token, instead of *token*. The client reads it at each new
            connection, and renews the token of an open connection with the present contents.
        tls: For an address that begins with ``tls:``, how the client checks the queue manager, and
            which certificate it shows. Default: the environment variables QMGR_CA_FILE,
            QMGR_CERTIFICATE_FILE, QMGR_KEY_FILE, QMGR_SERVER_NAME and QMGR_FINGERPRINT. If none is
            set either, the certificate of the queue manager must be signed by a CA of the system.

    Raises:
        AddressInvalid: *address* is not a valid address. This error is also a ValueError.
        ValueError: *name* is not valid UTF-8 or is longer than 255 characters, *producer_id* is
            not 16 bytes, a time is negative, the user or the password is missing, both a password
            and a token are given, a token would be sent without TLS, or *tls* is given for an
            address without TLS.
        RequestError: VALUE_INVALID if a time is not a duration or is a negative timedelta.
    """
    producer_id = os.urandom(16) if producer_id is None else producer_id
    if type(producer_id) is not bytes or len(producer_id) != 16:
        raise ValueError(f"the producer id {producer_id!r} is not 16 bytes")
    where = addresses.parse_list(address)
    new_login = _new_login(where, (user, password, password_file), (token, token_file))
    options = tls_options(where[0], tls)
    if new_login is None and options is not None and options.certificate_file:
        new_login = lambda server_hash: CertificateLogin()  # noqa: E731
    return QueueManager(
        where,
        ClientCore(
            checked(name) or client_name(),
            producer_id,
            instance=secrets.randbits(63),
            coalesce=coalesce,
            new_login=new_login,
        ),
        ConnectTimes(
            in_ms_or_none("wait_ms", wait_ms),
            in_ms_or_none("give_up_ms", give_up_ms) if reconnect else 0,
        ),
        options,
    )


def _new_login(
    where: Sequence[addresses.Address], of_password: tuple[str, str, str], of_token: tuple[str, str]
) -> NewLogin | None:
    """Returns the login of the arguments or of the environment, or None.

    Raises:
        ValueError: The arguments do not fit together, or a token would be sent without TLS.
    """
    user = where[0].user
    has_user = any(of_password) or bool(user)
    if has_user and any(of_token):
        raise ValueError("give either a user with a password, or a token")
    token = None if has_user else token_credentials(*of_token)
    if token is not None:
        for address in where:
            token.check_address(address)
        return token.login
    found = credentials(*of_password, in_address=user)
    return None if found is None else found.login


class QueueManager(Groups, Replies, Settling, Work):
    """A connection to a queue manager, for ``async with``.

    Every method raises RequestError if the queue manager refuses the request, and ConnectionEnded
    after the client is closed. Use the object only on the event loop that opened it.
    """

    def __init__(
        self,
        where: Sequence[addresses.Address],
        core: ClientCore,
        patience: ConnectTimes,
        tls: TlsOptions | None = None,
    ) -> None:
        super().__init__(core)
        self._tls = tls
        self._addresses = where
        self._patience = patience
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> "QueueManager":
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        return self._core.welcome.name

    @property
    def long_bytes(self) -> tuple[int, int]:
        """The progress of the long messages that are being put or received, in bytes.

        The first number counts the transferred bytes, and the second one all bytes. Both are 0 if
        no message of more than 252,000 bytes is in transit. Bytes of a put count when the client
        writes them.
        """
        return self._core.answers.long_bytes

    @property
    def admin(self) -> Admin:
        """The requests of operators for queues, links, topics, jobs, history and so on."""
        return Admin(self._ask)

    async def open(self) -> None:
        """Connects to the queue manager. The client stays connected until :meth:`close`.

        Raises:
            ConnectFailed: The client could not connect. The error has the reason and a hint.
            ConnectionEnded: The queue manager refuses this client.
            RuntimeError: The client is already open.
        """
        if self._task is not None:
            raise RuntimeError("the client is already open: open it once, or connect another one")
        self._session = Session(self._core)
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        dialler = Dialler(self._session, self._addresses, self._patience, self._tls)
        self._task = asyncio.create_task(dialler.run(opened))
        try:
            await opened
        except BaseException:
            await self._stop()
            raise

    async def close(self, timeout_ms: Duration = CLOSE_MAX_MS) -> None:
        """Waits for the puts and settles in flight, then disconnects.

        Loops over consumers and subscriptions end normally, as if they had been cancelled. Other
        calls then raise ConnectionEnded, for example an ack of a message that is still being
        processed. You may call this method repeatedly.

        Args:
            timeout_ms: The maximum time to wait for the results of puts and settles. After this
                time, unanswered puts and settles end with ConnectionEnded.
        """
        if self._task is None:
            return
        try:
            async with asyncio.timeout(in_ms("timeout_ms", timeout_ms) / 1000):
                await self._session.wait_until_settled()
        except TimeoutError:
            pass  # _stop ends the remaining calls with errors.
        finally:
            await self._stop()

    async def _stop(self) -> None:
        self._session.end(ErrorCode.CANCELLED, "closed by the caller")
        await self._close_replies()
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
            if not task.cancelled() and (error := task.exception()):
                raise error
        await self._session.closed()
