"""What the service manager is told: that the daemon serves, lives, stops. See sd_notify(3).

Without NOTIFY_SOCKET nothing is told, and nothing that goes wrong here fails the daemon. The socket
is opened once: who runs out of file descriptors is alive, and must be able to say so.
"""

import asyncio
import os
import socket
from collections.abc import Mapping
from contextlib import suppress

STATE_WAIT_S = 1.0  # for room in the service manager's queue; a sign of life waits for nothing


class Notifier:
    """The way to the service manager that *environ* names. ``watchdog_ms`` is 0 without one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        path = environ.get("NOTIFY_SOCKET", "")
        self._address = "\0" + path[1:] if path.startswith("@") else path
        self._socket: socket.socket | None = None
        if path:
            with suppress(OSError):
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        mine = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environ.get("WATCHDOG_USEC", "")
        self.watchdog_ms = int(usec) // 1000 if mine and path and usec.isdecimal() else 0

    def tell(self, *states: str, status: str = "", wait_s: float = STATE_WAIT_S) -> None:
        """Sends *states*, as in "READY=1", and what people read in `systemctl status`."""
        lines = [*states, f"STATUS={' '.join(status.split())}"] if status else states
        if self._socket is None:
            return
        self._socket.settimeout(wait_s)
        with suppress(OSError):  # It is gone or has no room: the daemon's work goes on.
            self._socket.sendto("\n".join(lines).encode(errors="replace"), self._address)

    def ready(self, status: str, stall_max_ms: int) -> None:
        """Says that the daemon serves. It may stand still for *stall_max_ms* and is not stuck.

        A sign of life comes at half of the watchdog's time: the time is made three times the stall
        where it is shorter.
        """
        states = ["READY=1"]
        if 0 < self.watchdog_ms < 3 * stall_max_ms:
            self.watchdog_ms = 3 * stall_max_ms
            states.append(f"WATCHDOG_USEC={self.watchdog_ms * 1000}")
        self.tell(*states, status=status)

    def live(self, loop: asyncio.AbstractEventLoop) -> None:
        """Gives signs of life for as long as *loop* comes round."""
        if self.watchdog_ms:
            self.tell("WATCHDOG=1", wait_s=0)
            loop.call_later(self.watchdog_ms / 2000, self.live, loop)

    def close(self) -> None:
        """Tells nothing any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
