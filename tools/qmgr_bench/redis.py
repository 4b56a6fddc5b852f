"""The driver for Redis Streams: XADD, XREADGROUP, XACK and XDEL (RESP).

As with qmgrd, the commands are encoded beforehand and sent in bursts. A message leaves a stream
only when it is deleted, so an ack consists of XACK and XDEL. By default, each message has its own
XACK and XDEL. With ``batch``, the messages of a read share them.
"""

import re
import shutil
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from qmgr_bench.load import READ_BYTES, LoadFailed, Receiver, Sender, dial
from qmgr_bench.server import QUEUE, Program, Turns, first_line, free_port, put_all, wait_for

GROUP = b"g"
BLOCK_MS = 100
_ENTRIES = re.compile(rb"\*1\r\n\*2\r\n\$\d+\r\n[^\r]+\r\n\*(\d+)\r\n")
_NOTHING = re.compile(rb"\*-1\r\n")
_COUNT = re.compile(rb":(\d+)\r\n")


def command(*words: bytes) -> bytes:
    """Returns a command in RESP format."""
    parts = [b"*%d\r\n" % len(words)]
    parts += [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def ask(sock: socket.socket, *words: bytes) -> bytes:
    """Sends a command and returns the short answer of Redis.

    Raises:
        LoadFailed: The answer is an error.
    """
    sock.sendall(command(*words))
    answer = sock.recv(READ_BYTES)
    if answer.startswith(b"-") or not answer:
        raise LoadFailed(f"redis: {answer.decode(errors='replace').strip()}")
    return answer


def create(address: str, stream: bytes) -> None:
    """Creates *stream* and its group from scratch."""
    with dial(address) as sock:
        ask(sock, b"DEL", stream)
        ask(sock, b"XGROUP", b"CREATE", stream, GROUP, b"0", b"MKSTREAM")


class RedisSender:
    """A connection that adds messages."""

    def __init__(self, sock: socket.socket, stream: bytes, pool: Sequence[bytes]) -> None:
        self.sock = sock
        self._puts = Turns([command(b"XADD", stream, b"*", b"p", body) for body in pool])
        self._odd_lines = 0
        self._at_line = True

    def put(self, count: int) -> bytes:
        """Returns the bytes of the next *count* puts."""
        return self._puts.next(count)

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* acknowledges. Each answer is an id in two lines.

        Raises:
            LoadFailed: A put was refused.
        """
        if (self._at_line and data.startswith(b"-")) or b"\n-" in data:
            raise LoadFailed(f"redis: {data[:200].decode(errors='replace').strip()}")
        # Ids contain dashes, so only a dash at the start of a line is an error.
        self._at_line = data.endswith(b"\n")
        answers, self._odd_lines = divmod(self._odd_lines + data.count(b"\n"), 2)
        return answers


class RedisReceiver:
    """A consumer that acknowledges and deletes the messages of a read, then reads again."""

    def __init__(
        self,
        sock: socket.socket,
        stream: bytes,
        prefetch: int,
        size_bytes: int,
        *,
        batch: bool,
        group: bytes = GROUP,
        deletes: bool = True,
        block_ms: int = BLOCK_MS,
    ) -> None:
        """Prepares a consumer on *sock*. :meth:`start` begins to read.

        Args:
            size_bytes: The size of each message, which is used to split received data.
            batch: Whether one XACK and one XDEL name all messages of a read.
            group: The consumer's group.
            deletes: Whether an ack also deletes the message. Otherwise an ack is only an XACK.
            block_ms: The time that a read waits for a message.
        """
        self.sock = sock
        self._stream = stream
        self._batch = batch
        self._group = group
        self._deletes = deletes
        self._read = command(
            b"XREADGROUP",
            b"GROUP",
            group,
            b"c",
            b"COUNT",
            b"%d" % prefetch,
            b"BLOCK",
            b"%d" % block_ms,
            b"STREAMS",
            stream,
            b">",
        )
        self._entry = re.compile(
            rb"\*2\r\n\$\d+\r\n(\d+-\d+)\r\n\*2\r\n\$1\r\np\r\n\$%d\r\n.{%d}\r\n"
            % (size_bytes, size_bytes),
            re.DOTALL,
        )
        ack, delete = command(b"XACK", stream, group, b"?"), command(b"XDEL", stream, b"?")
        settle = (ack + delete if deletes else ack).replace(b"%", b"%%")
        settle = settle.replace(b"$1\r\n?", b"$%d\r\n%s")
        self._settle = settle  # commands with placeholders for the length and the id
        self._rest = b""
        # whether the next answer is to an XDEL; answers come in pairs, XACK first
        self._deletes_next = not deletes

    def start(self) -> bytes:
        """Returns the first read."""
        return self._read

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        """Returns the bytes to send, and the numbers of received messages and answered acks.

        Raises:
            LoadFailed: The server reported an error or sent an unexpected answer.
        """
        data = self._rest + data
        send, got, acked, at = b"", 0, 0, 0
        while at < len(data):
            if number := _COUNT.match(data, at):
                acked += int(number[1]) if self._deletes_next else 0
                self._deletes_next = not (self._deletes and self._deletes_next)
                at = number.end()
            elif head := _ENTRIES.match(data, at):
                ids = self._ids(data, head.end(), int(head[1]))
                if ids is None:
                    break
                at, got = ids[1], got + len(ids[0])
                send += self._acks(ids[0]) + self._read
            elif nothing := _NOTHING.match(data, at):
                at = nothing.end()
                send += self._read
            elif data[at : at + 1] in b":*" and len(data) - at < 100:
                break  # The rest of the head has not arrived.
            else:
                raise LoadFailed(f"redis: {data[at : at + 200].decode(errors='replace')}")
        self._rest = data[at:]
        return send, got, acked

    def _ids(self, data: bytes, at: int, count: int) -> tuple[list[bytes], int] | None:
        """Returns the ids of *count* entries and their end, or None if an entry is incomplete."""
        ids = []
        for _ in range(count):
            entry = self._entry.match(data, at)
            if entry is None:
                return None
            ids.append(entry[1])
            at = entry.end()
        return ids, at

    def _acks(self, ids: list[bytes]) -> bytes:
        if self._batch:
            ack = command(b"XACK", self._stream, self._group, *ids)
            return ack + (command(b"XDEL", self._stream, *ids) if self._deletes else b"")
        settle = self._settle
        if not self._deletes:
            return b"".join([settle % (len(i), i) for i in ids])
        return b"".join([settle % (len(i), i, len(i), i) for i in ids])


class RedisServer:
    """A Redis server with a stream and a consumer group, appendfsync always."""

    def __init__(self, name: str, *, batch: bool) -> None:
        self.name = name
        acks = "one XACK and one XDEL per read" if batch else "one XACK and one XDEL per message"
        self.about = f"Streams, appendfsync always; {acks}"
        self._batch = batch
        self._program = Program()
        self.address = ""

    def version(self) -> str | None:
        """Returns the version of the redis-server on PATH, or None."""
        path = shutil.which("redis-server")
        return path and first_line(path, "--version").split()[2].replace("v=", "Redis ")

    def start(self, directory: Path) -> None:
        """Starts a Redis server on a free port and creates the stream."""
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        self._program.start(
            [
                "redis-server",
                "--port",
                str(port),
                "--bind",
                "127.0.0.1",
                "--dir",
                str(directory),
                "--save",
                "",
                "--appendonly",
                "yes",
                "--appendfsync",
                "always",
            ],
            directory,
        )
        wait_for(self._program, self._is_up)

    def preload(self, count: int, pool: Sequence[bytes]) -> None:
        """Puts *count* messages."""
        put_all(self, count, pool, producers=1, inflight=2_048)

    def _is_up(self) -> bool:
        with suppress(OSError, LoadFailed):
            create(self.address, QUEUE.encode())
            return True
        return False

    def stop(self) -> None:
        """Stops the server."""
        self._program.stop()

    def cpu_s(self) -> float:
        """Returns the processor time of the server in seconds."""
        return self._program.cpu_s()

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new connection that adds messages."""
        return RedisSender(dial(self.address), QUEUE.encode(), pool)

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Returns a new consumer of the group."""
        return RedisReceiver(
            dial(self.address), QUEUE.encode(), prefetch, size_bytes, batch=self._batch
        )
