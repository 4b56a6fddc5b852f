"""Processes of qmctl and qmgrd that start in milliseconds.

A server of the standard library's ``multiprocessing`` imports both programs once. Each process is
a fork of the server. Tests of the start itself, of standard streams and of signals at the start
begin with a new interpreter instead.
"""

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from multiprocessing import reduction
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, cast

from qmgr_bench.server import Program

MAINS = {"qmctl": "qmgr_tools.main", "qmgrd": "qmgrd.main"}
OUTPUT_MAX = 1 << 20  # maximum bytes of each output of run()

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([__name__, "tests.forked_server"])


class Forked:
    """A process of a program. It has those methods of ``subprocess.Popen`` that tests need."""

    def __init__(
        self,
        words: Sequence[str],
        environment: Mapping[str, str],
        directory: Path,
        streams: tuple[int, int, int],
    ) -> None:
        """Starts the program *words[0]*.

        Args:
            directory: The working directory.
            streams: The file descriptors of standard input, output and error.
        """
        self.returncode: int | None = None
        arguments = [*words], {**environment}, str(directory), [*map(_Stream, streams)]
        self._process: BaseProcess = _context.Process(target=_run, args=arguments)
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """Returns the exit code, or None while the process runs."""
        self.returncode = self._process.exitcode
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end of the process, and returns its exit code."""
        self._process.join(timeout)
        if self.poll() is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Sends a signal to the process if it still runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kills the process."""
        self.send_signal(signal.SIGKILL)


class ForkedProgram(Program):
    """A ``Program`` that is a fork of the server."""

    def start(
        self,
        words: Sequence[str],
        directory: Path,
        *,
        user: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Starts the program *words[0]* of MAINS."""
        assert user is None
        self._name = self._name or words[0]
        self._log = directory / "log"
        known = os.environ | (environment or {})
        with self._log.open("ab") as log, open(os.devnull, "rb") as nothing:
            streams = nothing.fileno(), log.fileno(), log.fileno()
            forked = Forked(words, known, directory, streams)
        self._process = cast("subprocess.Popen[bytes]", forked)


def run(words: Sequence[str], environment: Mapping[str, str]) -> "subprocess.CompletedProcess[str]":
    """Runs a program to its end, with empty input."""
    with TemporaryFile() as out, TemporaryFile() as err, open(os.devnull, "rb") as nothing:
        streams = nothing.fileno(), out.fileno(), err.fileno()
        code = Forked(words, environment, Path.cwd(), streams).wait()
        shown = (os.pread(file.fileno(), OUTPUT_MAX, 0).decode() for file in (out, err))
        return subprocess.CompletedProcess(words, code, *shown)


class _Stream:
    """A file descriptor that arrives in the other process as a copy with its own number."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (reduction.DupFd(self.number),)


def _received(copy: Any) -> _Stream:
    return _Stream(copy.detach())


def _run(
    words: list[str], environment: dict[str, str], directory: str, streams: list[_Stream]
) -> None:
    """Becomes the program *words[0]*: all that a new process has is set, then its main() runs."""
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(directory)
    for number, stream in enumerate(streams):
        os.dup2(stream.number, number)
        os.close(stream.number)
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    sys.argv = words
    import_module(MAINS[words[0]]).main()
