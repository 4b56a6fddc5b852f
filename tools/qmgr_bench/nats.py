"""The driver for NATS JetStream, which is configured to flush before each answer.

Each put names the subject for its answer. By default, the server does not answer a consumer's acks.
The last ack of each burst therefore requests an answer, which the server sends after it has handled
the earlier acks.
"""

import json
import os
import re
import shutil
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from qmgr_bench.load import READ_BYTES, LoadFailed, Receiver, Sender, dial
from qmgr_bench.server import QUEUE, Program, Turns, first_line, free_port, put_all, wait_for

SUBJECT = "s.q"
INBOX = "_INBOX.a"
DELIVERED = "_INBOX.d"
API = "$JS.API"
ACK_WAIT_NS = 60_000_000_000
SYNC_ALWAYS = "sync_interval: always"
SYNC_ALWAYS_SINCE = (2, 10)


def publish(subject: str, reply: str, body: bytes) -> bytes:
    """Returns the frame of a message to *subject* that requests an answer to *reply*."""
    return b"PUB %s %s %d\r\n%s\r\n" % (subject.encode(), reply.encode(), len(body), body)


def greet(sock: socket.socket, *subjects: str) -> None:
    """Logs in on *sock* and subscribes to *subjects*.

    Raises:
        LoadFailed: The server refuses the login.
    """
    options = {"verbose": False, "pedantic": False, "headers": True, "no_responders": True}
    hello = b"CONNECT %s\r\n" % json.dumps(options).encode()
    for number, subject in enumerate(subjects, 1):
        hello += b"SUB %s %d\r\n" % (subject.encode(), number)
    sock.sendall(hello + b"PING\r\n")
    heard = b""
    while b"PONG\r\n" not in heard:
        data = sock.recv(READ_BYTES)
        heard += data
        if not data or b"-ERR" in heard:
            raise LoadFailed(f"nats: {heard[-200:].decode(errors='replace').strip()}")


def ask(address: str, subject: str, **fields: object) -> dict[str, Any]:
    """Sends a request to JetStream's API and returns the answer.

    Raises:
        LoadFailed: The answer is an error.
    """
    with dial(address) as sock:
        greet(sock, INBOX)
        sock.sendall(publish(f"{API}.{subject}", INBOX, json.dumps(fields).encode()))
        heard = b""
        while not heard.endswith(b"}\r\n"):
            data = sock.recv(READ_BYTES)
            heard += data
            if not data or b'"error"' in heard or b"503" in heard[:60]:
                raise LoadFailed(f"nats: {heard[-300:].decode(errors='replace').strip()}")
        answer: dict[str, Any] = json.loads(heard.partition(b"\r\n")[2])
        return answer


