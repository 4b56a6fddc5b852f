# Generated from qmgr_client/aio/queue_manager.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""The connection to a queue manager, without asyncio."""

from types import TracebackType

from qmgr_client.aio import queue_manager as aio_queue_manager
from qmgr_client.aio.queue_manager import CLOSE_MAX_MS
from qmgr_client.blocking.admin import Admin
from qmgr_client.blocking.bridge import ClientThread
from qmgr_client.blocking.groups import Groups
from qmgr_client.blocking.replies import Replies
from qmgr_client.blocking.settle import Settling
from qmgr_client.blocking.work import Work
from qmgr_client.duration import Duration
from qmgr_protocol.tls import TlsOptions


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
) -> "Client":
    """Returns a client of the queue manager at *address*. The client is not connected yet.

    To connect, open the client with ``with`` or ``open()``.

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
    return Client(
        ClientThread(),
        aio_queue_manager.connect(
            address,
            name=name,
            producer_id=producer_id,
            reconnect=reconnect,
            wait_ms=wait_ms,
            give_up_ms=give_up_ms,
            coalesce=coalesce,
            user=user,
            password=password,
            password_file=password_file,
            token=token,
            token_file=token_file,
            tls=tls,
        ),
    )


class Client(Groups, Replies, Settling, Work):
    """A connection to a queue manager, for ``with``.

    Every method raises RequestError if the queue manager refuses the request, and ConnectionEnded
    after the client is closed. Threads may share the object. After a fork, the child process must
    connect again.
    """

    def __enter__(self) -> "Client":
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def name(self) -> str:
        """The name of the queue manager."""
        return self._aio.name

    @property
    def long_bytes(self) -> tuple[int, int]:
        """The progress of the long messages that are being put or received, in bytes.

        The first number counts the transferred bytes, and the second one all bytes. Both are 0 if
        no message of more than 252,000 bytes is in transit. Bytes of a put count when the client
        writes them.
        """
        return self._aio.long_bytes

    @property
    def admin(self) -> Admin:
        """The requests of operators for queues, links, topics, jobs, history and so on."""
        return Admin(self._thread, self._aio.admin)

    def open(self) -> None:
        """Connects to the queue manager. The client stays connected until :meth:`close`.

        Raises:
            ConnectFailed: The client could not connect. The error has the reason and a hint.
            ConnectionEnded: The queue manager refuses this client.
            RuntimeError: The client is already open.
        """
        self._thread.start(self._aio.open())

    def close(self, timeout_ms: Duration = CLOSE_MAX_MS) -> None:
        """Waits for the puts and settles in flight, then disconnects.

        Loops over consumers and subscriptions end normally, as if they had been cancelled. Other
        calls then raise ConnectionEnded, for example an ack of a message that is still being
        processed. You may call this method repeatedly.

        Args:
            timeout_ms: The maximum time to wait for the results of puts and settles. After this
                time, unanswered puts and settles end with ConnectionEnded.
        """
        self._thread.close(lambda: self._aio.close(timeout_ms))
