"""The driver for RabbitMQ: a quorum queue over AMQP 0-9-1.

A put consists of three frames and counts when the publisher confirm arrives. AMQP has no answer to
an ack. So each burst of acks ends with a basic.qos that changes nothing. The server answers this
method after it has handled the acks.
"""

import os
import shutil
import signal
import socket
import struct
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from qmgr_bench.load import READ_BYTES, Load, LoadFailed, Plan, Receiver, Sender, dial
from qmgr_bench.server import QUEUE, Program, Turns, free_port, put_all, wait_for

METHOD, HEADER, BODY = 1, 2, 3
FRAME_MAX = 131_072
FRAME_END = 0xCE
CHANNEL = 1
PERSISTENT = struct.pack(">HB", 1 << 12, 2)  # property flags, and the only property: delivery mode
CONSUMER = b"c"
WARM_SECONDS = 1.0
HOME = Path("/usr/lib/rabbitmq")
SERVER = HOME / "bin/rabbitmq-server"  # Debian's script on PATH switches to another user first.
CONTROL = HOME / "bin/rabbitmqctl"

_HEAD = struct.Struct(">BHI")
_CONFIRM = struct.Struct(">BHIHHQBB")
_DELIVER = struct.pack(">HH", 60, 60) + bytes([len(CONSUMER)]) + CONSUMER
_QOS_OK = struct.pack(">HH", 60, 11)
_CONSUME_OK = struct.pack(">HH", 60, 21)
_TAG = struct.Struct(">Q")
_ACK = struct.Struct(">BHIHHQBB")


def short(text: str) -> bytes:
    """Returns *text* as an AMQP short string."""
    return bytes([len(text)]) + text.encode()


def frame(kind: int, payload: bytes, channel: int = CHANNEL) -> bytes:
    """Returns an AMQP frame."""
    return _HEAD.pack(kind, channel, len(payload)) + payload + bytes([FRAME_END])


def method(class_id: int, method_id: int, arguments: bytes, channel: int = CHANNEL) -> bytes:
    """Returns the frame of a method."""
    return frame(METHOD, struct.pack(">HH", class_id, method_id) + arguments, channel)


def publish(body: bytes, exchange: str = "", key: str = QUEUE) -> bytes:
    """Returns the frames of a put: method, header and body."""
    start = method(60, 40, bytes(2) + short(exchange) + short(key) + bytes(1))
    header = frame(HEADER, struct.pack(">HHQ", 60, 0, len(body)) + PERSISTENT)
    pieces = range(0, max(len(body), 1), FRAME_MAX - 8)
    return start + header + b"".join(frame(BODY, body[at : at + FRAME_MAX - 8]) for at in pieces)


def frames(data: bytes) -> Iterator[tuple[int, bytes, int]]:
    """Yields the kind, the payload and the end of each complete frame in *data*."""
    at, size = 0, len(data)
    while at + 8 <= size:
        kind, _, length = _HEAD.unpack_from(data, at)
        end = at + 8 + length
        if end > size:
            return
        yield kind, data[at + 7 : end - 1], end
        at = end


def complaint(payload: bytes) -> LoadFailed:
    """Returns the exception for an unexpected method."""
    class_id, method_id = struct.unpack_from(">HH", payload)
    text = payload[7 : 7 + payload[6]].decode(errors="replace") if len(payload) > 6 else ""
    return LoadFailed(f"rabbitmq: method {class_id}.{method_id} {text}")


class Channel:
    """A connection with one channel, logged in, which sends one request at a time."""

    def __init__(self, address: str) -> None:
        self.sock = dial(address)
        self._heard = b""
        try:
            self._open()
        except BaseException:
            self.sock.close()
            raise

    def _open(self) -> None:
        self.sock.sendall(b"AMQP\0\0\x09\x01")
        self._expect(10, 10)
        login = b"\0guest\0guest"
        start = bytes(4) + short("PLAIN") + struct.pack(">I", len(login)) + login + short("en_US")
        self.sock.sendall(method(10, 11, start, 0))
        self._expect(10, 30)
        # maximum number of channels, frame size in bytes, no heartbeat
        tune = struct.pack(">HIH", CHANNEL, FRAME_MAX, 0)
        self.sock.sendall(method(10, 31, tune, 0) + method(10, 40, short("/") + bytes(2), 0))
        self._expect(10, 41)
        self.ask(20, 10, bytes(1))

    def ask(self, class_id: int, method_id: int, arguments: bytes) -> bytes:
        """Runs a method and returns the arguments of the answer, which has the next method number.

        Raises:
            LoadFailed: The method was refused.
        """
        self.sock.sendall(method(class_id, method_id, arguments))
        return self._expect(class_id, method_id + 1)

    def _expect(self, class_id: int, method_id: int) -> bytes:
        while not (found := next(frames(self._heard), None)):
            data = self.sock.recv(READ_BYTES)
            if not data:
                raise LoadFailed("rabbitmq closed the connection")
            self._heard += data
        _, payload, end = found
        self._heard = self._heard[end:]
        if struct.unpack_from(">HH", payload) != (class_id, method_id):
            raise complaint(payload)
        return payload[4:]


