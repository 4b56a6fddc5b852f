"""The driver for PostgreSQL: a table as a queue, with protocol 3 in pipeline mode.

A put is a prepared INSERT. Without groups, each INSERT has its own Sync and so its own transaction.
With groups, up to 128 INSERTs share a Sync, as in a program that collects rows itself. A consumer
reads with FOR UPDATE SKIP LOCKED and deletes in the same transaction. It uses one DELETE per
message, or one for all messages of a read.
"""

import os
import shutil
import signal
import socket
import struct
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from qmgr_bench.load import READ_BYTES, Load, LoadFailed, Plan, Receiver, Sender, dial
from qmgr_bench.server import QUEUE, Program, Turns, first_line, free_port, wait_for

USER = "postgres"
BINARIES = Path("/usr/lib/postgresql")
GROUP = 128
PRELOADED = 1_000  # number of rows in each INSERT of the preload
WARM_SECONDS = 1.0
PROTOCOL = 3 << 16
WAIT = "SELECT FROM pg_sleep(0.001) OFFSET 1"  # This statement returns no row.
BINARY = struct.pack(">HH", 1, 1)
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "unix_socket_directories": "",
    "shared_buffers": "256MB",
    "fsync": "on",
    "synchronous_commit": "on",
}

_HEAD = struct.Struct(">cI")
_ROW_ID = struct.Struct(">q")
# offset after the kind, the length, the number of columns and the length of the first column
_ROW_ID_AT = 11


def message(kind: bytes, *parts: bytes) -> bytes:
    """Returns a message of the protocol."""
    body = b"".join(parts)
    return kind + struct.pack(">I", len(body) + 4) + body


def parse(name: bytes, text: str) -> bytes:
    """Returns the message that prepares the statement *text*."""
    return message(b"P", name + b"\0", text.encode() + b"\0", bytes(2))


def execute(name: bytes, *values: bytes) -> bytes:
    """Returns the message that runs a prepared statement with *values* and binary results."""
    given = b"".join(struct.pack(">I", len(value)) + value for value in values)
    bind = message(b"B", b"\0", name + b"\0", BINARY, struct.pack(">H", len(values)), given, BINARY)
    return bind + message(b"E", b"\0", bytes(4))


SYNC = message(b"S")
INSERTED = message(b"2") + message(b"C", b"INSERT 0 1\0")
READY = message(b"Z", b"I")


