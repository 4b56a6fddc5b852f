"""The servers of the benchmark: each started fresh, with its data below a directory of its own.

What is compared acknowledges from disk only: qmgrd knows nothing else, Redis is told to.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from qmgr_protocol import messages as m
from qmgr_tools import bench_redis
from qmgr_tools.bench_load import LoadFailed, Receiver, Sender, dial
from qmgr_tools.bench_qmgr import QmgrReceiver, QmgrSender, Wire, records

START_MAX_S = 20.0
STOP_MAX_S = 20.0
POLL_S = 0.02
QUEUE = "q"
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Server(Protocol):
    """A message server that the benchmark starts and stops."""

    name: str
    about: str

    def version(self) -> str | None:
        """Return the version that is installed, or None where none is."""

    def start(self, directory: Path) -> None:
        """Start it with its data in *directory*, which is empty, and an empty queue."""

    def stop(self) -> None:
        """Stop it."""

    def cpu_s(self) -> float:
        """Return the processor time that it has used."""

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Return a new connection that puts the bodies of *pool* in turn."""

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Return a new connection that gets messages of *size_bytes* each."""


class Program:
    """A server's process. Invariant: between start and stop it runs."""

    def __init__(self) -> None:
        self._name = ""
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, words: Sequence[str], directory: Path) -> None:
        """Start the program; what it says goes to a file in *directory*."""
        self._name = words[0]
        with (directory / "log").open("wb") as log:
            self._process = subprocess.Popen(words, stdout=log, stderr=log, cwd=directory)

    def check(self) -> None:
        """Raise LoadFailed where the program has ended."""
        assert self._process is not None
        if self._process.poll() is not None:
            raise LoadFailed(f"{self._name} ended with code {self._process.returncode}")

    def cpu_s(self) -> float:
        """Return the processor time that the program has used."""
        assert self._process is not None
        stat = Path(f"/proc/{self._process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / TICKS_PER_S

    def stop(self) -> None:
        """Stop the program, by force if it takes too long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None


def wait_for(program: Program, is_up: Callable[[], bool]) -> None:
    """Return once *is_up*, a call, returns something true.

    Raises:
        LoadFailed: the program ended, or took too long.
    """
    deadline_s = time.monotonic() + START_MAX_S
    while not is_up():
        program.check()
        if time.monotonic() > deadline_s:
            raise LoadFailed(f"not up after {START_MAX_S:.0f} s")
        time.sleep(POLL_S)


class QmgrServer:
    """This daemon."""

    name = "qmgrd"
    about = "one LMDB transaction, flushed, before any reply"

    def __init__(self) -> None:
        self._program = Program()
        self._address = ""

    def version(self) -> str | None:
        """Return the daemon's version."""
        words = [*_QMGRD, "--version"]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def start(self, directory: Path) -> None:
        """Start a daemon and create the queue."""
        words = [*_QMGRD, "--data-dir", str(directory), "--tcp", "127.0.0.1:0", "--name", "BENCH"]
        self._program.start(words, directory)
        listening = directory / "listening.json"
        wait_for(self._program, listening.exists)
        self._address = json.loads(listening.read_text())[0]
        with Wire(self._address, "bench") as wire:
            wire.ask(m.QueueCreate, QUEUE)

    def stop(self) -> None:
        """Stop the daemon."""
        self._program.stop()

    def cpu_s(self) -> float:
        """Return the processor time that it has used."""
        return self._program.cpu_s()

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Return a new producer."""
        wire = Wire(self._address, "bench.producer")
        return QmgrSender(wire, QUEUE, records(pool), coalesce=True)

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Return a new consumer."""
        del size_bytes
        return QmgrReceiver(Wire(self._address, "bench.consumer"), QUEUE, prefetch)


_QMGRD = (sys.executable, "-c", "from qmgrd.main import main; main()")


class RedisServer:
    """Redis Streams with a consumer group, appendfsync always."""

    def __init__(self, name: str, *, batch: bool) -> None:
        self.name = name
        acks = "one XACK and one XDEL a read" if batch else "an XACK and an XDEL a message"
        self.about = f"Streams, appendfsync always; {acks}"
        self._batch = batch
        self._program = Program()
        self._address = ""

    def version(self) -> str | None:
        """Return the version of the redis-server on PATH, or None."""
        path = shutil.which("redis-server")
        if path is None:
            return None
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
        return " ".join(said.stdout.split()[:3])

    def start(self, directory: Path) -> None:
        """Start a Redis on a free port and create the stream."""
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self._address = f"127.0.0.1:{port}"
        self._program.start(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(directory),
             "--save", "", "--appendonly", "yes", "--appendfsync", "always"],
            directory,
        )  # fmt: skip
        wait_for(self._program, self._is_up)

    def _is_up(self) -> bool:
        with suppress(OSError, LoadFailed):
            bench_redis.create(self._address, QUEUE.encode())
            return True
        return False

    def stop(self) -> None:
        """Stop it."""
        self._program.stop()

    def cpu_s(self) -> float:
        """Return the processor time that it has used."""
        return self._program.cpu_s()

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Return a new connection that adds."""
        return bench_redis.RedisSender(dial(self._address), QUEUE.encode(), pool)

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Return a new consumer of the group."""
        return bench_redis.RedisReceiver(
            dial(self._address), QUEUE.encode(), prefetch, size_bytes, batch=self._batch
        )
