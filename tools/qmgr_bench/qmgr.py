"""The driver for qmgrd, which encodes records beforehand and puts lists of them in each frame.

The driver does less work than qmgr_client, so that the daemon is the bottleneck. The driver does
not keep messages to send them again.
"""

import os
import random
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from typing import Any

from qmgr_bench.load import READ_BYTES, LoadFailed, dial
from qmgr_client.credentials import Login
from qmgr_client.sansio.login import ClientProof, ServerUnproved
from qmgr_client.sansio.outgoing_body import PUT_BODY, OutgoingBody, pieces_for
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import RemoteProtocolError, RequestError
from qmgr_protocol.pieces import PIECE_BYTES
from qmgr_protocol.record import PRIORITY_DEFAULT, Fields, encode
from qmgr_protocol.states import Side
from qmgr_protocol.tls import TlsFailed, TlsOptions, end_point, explained

POOL = 4_096  # number of different messages
CREDIT_BYTES = 16 << 20  # credit for deliveries that are not processed yet
POOL_BYTES = 32 << 20  # maximum size in bytes of all bodies together
FRAME_RECORDS, FRAME_BYTES = 1_000, 256 * 1024  # limits of one frame, as in qmgr_client
PRINTABLE = bytes(33 + byte % 94 for byte in range(256))