def messages(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yields the kind, the start and the end of each complete message in *data*."""
    at, size = 0, len(data)
    while at + 5 <= size:
        kind, length = _HEAD.unpack_from(data, at)
        end = at + 1 + length
        if end > size:
            return
        yield kind, at, end
        at = end


def complaint(data: bytes) -> LoadFailed:
    """Returns the exception for an ErrorResponse or for another unexpected message."""
    fields = {part[:1]: part[1:] for part in data[5:].split(b"\0") if part}
    text = fields.get(b"M", data[:100]).decode(errors="replace")
    return LoadFailed(f"postgres: {text}")


def log_in(address: str) -> socket.socket:
    """Returns a connection that is logged in.

    Raises:
        LoadFailed: The server refuses the login.
        OSError: The connection failed.
    """
    sock = dial(address)
    try:
        start = b"user\0%s\0database\0%s\0\0" % (USER.encode(), USER.encode())
        sock.sendall(struct.pack(">II", len(start) + 8, PROTOCOL) + start)
        settle(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def settle(sock: socket.socket) -> None:
    """Reads until the server is ready for the next request.

    Raises:
        LoadFailed: The server reports an error.
    """
    heard = b""
    while not heard.endswith(READY):
        data = sock.recv(READ_BYTES)
        heard += data
        for kind, at, end in messages(heard):
            if kind == b"E":
                raise complaint(heard[at:end])
        if not data:
            raise LoadFailed("postgres closed the connection")


def ask(sock: socket.socket, *statements: str) -> None:
    """Runs *statements*, each in a separate transaction.

    Raises:
        LoadFailed: The server refuses a statement.
    """
    for text in statements:
        sock.sendall(message(b"Q", text.encode() + b"\0"))
        settle(sock)


class PostgresSender:
    """A connection that inserts messages."""

    def __init__(self, sock: socket.socket, pool: Sequence[bytes], group: int) -> None:
        """Prepares the INSERT.

        Args:
            group: The maximum number of puts that share a Sync.
        """
        self.sock = sock
        sock.sendall(parse(b"i", f"INSERT INTO {QUEUE} (body) VALUES ($1)") + SYNC)
        settle(sock)
        self._puts = Turns([execute(b"i", body) for body in pool])
        self._group = group
        self._groups: deque[int] = deque()
        self._rest = b""

    def put(self, count: int) -> bytes:
        """Returns the bytes of the next *count* puts."""
        parts = []
        while count:
            group = min(count, self._group)
            parts += [self._puts.next(group), SYNC]
            self._groups.append(group)
            count -= group
        return b"".join(parts)

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* reports as committed.

        Raises:
            LoadFailed: A put was refused.
        """
        data = self._rest + data
        answers, at = 0, 0
        while self._groups:
            expected = INSERTED * self._groups[0] + READY
            if len(data) < at + len(expected):
                break
            if not data.startswith(expected, at):
                raise self._complaint(data[at:])
            at += len(expected)
            answers += self._groups.popleft()
        self._rest = data[at:]
        if b"E" in {kind for kind, _, _ in messages(self._rest)}:
            raise self._complaint(self._rest)
        return answers

    def _complaint(self, data: bytes) -> LoadFailed:
        for kind, at, end in messages(data):
            if kind == b"E":
                return complaint(data[at:end])
        return complaint(data)


class PostgresReceiver:
    """A consumer. Each transaction reads up to *prefetch* messages and deletes them."""

    def __init__(self, sock: socket.socket, prefetch: int, *, batch: bool) -> None:
        """Prepares the statements.

        Args:
            batch: Whether one DELETE names all messages of a read.
        """
        self.sock = sock
        self._batch = batch
        where = "= ANY($1::bigint[])" if batch else "= $1::bigint"
        sock.sendall(
            parse(b"b", "BEGIN")
            + parse(b"c", "COMMIT")
            + parse(b"w", WAIT)
            + parse(
                b"s",
                f"SELECT id, body FROM {QUEUE} ORDER BY id LIMIT {prefetch} FOR UPDATE SKIP LOCKED",
            )
            + parse(b"d", f"DELETE FROM {QUEUE} WHERE id {where}")
            + SYNC
        )
        settle(sock)
        self._read = execute(b"b") + execute(b"s") + SYNC
        self._ids: list[bytes] = []
        self._deleting = 0
        self._rest = b""

    def start(self) -> bytes:
        """Returns the first read."""
        return self._read

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        """Returns the statements to send, and the numbers of received and of deleted messages.

        Raises:
            LoadFailed: The server reports an error.
        """
        data = self._rest + data
        send, got, deleted, end = b"", 0, 0, 0
        for kind, at, end in messages(data):
            if kind == b"D":
                self._ids.append(data[at + _ROW_ID_AT : at + _ROW_ID_AT + _ROW_ID.size])
                got += 1
            elif kind == b"C" and data.startswith(b"COMMIT", at + 5):
                deleted += self._deleting
                self._deleting = 0
            elif kind == b"Z":
                send += self._deletes()
            elif kind == b"E":
                raise complaint(data[at:end])
        self._rest = data[end:]
        return send, got, deleted

    def _deletes(self) -> bytes:
        """Returns the end of this transaction and the start of the next one.

        If the last read found no message, the consumer waits before the next read.
        """
        ids, self._ids = self._ids, []
        self._deleting = len(ids)
        if not ids:
            return execute(b"c") + execute(b"w") + self._read
        if self._batch:
            deletes = execute(b"d", array(ids))
        else:
            deletes = b"".join([execute(b"d", row_id) for row_id in ids])
        return deletes + execute(b"c") + self._read


def array(ids: Sequence[bytes]) -> bytes:
    """Returns *ids* as a bigint[] in binary form."""
    # number of dimensions, nulls flag, element type, size, lower bound
    head = struct.pack(">IIIII", 1, 0, 20, len(ids), 1)
    return head + b"".join([struct.pack(">I", len(i)) + i for i in ids])


class PostgresServer:
    """A PostgreSQL server with a table as a queue."""

    def __init__(self, name: str, *, batch: bool) -> None:
        self.name = name
        self.about = (
            f"a table, {GROUP} INSERTs per transaction, one DELETE per read"
            if batch
            else "a table, one INSERT per transaction, one DELETE per message"
        )
        self._batch = batch
        self._program = Program()
        self.address = ""

    def version(self) -> str | None:
        """Returns the version of the newest installed PostgreSQL, or None."""
        path = program_path("postgres")
        return path and f"PostgreSQL {first_line(path, '--version').split()[2]}"

    def start(self, directory: Path) -> None:
        """Creates a cluster, starts the server on a free port, warms it up, and creates the table.

        If this process runs as root, the server runs as Debian's PostgreSQL user, because
        PostgreSQL refuses to run as root.

        Raises:
            LoadFailed: The server does not start, for example because its user cannot access
                *directory*.
        """
        user = USER if os.getuid() == 0 else None
        if user is not None:
            shutil.chown(directory, user, user)
        data = directory / "data"
        program, port = program_path("initdb"), free_port()
        assert program is not None
        making = Program()
        words = [program, "-D", str(data), "-A", "trust", "-U", USER, "-E", "UTF8", "--no-locale"]
        making.start(words, directory, user=user)
        making.end()
        self.address = f"127.0.0.1:{port}"
        settings = [f"--{name}={value}" for name, value in SETTINGS.items()]
        words = [program_path("postgres") or "", "-D", str(data), "-p", str(port), *settings]
        self._program.start(words, directory, user=user)
        wait_for(self._program, self._is_up)
        sender = self.sender([bytes(256)] * GROUP)
        with sender.sock:
            Load(Plan(GROUP, WARM_SECONDS), [sender]).run()
        self._is_up()

    def _is_up(self) -> bool:
        """Creates the table from scratch. Returns whether the server accepted the requests."""
        with suppress(OSError, LoadFailed), log_in(self.address) as sock:
            ask(
                sock,
                f"DROP TABLE IF EXISTS {QUEUE}",
                f"CREATE TABLE {QUEUE} (id bigserial PRIMARY KEY, body bytea NOT NULL)",
                "CHECKPOINT",
            )
            return True
        return False

    def preload(self, count: int, pool: Sequence[bytes]) -> None:
        """Puts *count* messages with INSERTs of many rows."""
        bodies = ", ".join(f"('\\x{body.hex()}'::bytea)" for body in pool[:PRELOADED])
        one = f"INSERT INTO {QUEUE} (body) SELECT * FROM (VALUES {bodies}) AS b LIMIT "
        with log_in(self.address) as sock:
            while count:
                rows = min(count, PRELOADED, len(pool))
                ask(sock, one + str(rows))
                count -= rows
            ask(sock, f"VACUUM ANALYZE {QUEUE}", "CHECKPOINT")

    def stop(self) -> None:
        """Stops the server immediately and discards its data."""
        self._program.stop(signal.SIGQUIT)

    def cpu_s(self) -> float:
        """Returns the processor time of the server in seconds."""
        return self._program.cpu_s()

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new connection that inserts messages."""
        return PostgresSender(log_in(self.address), pool, GROUP if self._batch else 1)

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Returns a new connection that reads and deletes messages."""
        del size_bytes
        return PostgresReceiver(log_in(self.address), prefetch, batch=self._batch)


def program_path(name: str) -> str | None:
    """Returns the path of a PostgreSQL program. Debian does not install these programs on PATH."""
    found = sorted(BINARIES.glob(f"*/bin/{name}"), key=lambda path: int(path.parts[-3]))
    return str(found[-1]) if found else shutil.which(name)