def table(**entries: str) -> bytes:
    """Returns an AMQP table of strings. "_" in a name becomes a dash."""
    body = b""
    for name, value in entries.items():
        body += short(name.replace("_", "-")) + b"S" + struct.pack(">I", len(value))
        body += value.encode()
    return struct.pack(">I", len(body)) + body


def declare(address: str) -> None:
    """Deletes the queue if it exists, and creates it."""
    channel = Channel(address)
    with channel.sock:
        make(channel, QUEUE)


def make(channel: Channel, queue: str) -> None:
    """Deletes *queue* if it exists, and creates it."""
    channel.ask(50, 40, bytes(2) + short(queue) + bytes(1))
    kind = table(x_queue_type="quorum")
    channel.ask(50, 10, bytes(2) + short(queue) + b"\x02" + kind)  # flag 2: durable


def depth(channel: Channel) -> int:
    """Returns the number of messages on the queue."""
    reply = channel.ask(50, 10, bytes(2) + short(QUEUE) + b"\x01" + bytes(4))  # flag 1: passive
    (messages,) = struct.unpack_from(">I", reply, 1 + reply[0])
    return int(messages)


class RabbitSender:
    """A publisher with confirms. Confirms arrive in any order and may confirm several puts."""

    def __init__(
        self, sock: socket.socket, pool: Sequence[bytes], exchange: str = "", key: str = QUEUE
    ) -> None:
        """Prepares puts of the bodies of *pool* in turn on *sock*, to *exchange* with *key*."""
        self.sock = sock
        self._puts = Turns([publish(body, exchange, key) for body in pool])
        self._rest = b""
        self._below = 1  # All tags below this one are confirmed.
        self._above: set[int] = set()  # confirmed tags above _below

    def put(self, count: int) -> bytes:
        """Returns the bytes of the next *count* puts."""
        return self._puts.next(count)

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* confirms.

        Raises:
            LoadFailed: A put was refused, or the channel was closed.
        """
        data = self._rest + data
        whole = len(data) - len(data) % _CONFIRM.size
        self._rest = data[whole:]
        confirmed = 0
        for confirm in _CONFIRM.iter_unpack(data[:whole]):
            kind, _, length, class_id, method_id, tag, several, _ = confirm
            if (kind, length, class_id, method_id) != (METHOD, 13, 60, 80):
                raise complaint(data[7:])
            confirmed += self._confirm_to(tag) if several & 1 else self._confirm(tag)
        return confirmed

    def _confirm(self, tag: int) -> int:
        self._above.add(tag)
        while self._below in self._above:
            self._above.remove(self._below)
            self._below += 1
        return 1

    def _confirm_to(self, tag: int) -> int:
        known = {other for other in self._above if other <= tag}
        self._above -= known
        confirmed = tag + 1 - self._below - len(known)
        self._below = tag + 1
        return confirmed


class RabbitReceiver:
    """A consumer that acknowledges each message."""

    def __init__(self, sock: socket.socket, queue: str = QUEUE) -> None:
        self.sock = sock
        self._queue = queue
        self._rest = b""
        self._tag = 0
        self._left_bytes = 0
        self._bursts: deque[int] = deque()
        self._fence = method(60, 10, struct.pack(">IHB", 0, 0, 0))

    def start(self) -> bytes:
        """Returns the method that starts the consumer."""
        consume = bytes(2) + short(self._queue) + short(CONSUMER.decode()) + bytes(1) + bytes(4)
        return method(60, 20, consume)

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        """Returns the bytes to send, and the numbers of received messages and handled acks.

        The bytes are acks and a fence. Acks are handled when the fence after them is answered.

        Raises:
            LoadFailed: The channel was closed.
        """
        data = self._rest + data
        acks, acked, whole = [], 0, 0
        for kind, payload, end in frames(data):
            whole = end
            if kind == HEADER:
                (self._left_bytes,) = _TAG.unpack_from(payload, 4)
            elif kind == BODY:
                self._left_bytes -= len(payload)
                if not self._left_bytes:
                    acks.append(_ACK.pack(METHOD, CHANNEL, 13, 60, 80, self._tag, 0, FRAME_END))
            elif payload.startswith(_DELIVER):
                (self._tag,) = _TAG.unpack_from(payload, len(_DELIVER))
            elif payload == _QOS_OK:
                acked += self._bursts.popleft()
            elif not payload.startswith(_CONSUME_OK):
                raise complaint(payload)
        self._rest = data[whole:]
        if acks:
            self._bursts.append(len(acks))
            acks.append(self._fence)
        return b"".join(acks), len(acks) - bool(acks), acked


class RabbitServer:
    """A RabbitMQ server with a quorum queue, which flushes before it confirms."""

    name = "rabbitmq"
    about = "quorum queue of one node, publisher confirms; one ack per message"

    def __init__(self, plugin: str = "") -> None:
        """Prepares a server with *plugin*, or without plugins if the name is empty."""
        self._plugin = plugin
        self._program, self._names = Program(), Program()
        self.address = ""
        self._environment: dict[str, str] = {}

    def version(self) -> str | None:
        """Returns the version of the RabbitMQ in /usr/lib/rabbitmq, or None."""
        found = sorted(HOME.glob("lib/rabbitmq_server-*"))
        if not (found and SERVER.exists() and shutil.which("epmd")):
            return None
        return f"RabbitMQ {found[-1].name.rpartition('-')[2]}"

    def start(self, directory: Path) -> None:
        """Starts a node on free ports, warms it up for a second, and declares the queue."""
        port, names, links = free_port(), free_port(), free_port()
        self.address = f"127.0.0.1:{port}"
        (directory / "rabbitmq.conf").write_text(
            f"listeners.tcp.local = 127.0.0.1:{port}\nlog.file.level = warning\n"
        )
        (directory / "plugins").write_text(f"[{self._plugin}].\n")
        self._environment = {
            "HOME": str(directory),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(names),
            "RABBITMQ_NODENAME": f"bench{port}@localhost",
            "RABBITMQ_DIST_PORT": str(links),
            "RABBITMQ_MNESIA_BASE": str(directory / "data"),
            "RABBITMQ_LOG_BASE": str(directory / "logs"),
            "RABBITMQ_CONFIG_FILE": str(directory / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(directory / "plugins"),
            "RABBITMQ_CONF_ENV_FILE": os.devnull,
            "RABBITMQ_PID_FILE": str(directory / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        self._names.start(["epmd", "-address", "127.0.0.1", "-port", str(names)], directory)
        self._program.start([str(SERVER)], directory, environment=self._environment)
        wait_for(self._program, self._is_up)
        sender = self.sender([bytes(256)] * 64)
        with sender.sock:
            Load(Plan(64, WARM_SECONDS), [sender]).run()
        declare(self.address)

    def _is_up(self) -> bool:
        with suppress(OSError, LoadFailed):
            declare(self.address)
            return True
        return False

    def control(self, *words: str) -> None:
        """Runs rabbitmqctl with *words*.

        Raises:
            LoadFailed: The command failed.
        """
        done = subprocess.run(
            [str(CONTROL), *words],
            env=os.environ | self._environment,
            check=False,
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise LoadFailed(f"rabbitmqctl {words[0]}: {(done.stderr or done.stdout).strip()}")

    def preload(self, count: int, pool: Sequence[bytes]) -> None:
        """Puts *count* messages."""
        put_all(self, count, pool, producers=8, inflight=256)

    def stop(self) -> None:
        """Kills the server and discards its data."""
        self._program.stop(signal.SIGKILL)
        self._names.stop()

    def cpu_s(self) -> float:
        """Returns the processor time of the server in seconds."""
        return self._program.cpu_s()

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new publisher."""
        channel = Channel(self.address)
        channel.ask(85, 10, bytes(1))  # confirm.select
        return RabbitSender(channel.sock, pool)

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Returns a new consumer."""
        del size_bytes
        channel = Channel(self.address)
        channel.ask(60, 10, struct.pack(">IHB", 0, prefetch, 0))
        return RabbitReceiver(channel.sock)
