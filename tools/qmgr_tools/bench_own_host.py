"""A daemon of the benchmark's own rows: filled, measured, stopped or killed, and started again.

All that the rows need of the load engine comes in here.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qmgr_protocol import messages as m
from qmgr_tools.bench_load import Load, LoadFailed, Outcome, Plan, Receiver, Sender
from qmgr_tools.bench_qmgr import QmgrReceiver, QmgrSender, Wire, bodies, records

__all__ = [
    "Host", "Load", "LoadFailed", "Memory", "Outcome", "Plan", "Pulse", "QmgrReceiver",
    "QmgrSender", "Receiver", "Sender", "Wire", "bodies", "fill", "get", "put", "records",
]  # fmt: skip

SIZE_BYTES = 256
INFLIGHT = PREFETCH = 256  # those of W1b and W3
FILL_INFLIGHT = 4_096  # what a daemon grants at most
FILL_SLICE = 100_000  # messages between two words about how far it is
FOREVER_S = float("inf")
START_MAX_S, STOP_MAX_S, POLL_S = 60.0, 60.0, 0.001
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
KIB = 1024
_QMGRD = (sys.executable, "-c", "from qmgrd.main import main; main()")


@dataclass(frozen=True, slots=True)
class Memory:
    """What of a process lies in memory, as /proc/PID/status has it."""

    anonymous_bytes: int  # RssAnon: its own
    file_bytes: int  # RssFile: pages of mapped files, which the system takes back as it needs

    @classmethod
    def of(cls, text: str) -> "Memory":
        """Return what *text*, that of /proc/PID/status, says."""
        lines = (line.partition(":") for line in text.splitlines())
        kib = {key: int(value.split()[0]) for key, _, value in lines if key.startswith("Rss")}
        return cls(kib["RssAnon"] * KIB, kib["RssFile"] * KIB)


class Host:
    """A daemon with its data. Invariant: between start and stop or kill its process runs."""

    def __init__(self, directory: Path, name: str = "BENCH") -> None:
        """Have one named *name* in *directory*, which is made if need be."""
        self.directory = directory.absolute()
        self.name = name
        self.address = ""
        self.directory.mkdir(parents=True, exist_ok=True)
        self._process: subprocess.Popen[bytes] | None = None

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
        """Start it; return the ms until it answered: with the first message of *queue*, if given.

        Raises:
            LoadFailed: it ended, or took too long.
        """
        listening = self.directory / "listening.json"
        listening.unlink(missing_ok=True)
        where = ["--data-dir", str(self.directory), "--tcp", "127.0.0.1:0", "--name", self.name]
        start_s = time.monotonic()
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen([*_QMGRD, *where], stdout=log, stderr=log)
        while not listening.exists():
            if self._process.poll() is not None:
                raise LoadFailed(f"{self.name} ended, see {self.directory}/log")
            if time.monotonic() > start_s + START_MAX_S:
                raise LoadFailed(f"{self.name} was not up after {START_MAX_S:.0f} s")
            time.sleep(POLL_S)
        self.address = json.loads(listening.read_text())[0]
        if queue:
            self.ask(m.Browse, queue, None, 1)
        else:
            self.ask(m.Status)
        return (time.monotonic() - start_s) * 1000

    def stop(self) -> None:
        """Stop it in good order; nothing happens to one that does not run."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def forget_pages(self) -> None:
        """Have the system read the store from the disk at the next start. It is to be stopped."""
        number = os.open(self.directory / "store" / "data.mdb", os.O_RDONLY)
        try:
            os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(number)

    def ask(self, kind: type[Any], *fields: Any) -> Any:
        """Send a request over a connection of its own and return the value of its answer.

        Raises:
            RequestError: it was refused.
        """
        with Wire(self.address, "bench.control") as wire:
            return wire.ask(kind, *fields)

    def depth(self, queue: str) -> int:
        """Return how many messages are on *queue*."""
        return int(self.ask(m.QueueShow, queue)["depth"])

    def cpu_s(self) -> float:
        """Return the processor time that it has used."""
        user, system = self._proc("stat").rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / TICKS_PER_S

    def cpu_ns(self) -> int:
        """Return the processor time of its one thread, exact where the system says that."""
        if Path("/proc/self/schedstat").exists():
            return int(self._proc("schedstat").split()[0])
        return round(self.cpu_s() * 1e9)

    def memory(self) -> Memory:
        """Return what of it lies in memory now."""
        return Memory.of(self._proc("status"))

    def _proc(self, name: str) -> str:
        assert self._process is not None
        with suppress(FileNotFoundError):
            return Path(f"/proc/{self._process.pid}/{name}").read_text()
        raise LoadFailed(f"{self.name} ended, see {self.directory}/log")

    def data_bytes(self) -> int:
        """Return what its store takes on the disk."""
        return (self.directory / "store" / "data.mdb").stat().st_blocks * 512


