"""Notifies the service manager that the daemon is ready, alive or stopping. See sd_notify(3).

Without NOTIFY_SOCKET, no notification is sent. Errors here do not affect the daemon. The socket is
opened once, because a daemon that runs out of file descriptors is alive and must be able to report
that.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress

# The time that :meth:`send` waits for room in the service manager's queue. The watchdog signal does
# not wait.
STATE_WAIT_S = 1.0


class Notifier:
    """The connection to the service manager in *environ*.

    ``watchdog_ms`` is 0 if the service manager has no watchdog.
    """

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._socket: socket.socket | None = None
        self._alive: asyncio.TimerHandle | None = None
        if path:
            with suppress(OSError):
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environ.get("WATCHDOG_USEC", "")
        self.watchdog_ms = int(usec) // 1000 if mine and path and usec.isdecimal() else 0

    def send(self, *states: str, status: str = "", wait_s: float = STATE_WAIT_S) -> None:
        """Sends *states*, such as "READY=1", and the status line for `systemctl status`."""
        lines = [*states, f"STATUS={' '.join(status.split())}"] if status else states
        if self._socket is None:
            return
        self._socket.settimeout(wait_s)
        with suppress(OSError):
            # The service manager is unavailable. The daemon continues without it.
            self._socket.sendto("\n".join(lines).encode(errors="replace"), self._address)

    def ready(self, status: str, stall_max_ms: int) -> None:
        """Reports that the daemon is ready, and extends the watchdog's time if necessary.

        The daemon may pause for *stall_max_ms* without being stuck. It signals the watchdog after
        half of the watchdog's time. Therefore that time is raised to at least three times the
        pause.
        """
        states = ["READY=1"]
        if 0 < self.watchdog_ms < 3 * stall_max_ms:
            self.watchdog_ms = 3 * stall_max_ms
            states.append(f"WATCHDOG_USEC={self.watchdog_ms * 1000}")
        self.send(*states, status=status)

    def signal_alive(self, loop: asyncio.AbstractEventLoop) -> None:
        """Signals the watchdog as long as *loop* runs. Calling this again has no further effect."""
        if self.watchdog_ms:
            if self._alive is not None:
                self._alive.cancel()
            self.send("WATCHDOG=1", wait_s=0)
            self._alive = loop.call_later(self.watchdog_ms / 2000, self.signal_alive, loop)

    def close(self) -> None:
        """Stops sending notifications."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