class NatsSender:
    """A connection that publishes messages. Its answers, two lines each, go to a separate inbox."""

    def __init__(self, sock: socket.socket, pool: Sequence[bytes]) -> None:
        self.sock = sock
        inbox = f"{INBOX}.{os.urandom(4).hex()}"
        greet(sock, inbox)
        self._puts = Turns([publish(SUBJECT, inbox, body) for body in pool])
        self._rest = b""
        self._is_body = False

    def put(self, count: int) -> bytes:
        """Returns the bytes of the next *count* puts."""
        return self._puts.next(count)

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* acknowledges.

        Raises:
            LoadFailed: A put was refused.
        """
        *lines, self._rest = (self._rest + data).split(b"\r\n")
        answers = 0
        for line in lines:
            if self._is_body:
                if b'"error"' in line:
                    raise LoadFailed(f"nats: {line.decode(errors='replace')}")
                answers += 1
                self._is_body = False
            elif line == b"PING":
                self.sock.sendall(b"PONG\r\n")
            elif line.startswith(b"MSG "):
                self._is_body = True
            else:
                raise LoadFailed(f"nats: {line.decode(errors='replace')}")
        return answers


class NatsReceiver:
    """A push consumer that acknowledges each message."""

    def __init__(self, sock: socket.socket, prefetch: int, name: str = "c") -> None:
        """Opens a consumer on *sock* with the durable name *name*."""
        self.sock = sock
        self._name = name
        self._delivered, self._inbox = f"{DELIVERED}.{name}", f"{INBOX}.{name}"
        greet(sock, self._delivered, self._inbox)
        self._prefetch = prefetch
        self._rest = b""
        self._bursts: deque[int] = deque()
        self._is_made = False

    def make(self) -> None:
        """Creates the consumer now. :meth:`start` then sends nothing.

        Raises:
            LoadFailed: The consumer cannot be created.
        """
        self.sock.sendall(self.start())
        while not self._is_made:
            data = self.sock.recv(READ_BYTES)
            if not data:
                raise LoadFailed("nats closed the connection")
            self.take(data)

    def start(self) -> bytes:
        """Returns the request that creates the consumer, or b"" if it exists."""
        if self._is_made:
            return b""
        config = {
            "durable_name": self._name,
            "deliver_subject": self._delivered,
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": ACK_WAIT_NS,
            "max_ack_pending": self._prefetch,
            "replay_policy": "instant",
        }
        body = json.dumps({"stream_name": QUEUE, "config": config}).encode()
        return publish(f"{API}.CONSUMER.DURABLE.CREATE.{QUEUE}.{self._name}", self._inbox, body)

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        """Returns the acks to send, and the numbers of received messages and handled acks.

        Raises:
            LoadFailed: The server reported an error or sent an unexpected answer.
        """
        data = self._rest + data
        send, replies, acked, at = [], [], 0, 0
        while (end := data.find(b"\r\n", at)) >= 0:
            if data.startswith(b"PING", at):
                send.append(b"PONG\r\n")
                at = end + 2
                continue
            words = data[at:end].split()
            if words[0] != b"MSG":
                raise LoadFailed(f"nats: {data[at:end].decode(errors='replace')}")
            body_end = end + 2 + int(words[-1])
            if len(data) < body_end + 2:
                break
            if words[2] == b"1":  # subscription id of the deliveries
                replies.append(words[3])
            else:
                acked += self._answered(data[end + 2 : body_end])
            at = body_end + 2
        self._rest = data[at:]
        if replies:
            self._bursts.append(len(replies))
            send += [b"PUB %s 4\r\n+ACK\r\n" % reply for reply in replies[:-1]]
            send.append(b"PUB %s %s 4\r\n+ACK\r\n" % (replies[-1], self._inbox.encode()))
        return b"".join(send), len(replies), acked

    def _answered(self, body: bytes) -> int:
        if b'"error"' in body:
            raise LoadFailed(f"nats: {body.decode(errors='replace')}")
        if not self._is_made:  # The first answer belongs to start().
            self._is_made = True
            return 0
        return self._bursts.popleft()


class NatsServer:
    """A NATS JetStream server with a work queue in a file, flushed at each change."""

    name = "nats"
    about = "JetStream, sync_interval: always; one ack per message"

    def __init__(self, domain: str = "", leaf: str = "") -> None:
        """Prepares a single server.

        If *domain* is set, *leaf* is the server's configuration of leaf nodes.
        """
        self._network = f'server_name: "{domain}"\nleafnodes {{ {leaf} }}\n' if domain else ""
        self._domain = f" domain: {domain}\n" if domain else ""
        self._program = Program()
        self.address = ""
        self._directory = Path()

    def version(self) -> str | None:
        """Returns the version of the nats-server on PATH, or None if it is missing or too old."""
        path = shutil.which("nats-server")
        if path is None:
            return None
        line = first_line(path, "--version")
        numbers = tuple(map(int, re.findall(r"\d+", line)[:2]))
        return f"NATS {line.rpartition('v')[2]}" if numbers >= SYNC_ALWAYS_SINCE else None

    def start(self, directory: Path) -> None:
        """Starts a server on a free port and creates the stream."""
        self.start_empty(directory)
        self.make_stream(subjects=[SUBJECT], retention="workqueue")

    def start_empty(self, directory: Path) -> None:
        """Starts a server on a free port, without a stream."""
        self._directory = directory
        self._run(SYNC_ALWAYS)

    def make_stream(self, **fields: object) -> None:
        """Creates the stream on disk, without limits."""
        ask(
            self.address,
            f"STREAM.CREATE.{QUEUE}",
            name=QUEUE,
            storage="file",
            num_replicas=1,
            max_msgs=-1,
            max_bytes=-1,
            max_consumers=-1,
            **fields,
        )

    def depth(self) -> int:
        """Returns the number of messages in the stream."""
        return int(ask(self.address, f"STREAM.INFO.{QUEUE}")["state"]["messages"])

    def _run(self, sync: str) -> None:
        port = free_port()
        self.address = f"127.0.0.1:{port}"
        file = self._directory / "nats.conf"
        store = self._directory / "store"
        file.write_text(
            f"host: 127.0.0.1\nport: {port}\n{self._network}jetstream {{\n{self._domain}"
            f' store_dir: "{store}"\n max_file_store: 60GB\n {sync}\n}}\n'
        )
        self._program.start(["nats-server", "-c", str(file)], self._directory)
        wait_for(self._program, self._is_up)

    def _is_up(self) -> bool:
        with suppress(OSError, LoadFailed):
            ask(self.address, "INFO")
            return True
        return False

    def preload(self, count: int, pool: Sequence[bytes]) -> None:
        """Puts *count* messages with a flush every two minutes, then restarts the server.

        After the restart, each change is flushed.
        """
        self._program.stop()
        self._run("")
        put_all(self, count, pool, producers=4, inflight=256)
        self._program.stop()
        self._run(SYNC_ALWAYS)

    def stop(self) -> None:
        """Stops the server."""
        self._program.stop()

    def cpu_s(self) -> float:
        """Returns the processor time of the server in seconds."""
        return self._program.cpu_s()

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new connection that publishes messages."""
        return NatsSender(dial(self.address), pool)

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Returns a new connection that gets messages."""
        del size_bytes
        return NatsReceiver(dial(self.address), prefetch)
