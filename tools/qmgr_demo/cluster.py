"""Queue managers as separate processes that can be killed and restarted."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from qmgr_bench.server import free_port

STOP_MAX_S = 20


class Node:
    """One daemon. Invariant: ``process`` is the most recently started process."""

    def __init__(
        self,
        name: str,
        directory: Path,
        settings: dict[str, str] | None = None,
        program: Sequence[str] = ("-m", "qmgrd"),
    ) -> None:
        """Prepares a daemon with its data and log in *directory*.

        Args:
            settings: The environment variables that configure the daemon.
            program: The arguments that make Python run the daemon.
        """
        self.name = name
        self.data_dir = directory / name
        self.tcp = f"127.0.0.1:{free_port()}"
        self.address = f"unix:{self.data_dir / 'qmgrd.sock'}"
        self.starts = 0
        self._settings = settings or {}
        self._program = program
        self._log = directory / f"{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the daemon, which accepts clients a moment later."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        command = [
            sys.executable,
            *self._program,
            "--name",
            self.name,
            "--data-dir",
            str(self.data_dir),
            "--tcp",
            self.tcp,
        ]
        environment = {"PATH": "/usr/bin:/bin", "QMGRD_LOG__FORMAT": "json", **self._settings}
        if sources := os.environ.get("PYTHONPATH"):
            # Otherwise the daemon of another source tree might run.
            environment["PYTHONPATH"] = sources
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self.starts += 1

    def kill(self) -> None:
        """Kills the daemon with SIGKILL, and waits until the process has ended."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_MAX_S)

    def stop(self) -> int:
        """Asks the daemon to stop, and returns its exit code."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(STOP_MAX_S)
        except subprocess.TimeoutExpired:
            self.kill()
            return -9

    def is_running(self) -> bool:
        """Returns whether the daemon is running."""
        return self.process is not None and self.process.poll() is None

    def log_tail(self, lines: int = 20) -> str:
        """Returns the last *lines* lines of the daemon's log."""
        if not self._log.exists():
            return ""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
