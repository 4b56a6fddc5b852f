"""The servers of the benchmark: each started fresh, with its data below a directory of its own.

What is compared acknowledges from disk only: qmgrd knows nothing else, Redis is told to.
"""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from qmgr_tools.bench.load import LoadFailed, Receiver, Sender

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
