"""Queue managers as separate processes that can be killed and restarted."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from qmgr_bench.server import free_port
from qmgr_client.aio import QueueManager, connect
from qmgr_client.credentials import Credentials

STOP_MAX_S = 20
WAIT_MS = 60_000


class Protection(NamedTuple):
    """The configuration of a daemon that requires logins, and the passwords of its users."""

    config: Path  # configuration of the daemon; only addresses with TLS are in it
    passwords: Path  # directory with the password of each user, in a file of the user's name


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
        self.tcp = f"127.0.0.1:{free_port()}"  # uses TLS if the daemon is protected
        self.protection: Protection | None = None
        self.address = f"unix:{self.data_dir / 'qmgrd.sock'}"
        self.starts = 0
        self._settings = settings or {}
        self._program = program
        self.log = directory / f"{name}.log"
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
        ]
        if self.protection is None:
            command += ["--tcp", self.tcp]
        else:
            command += ["--config", str(self.protection.config)]
        environment = {"PATH": "/usr/bin:/bin", "QMGRD_LOG__FORMAT": "json", **self._settings}
        if sources := os.environ.get("PYTHONPATH"):
            # Otherwise the daemon of another source tree might run.
            environment["PYTHONPATH"] = sources
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)
        self.starts += 1

    def connect(self, name: str, user: str = "", wait_ms: int = WAIT_MS) -> QueueManager:
        """Returns a client of the daemon, which may still be starting.

        The client logs in as *user* if the daemon is protected. Without a user, it is the owner of
        the daemon, because it uses the unix socket.
        """
        login = self.login(user)
        return connect(
            self.address,
            name=name,
            wait_ms=wait_ms,
            user=login.user,
            password_file=login.password_file,
        )

    def login(self, user: str) -> Credentials:
        """Returns the credentials of *user*, without a user if the client needs no login."""
        file = self.password_file(user)
        return Credentials(user if file else "", password_file=file)

    def password_file(self, user: str) -> str:
        """Returns the file with the password of *user*, or "" if the client needs no login."""
        if self.protection is None or not user:
            return ""
        return str(self.protection.passwords / user)

    def dialled(self, address: str) -> str:
        """Returns *address*, at which this daemon or its proxy listens, as a link dials it."""
        return address if self.protection is None else f"tls:{address}"

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
        if not self.log.exists():
            return ""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