def bodies(size_bytes: int, *, vary: bool) -> list[bytes]:
    """Returns POOL bodies, the same at each call. All bodies are equal unless *vary* is set."""
    die = random.Random(7)
    count = max(1, min(POOL, POOL_BYTES // max(size_bytes, 1))) if vary else 1
    different = [die.randbytes(size_bytes).translate(PRINTABLE) for _ in range(count)]
    return [different[i % count] for i in range(POOL)]


def records(pool: Sequence[bytes], priority: int = PRIORITY_DEFAULT) -> list[bytes]:
    """Returns a record for each body of *pool*. Equal bodies share a record to save memory."""
    encoded = {body: encode(Fields(body, priority)) for body in dict.fromkeys(pool)}
    return [encoded[body] for body in pool]


class Wire:
    """A blocking connection to a queue manager: a handshake, then one request at a time."""

    def __init__(
        self, address: str, name: str, login: Login | None = None, tls: TlsOptions | None = None
    ) -> None:
        """Connects to *address* as the client *name*, and logs in with *login*, if any.

        Args:
            tls: For an address with TLS, the check of its certificate. Default: the environment.

        Raises:
            OSError: The connection to *address* failed.
            ValueError: The password cannot be read, or *tls* is given without TLS.
            LoadFailed: The server is not a queue manager, is not trusted, or refuses the
                connection.
        """
        try:
            self.sock: socket.socket = dial(address, tls)
        except (TlsFailed, ssl.SSLError) as error:
            raise LoadFailed(explained(error)) from error
        self.connection = Connection(Side.DIALLER)
        self.body_bytes: dict[int, int] = {}  # size of the last record of each body
        self._requests = 0
        self._heard: deque[Any] = deque()
        try:
            self.welcome = self._greet(name, ClientProof(login.login if login else None))
        except BaseException:
            self.sock.close()
            raise

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def _greet(self, name: str, proof: ClientProof) -> m.Welcome:
        server_hash = b""
        if isinstance(self.sock, ssl.SSLSocket):
            server_hash = end_point(self.sock.getpeercert(binary_form=True) or b"")
        hello = m.Hello(m.MAGIC, m.VERSION, m.VERSION, "client", name, piece_max_bytes=PIECE_BYTES)
        self.send(proof.begin(hello, server_hash))
        welcome = self.next()
        try:
            if type(welcome) is m.AuthChallenge:
                self.send(proof.answer(welcome))
                welcome = self.next()
            if type(welcome) is not m.Welcome:
                raise LoadFailed(f"the queue manager refused the connection: {welcome}")
            proof.check(welcome, 0)
        except ServerUnproved as error:
            raise LoadFailed(f"the login failed: {error}") from error
        return welcome

    def send(self, message: Any) -> None:
        """Sends *message*."""
        self.sock.sendall(self.connection.send(message))

    def next(self) -> Any:
        """Returns the next message from the queue manager."""
        while not self._heard:
            data = self.sock.recv(READ_BYTES)
            if not data:
                raise LoadFailed("the queue manager closed the connection")
            self._heard.extend(self.take(data))
        return self._heard.popleft()

    def take(self, data: bytes) -> list[Any]:
        """Returns the messages that *data* completes, and answers pings. Drops pieces.

        Raises:
            LoadFailed: The queue manager closes the connection or sends invalid frames.
        """
        found = []
        for message, _ in self.connection.receive(data, 0):
            if type(message) is m.Goaway:
                raise LoadFailed(f"the queue manager closed the connection: {message.text}")
            if type(message) is m.Ping:
                self.send(m.Pong(message.number))
            elif type(message) is m.Piece:
                self.body_bytes[message.body] = message.size
            else:
                found.append(message)
        error: RemoteProtocolError | None = self.connection.error
        if error is not None:
            raise LoadFailed(f"the server does not use qmgrd's protocol: {error}")
        return found

    def frames(self, put: m.Put) -> list[bytes]:
        """Returns *put* as its frame, which follows the pieces of its first record if it is long.

        A long record must be the only one.
        """
        send, size = self.connection.send, pieces_for(put.records[0], self.welcome)
        if not size:
            return [send(put)]
        body = OutgoingBody(PUT_BODY, put.records[0], size)
        frames = [send(piece) for piece in iter(body.next, None)]
        frames.append(send(put._replace(records=[b""], bodies=[[0, PUT_BODY]])))
        return frames

    def next_request(self) -> int:
        """Returns the id of a new request."""
        self._requests += 1
        return self._requests

    def ask(self, kind: type[Any], *fields: Any) -> Any:
        """Sends a request and returns the value of the answer.

        Raises:
            RequestError: The request was refused.
        """
        request_id = self.next_request()
        self.send(kind(request_id, *fields))
        answer = self.next()
        if type(answer) is m.Error:
            raise RequestError(answer.code, answer.text, answer.retry_after_ms)
        return answer.value

    def cpu_ms(self) -> int:
        """Returns the processor time of the daemon in ms."""
        return int(self.ask(m.Status)["cpu_ms"])


class QmgrSender:
    """A producer with its own connection."""

    def __init__(self, wire: Wire, queue: str, pool: Sequence[bytes], *, coalesce: bool) -> None:
        """Opens the producer's stream.

        Args:
            pool: POOL records of about the same size.
            coalesce: Whether puts that are sent together share a frame.
        """
        self.sock = wire.sock
        self._wire = wire
        self._queue = queue
        self._pool = [*pool, *pool]
        fitting = max(1, min(FRAME_RECORDS, FRAME_BYTES // len(pool[0])))
        self._frame_records = fitting if coalesce else 1
        self._stream: int = wire.ask(m.ProducerOpen, os.urandom(16))[0]
        self._next_id = 1
        self._commit_id = 0

    def put(self, count: int) -> bytes:
        """Returns the bytes of the next *count* puts."""
        frames_of, seen, most = self._wire.frames, self._commit_id, self._frame_records
        frames = []
        while count:
            batch = min(count, most)
            at = self._next_id % POOL
            records = self._pool[at : at + batch]
            frames += frames_of(m.Put(self._stream, self._next_id, seen, self._queue, records))
            self._next_id += batch
            count -= batch
        return b"".join(frames)

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* acknowledges.

        Raises:
            LoadFailed: A put was refused.
        """
        before = self._commit_id
        for message in self._wire.take(data):
            if type(message) is not m.Committed:
                raise LoadFailed(f"unexpected answer to a put: {message}")
            if message.refused:
                raise LoadFailed(f"a put was refused: {message.refused[0][2]}")
            self._commit_id = message.commit_id
        return self._commit_id - before


class QmgrReceiver:
    """A consumer that acknowledges each delivery immediately."""

    def __init__(
        self, wire: Wire, queue: str, prefetch: int, where: str = "", order: int = m.PHYSICAL
    ) -> None:
        self.sock = wire.sock
        self._wire = wire
        self._queue = queue
        self._prefetch = prefetch
        self._where = where
        self._order = order
        self._consumer = wire.next_request()
        self._settles: deque[tuple[int, int]] = deque()  # pairs of (settle id, number of messages)
        self._settle_id = 0

    def start(self) -> bytes:
        """Returns the request that opens the consumer."""
        consume = m.Consume(
            self._consumer,
            self._queue,
            self._prefetch,
            CREDIT_BYTES,
            where=self._where,
            order=self._order,
        )
        return self._wire.connection.send(consume)

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        """Returns the acks to send, and the numbers of received messages and answered acks.

        Raises:
            LoadFailed: The consumer ended, or the lease of an acknowledged message had ended.
        """
        send = self._wire.connection.send
        acks, got, acked = b"", 0, 0
        for message in self._wire.take(data):
            kind = type(message)
            if kind is m.Deliver:
                items = message.items
                handles = b"".join([item[: m.HANDLE.size] for item in items])
                self._settle_id += 1
                self._settles.append((self._settle_id, len(items)))
                got += len(items)
                acks += send(m.Settle(self._settle_id, m.ACK, message.queue_id, handles))
                size = sum(map(len, items))
                for _, body in message.bodies:
                    size += self._wire.body_bytes[body]
                acks += send(m.Credit(self._consumer, len(items), size))
            elif kind is m.Settled:
                acked += self._settled(message)
            elif kind is not m.Ok:
                raise LoadFailed(f"the consumer ended: {message}")
        return acks, got, acked

    def _settled(self, settled: m.Settled) -> int:
        if settled.exceptions:
            raise LoadFailed("an ack was too late because the lease had ended: use a longer lease")
        acked = 0
        while self._settles and self._settles[0][0] <= settled.settle_id:
            acked += self._settles.popleft()[1]
        return acked
