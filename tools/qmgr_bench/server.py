"""The servers of the benchmark. Each start uses an empty directory for the data.

All compared servers acknowledge a message only after it is on disk. qmgrd always does so, and the
other servers are configured to do so.
"""

import os
import pwd
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Protocol

from qmgr_bench.load import Load, LoadFailed, Plan, Receiver, Sender

START_MAX_S = 60.0
STOP_MAX_S = 60.0
POLL_S = 0.02
QUEUE = "q"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
FOREVER_S = float("inf")
PORTS = range(20_000, 30_000)  # range of the ports to choose from


class Server(Protocol):
    """A message server that the benchmark starts and stops."""

    name: str
    about: str

    def version(self) -> str | None:
        """Returns the installed version, or None."""

    def start(self, directory: Path) -> None:
        """Starts the server with its data in the empty *directory*, and creates an empty queue."""

    def preload(self, count: int, pool: Sequence[bytes]) -> None:
        """Puts *count* messages as fast as possible.

        Afterwards, the server runs with the configuration to measure.
        """

    def stop(self) -> None:
        """Stops the server."""

    def cpu_s(self) -> float:
        """Returns the processor time of the server in seconds."""

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new connection that puts the bodies of *pool* in turn."""

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Returns a new connection that gets messages of *size_bytes* each."""


class Turns:
    """The bytes of puts, made beforehand and sent in turn.

    The size of the pool limits the number of puts in one call.
    """

    __slots__ = ("_at", "_puts", "_size")

    def __init__(self, puts: Sequence[bytes]) -> None:
        self._puts = [*puts, *puts]
        self._size = len(puts)
        self._at = 0

    def next(self, count: int) -> bytes:
        """Returns the bytes of the next *count* puts."""
        at = self._at
        self._at = (at + count) % self._size
        return b"".join(self._puts[at : at + count])


def put_all(
    server: Server, count: int, pool: Sequence[bytes], *, producers: int, inflight: int
) -> None:
    """Puts *count* messages through *server*'s normal interface."""
    with ExitStack() as sockets:
        senders = [server.sender(pool) for _ in range(producers)]
        for sender in senders:
            sockets.enter_context(sender.sock)
        Load(Plan(inflight, FOREVER_S, count), senders).run()


def free_port() -> int:
    """Returns a free TCP port.

    The port is outside the range that the system assigns to connections. A connection could
    otherwise take the port first.
    """
    for port in random.sample(PORTS, len(PORTS)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise OSError(f"no port of {PORTS.start} to {PORTS.stop - 1} is free")


def first_line(*words: str) -> str:
    """Returns the first line of a program's output."""
    ended = subprocess.run(words, capture_output=True, text=True, check=True)
    return (ended.stdout or ended.stderr).strip().partition("\n")[0]


class Program:
    """The processes of a server. Invariant: the processes run from start() to stop()."""

    def __init__(self, name: str = "") -> None:
        """Prepares a program that is reported as *name*. Default: the file name of the program."""
        self._name = name
        self._log = Path()
        self._process: subprocess.Popen[bytes] | None = None

    def start(
        self,
        words: Sequence[str],
        directory: Path,
        *,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the program. The output is written to a file in *directory*.

        Args:
            user: The user of the process, with only that user's main group. None: the current user.
            environment: Further environment variables.
        """
        self._name = self._name or words[0].rpartition("/")[2]
        self._log = directory / "log"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=directory,
                user=user,
                group=None if user is None else pwd.getpwnam(user).pw_gid,
                extra_groups=None if user is None else [],
                env=os.environ | (environment or {}),
            )

    @property
    def pid(self) -> int:
        """Returns the id of the process."""
        assert self._process is not None
        return self._process.pid

    def check(self) -> None:
        """Raises LoadFailed if the program has ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            last = self._log.read_text(errors="replace").strip().rpartition("\n")[2]
            raise LoadFailed(f"{self._name} ended with code {self._process.returncode}: {last}")

    def end(self) -> None:
        """Waits until the program has ended. Raises LoadFailed if it failed."""
        assert self._process is not None
        if self._process.wait(START_MAX_S):
            self.check()

    def cpu_s(self) -> float:
        """Returns the processor time in seconds of the program and its descendants."""
        return sum(used_s(self.pid).values())

    def stop(self, by: signal.Signals = signal.SIGTERM) -> None:
        """Stops the program and its descendants, by force after STOP_MAX_S."""
        if self._process is None:
            return
        known = [*process_tree(self.pid)]
        self._process.send_signal(by)
        try:
            self._process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for pid in known[1:]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process = None


def process_tree(pid: int) -> Iterator[int]:
    """Yields *pid* and the ids of its descendants."""
    yield pid
    with suppress(OSError):  # An ended process has no children.
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from process_tree(int(child))


def used_s(pid: int) -> dict[str, float]:
    """Returns the processor time in seconds of *pid* and its descendants, by program name.

    A parent's time includes the time of its ended children.
    """
    found: dict[str, float] = {}
    for one in process_tree(pid):
        with suppress(OSError):
            head, _, rest = Path(f"/proc/{one}/stat").read_text().rpartition(")")
            name = head.partition("(")[2]
            found[name] = found.get(name, 0.0) + sum(map(int, rest.split()[11:15])) / TICKS_PER_S
    return found


def wait_for(program: Program, is_up: Callable[[], bool], poll_s: float = POLL_S) -> None:
    """Calls *is_up* every *poll_s* seconds until it returns a true value.

    Raises:
        LoadFailed: The program ended or took too long.
    """
    deadline_s = time.monotonic() + START_MAX_S
    while not is_up():
        program.check()
        if time.monotonic() > deadline_s:
            raise LoadFailed(f"the server did not start within {START_MAX_S:.0f} s")
        time.sleep(poll_s)
