"""Our daemon in the benchmark, which starts, fills, measures, and stops or kills the daemon."""

import json
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qmgr_bench.load import READ_BYTES, Receiver, Sender
from qmgr_bench.qmgr import QmgrReceiver, QmgrSender, Wire, records
from qmgr_bench.server import QUEUE, Program, first_line, put_all, wait_for
from qmgr_protocol import messages as m

POLL_S = 0.001
KIB = 1024
QMGRD = (sys.executable, "-c", "from qmgrd.__main__ import main; main()")


@dataclass(frozen=True, slots=True)
class Memory:
    """The resident memory of a process, from /proc/PID/status."""

    anonymous_bytes: int  # private memory (RssAnon)
    file_bytes: int  # pages of mapped files, which the system can reclaim (RssFile)

    @classmethod
    def of(cls, text: str) -> "Memory":
        """Returns the memory from *text*, the content of /proc/PID/status."""
        lines = (line.partition(":") for line in text.splitlines())
        kib = {key: int(value.split()[0]) for key, _, value in lines if key.startswith("Rss")}
        return cls(kib["RssAnon"] * KIB, kib["RssFile"] * KIB)


class Host:
    """A daemon with its data. Invariant: its process runs from start() to stop() or kill()."""

    def __init__(
        self,
        directory: Path,
        name: str = "BENCH",
        environment: Mapping[str, str] | None = None,
        program: Sequence[str] = QMGRD,
    ) -> None:
        """Prepares the daemon *name* with its data in *directory*.

        The directory is created at the start if it is missing.

        Args:
            environment: Further environment variables, such as options of the daemon.
            program: The command of the daemon, without its options.
        """
        self._environment = environment
        self._command = program
        self.directory = directory.absolute()
        self.name = name
        self.addresses: list[str] = []
        self._program = Program(f"qmgrd {name}")

    def __enter__(self) -> "Host":
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, queue: str = "") -> float:
        """Starts the daemon. Returns the time in ms until its first answer.

        If *queue* is given, the answer is the first message of that queue.

        Raises:
            LoadFailed: The daemon ended or took too long.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        listening = self.directory / "listening.json"
        listening.unlink(missing_ok=True)
        where = ["--data-dir", str(self.directory), "--tcp", "127.0.0.1:0", "--name", self.name]
        start_s = time.monotonic()
        self._program.start([*self._command, *where], self.directory, environment=self._environment)
        wait_for(self._program, listening.exists, POLL_S)
        self.addresses = json.loads(listening.read_text())
        if queue:
            self.ask(m.Browse, queue, None, 1)
        else:
            self.ask(m.Status)
        return (time.monotonic() - start_s) * 1000

    @property
    def address(self) -> str:
        """The address of the connections to measure."""
        return self.addresses[0]

    @property
    def control(self) -> str:
        """The address of the unix socket, where no login is necessary."""
        return next(address for address in self.addresses if address.startswith("unix:"))

    def start_cold(self, queue: str) -> float:
        """Starts the daemon with none of its store in memory.

        Returns the time in ms until its first answer.
        """
        number = os.open(self._store, os.O_RDONLY)
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)
        return self.start(queue)

    def read_store(self) -> None:
        """Reads the whole store to bring as much of it as possible into memory."""
        with self._store.open("rb", buffering=0) as file:
            while file.read(READ_BYTES):
                pass

    def stop(self) -> None:
        """Stops the daemon cleanly, if it is running."""
        self._program.stop()

    def kill(self) -> None:
        """Kills the daemon, as in a crash."""
        self._program.stop(signal.SIGKILL)

    def ask(self, kind: type[Any], *fields: Any) -> Any:
        """Sends a request on a new connection and returns the value of the answer.

        Raises:
            RequestError: The request was refused.
        """
        with Wire(self.control, "bench.control") as wire:
            return wire.ask(kind, *fields)

    def depth(self, queue: str) -> int:
        """Returns the number of messages on *queue*."""
        return int(self.ask(m.QueueShow, queue)["depth"])

    def wait_for_jobs(self) -> None:
        """Waits until all removal jobs are done, so that they are not measured."""
        with Wire(self.control, "bench.control") as wire:
            while wire.ask(m.Status)["jobs"]:
                time.sleep(POLL_S)

    def cpu_s(self) -> float:
        """Returns the processor time of the daemon in seconds."""
        return self._program.cpu_s()

    def cpu_ns(self) -> int:
        """Returns the processor time of the daemon's thread, exactly if the system reports it."""
        if Path("/proc/self/schedstat").exists():
            return int(self._proc("schedstat").split()[0])
        return round(self.cpu_s() * 1e9)

    def idle_cpu_ns(self) -> int:
        """Waits until the daemon's thread is idle, and returns its processor time.

        The system does not keep the time of a running thread up to date.
        """
        while self._proc("stat").rpartition(")")[2].split()[0] == "R":
            os.sched_yield()
        return self.cpu_ns()

    def memory(self) -> Memory:
        """Returns the resident memory of the daemon."""
        return Memory.of(self._proc("status"))

    def _proc(self, name: str) -> str:
        self._program.check()
        return Path(f"/proc/{self._program.pid}/{name}").read_text()

    @property
    def _store(self) -> Path:
        return self.directory / "store" / "data.mdb"

    def data_bytes(self) -> int:
        """Returns the size of the store on disk."""
        return self._store.stat().st_blocks * 512


class QmgrServer:
    """Our daemon in the rows with peers."""

    name = "qmgrd"
    about = "one LMDB transaction, flushed, before any reply"

    def __init__(self, *, coalesce: bool = True) -> None:
        self._coalesce = coalesce
        self._host = Host(Path())

    def version(self) -> str | None:
        """Returns the version of the daemon."""
        return first_line(*QMGRD, "--version")

    def start(self, directory: Path) -> None:
        """Starts a daemon and creates the queue."""
        self._host = Host(directory)
        self._host.start()
        self._host.ask(m.QueueCreate, QUEUE)

    def preload(self, count: int, pool: Sequence[bytes]) -> None:
        """Puts *count* messages."""
        put_all(self, count, pool, producers=1, inflight=2_048)

    def stop(self) -> None:
        """Stops the daemon."""
        self._host.stop()

    def cpu_s(self) -> float:
        """Returns the processor time of the daemon in seconds."""
        return self._host.cpu_s()

    def sender(self, pool: Sequence[bytes]) -> Sender:
        """Returns a new producer."""
        wire = Wire(self._host.address, "bench.producer")
        return QmgrSender(wire, QUEUE, records(pool), coalesce=self._coalesce)

    def receiver(self, prefetch: int, size_bytes: int) -> Receiver:
        """Returns a new consumer."""
        del size_bytes
        return QmgrReceiver(Wire(self._host.address, "bench.consumer"), QUEUE, prefetch)