@dataclass(frozen=True, slots=True)
class Pulse:
    """What one measurement of puts or gets found."""

    messages: int
    messages_per_second: float
    p50_ms: float
    p99_ms: float
    p999_ms: float
    cpu_us: float  # of the daemon, a message
    generator_cpu_us: float
    generator_share: float  # of one core: near 1 it is the generator that was measured

    @classmethod
    def of(cls, outcome: Outcome, cpu_s: float) -> "Pulse":
        """Return the figures of *outcome*, for which the daemon needed *cpu_s*.

        Raises:
            LoadFailed: nothing was done.
        """
        messages = outcome.messages
        if not messages:
            raise LoadFailed("no message was answered in the time there was: give more SECONDS")
        latency = outcome.put if outcome.put.samples else outcome.ack
        p50_ms, p99_ms, p999_ms = (latency.percentile_ms(x) or 0.0 for x in (50, 99, 99.9))
        return cls(
            messages, round(messages / outcome.seconds), p50_ms, p99_ms, p999_ms,
            round(cpu_s * 1e6 / messages, 2), round(outcome.generator_cpu_s * 1e6 / messages, 2),
            round(outcome.generator_cpu_s / outcome.seconds, 2),
        )  # fmt: skip


def fill(host: Host, queue: str, messages: int, say: Callable[[str], None]) -> float:
    """Put so many *messages* on *queue*, as fast as it goes; return how many went a second."""
    with Wire(host.address, "bench.fill") as wire:
        sender = QmgrSender(wire, queue, records(bodies(SIZE_BYTES, vary=True)), coalesce=True)
        return pour(sender, messages, f"{host.name}: filling {queue}", say)


def pour(sender: Sender, messages: int, words: str, say: Callable[[str], None]) -> float:
    """Have *sender* put so many *messages*, say how far it is; return how many went a second."""
    start_s, done, rate = time.monotonic(), 0, 0.0
    while done < messages:
        slice_messages = min(FILL_SLICE, messages - done)
        Load(Plan(FILL_INFLIGHT, FOREVER_S, slice_messages), [sender], None).run()
        done += slice_messages
        rate = done / (time.monotonic() - start_s)
        say(f"{words}: {done:,} of {messages:,}, {rate:,.0f} a second")
    return round(rate)


def put(host: Host, queue: str, seconds: float) -> Pulse:
    """Do W1b on *queue*: one producer, 256 in flight, for so many *seconds*."""
    with Wire(host.address, "bench.producer") as wire:
        sender = QmgrSender(wire, queue, records(bodies(SIZE_BYTES, vary=True)), coalesce=True)
        before_s = host.cpu_s()
        outcome = Load(Plan(INFLIGHT, seconds), [sender], None).run()
        return Pulse.of(outcome, host.cpu_s() - before_s)


def get(host: Host, queue: str, count: int) -> Pulse:
    """Do W3 on *queue*: *count* messages or a few more, 256 ahead, each acknowledged."""
    with Wire(host.address, "bench.consumer") as wire:
        receiver = QmgrReceiver(wire, queue, PREFETCH)
        before_s = host.cpu_s()
        outcome = Load(Plan(0, FOREVER_S, count), [], receiver).run()
        return Pulse.of(outcome, host.cpu_s() - before_s)
