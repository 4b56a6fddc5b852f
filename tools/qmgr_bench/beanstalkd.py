"""The driver for beanstalkd, which flushes its log before each answer (-f0)."""

import shutil
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from qmgr_bench.load import READ_BYTES, LoadFailed, Receiver, Sender, dial
from qmgr_bench.server import QUEUE, Program, Turns, first_line, free_port, put_all, wait_for

LEASE_S = 3_600
RESERVE_NOW = b"reserve-with-timeout 0\r\n"
RESERVE_WAIT = b"reserve-with-timeout 1\r\n"


class BeanstalkdSender:
    """A connection that puts messages."""

    def __init__(self, sock: socket.socket, pool: Sequence[bytes]) -> None:
        self.sock = sock
        self._puts = Turns([b"put 0 0 %d %d\r\n%s\r\n" % (LEASE_S, len(b), b) for b in pool])
        self._rest = b""

    def put(self, count: int) -> bytes:
        """Returns the bytes of the next *count* puts."""
        return self._puts.next(count)

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* acknowledges, one per line.

        Raises:
            LoadFailed: A put was refused.
        """
        lines = (self._rest + data).split(b"\r\n")
        self._rest = lines.pop()
        for line in lines:
            if not line.startswith(b"INSERTED "):
                raise LoadFailed(f"beanstalkd: {line.decode(errors='replace')}")
        return len(lines)


class BeanstalkdReceiver:
    """A consumer that deletes each message that it reserves.

    Each message needs a request. The receiver starts with one request that waits for a message. The
    number of requests in flight doubles with each received message. When a request finds no
    message, the receiver returns to one waiting request.
    """

    def __init__(self, sock: socket.socket, prefetch: int) -> None:
        self.sock = sock
        self._prefetch = prefetch
        self._asked = self._window = 0
        self._rest = b""

    def start(self) -> bytes:
        """Returns the first request, which waits for a message."""
        self._asked = self._window = 1
        return RESERVE_WAIT

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        """Returns the bytes to send, and the numbers of received messages and answered deletes.

        Raises:
            LoadFailed: The server reported an error.
        """
        data = self._rest + data
        send, got, acked, at = [], 0, 0, 0
        while (end := data.find(b"\r\n", at)) >= 0:
            if data.startswith(b"DELETED", at):
                acked += 1
            elif data.startswith(b"RESERVED ", at):
                _, number, size = data[at:end].split()
                if len(data) < end + int(size) + 4:
                    break
                end += int(size) + 2
                got += 1
                send.append(b"delete %s\r\n" % number)
                self._asked -= 1
                self._window = min(self._window * 2, self._prefetch)
            elif data.startswith(b"TIMED_OUT", at):
                self._asked -= 1
                self._window = 1
            else:
                raise LoadFailed(f"beanstalkd: {data[at:end].decode(errors='replace')}")
            at = end + 2
        self._rest = data[at:]
        send.append(self._ask())
        return b"".join(send), got, acked

    def _ask(self) -> bytes:
        if self._window == 1:
            missing = int(not self._asked)
            self._asked += missing
            return RESERVE_WAIT * missing
        missing = max(self._window - self._asked, 0)
        self._asked += missing
        return RESERVE_NOW * missing


class BeanstalkdServer:
    """A beanstalkd that flushes its log at each change."""

    name = "beanstalkd"
    about = "-f0: one flush per change; one delete per message"

    def __init__(self) -> None:
        self._program = Program()
        self._address = ""
        self._directory = Path()

    def version(self) -> str | None:
        """Returns the version of the beanstalkd on PATH, or None."""
        path = shutil.which("beanstalkd")
        return path and first_line(path, "-v")

    def start(self, directory: Path) -> None:
        """Starts beanstalkd on a free port. Tubes need not be created."""
        self._directory = directory
        self._run("-f0")

    def _run(self, flush: str) -> None:
        port = free_port()
        self._address = f"127.0.0.1:{port}"
        words = ["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", str(self._directory)]
        self._program.start([*words, flush], self._directory)
        wait_for(self._program, self._is_up)

    def _is_up(self) -> bool:
        with suppress(OSError), dial(self._address):
            return True
        return False

    def preload(self, count: int, pool: Sequence[bytes]) -> None:
        """Puts *count* messages without flushes, then restarts the server with flushes."""
        self._program.stop()
        self._run("-F")
        put_all(self, count, pool, producers=4, inflight=256)
        self._program.stop()
        self._run("-f0")

    def stop(self) -> None:
        """Stops beanstalkd."""
        self._program.stop()

    def cpu_s(self) -> float:
        """Returns the processor time of beanstalkd in seconds."""
        return self._program.cpu_s()

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new connection that puts messages."""
        return BeanstalkdSender(self._dial(f"use {QUEUE}"), pool)

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Returns a new connection that reserves messages."""
        del size_bytes
        return BeanstalkdReceiver(self._dial(f"watch {QUEUE}"), prefetch)

    def _dial(self, command: str) -> socket.socket:
        sock = dial(self._address)
        sock.sendall(command.encode() + b"\r\n")
        sock.recv(READ_BYTES)
        return sock
