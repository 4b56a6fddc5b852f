"""Runs the program tests.process.group_app as a separate process.

A test can kill the process with -9 at any item.
"""

import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from qmgr_client.credentials import PASSWORD_FILE, USER, Credentials
from tests.process.load import OWNER

REPO = Path(__file__).parent.parent.parent
COMMAND = (sys.executable, "-m", "tests.process.group_app")


class Application:
    """A program that works with the daemon at an address. :meth:`ask` starts it if necessary.

    Invariant: ``at`` is the highest number that the program has reported since :meth:`begin`,
    across all restarts.
    """

    def __init__(
        self, address: str, command: Sequence[str] = COMMAND, login: Credentials = OWNER
    ) -> None:
        self.at = 0
        self.kills = 0
        self._command = (*command, address)
        self._environment = dict(os.environ)
        if login.user:
            self._environment |= {USER: login.user, PASSWORD_FILE: login.password_file}
        self._process: asyncio.subprocess.Process | None = None

    def begin(self) -> None:
        """Resets the reported number before the next group."""
        self.at = 0

    async def start(self) -> None:
        """Starts the program if it is not running, and waits until it is connected."""
        if self._process is None:
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdin=pipe, stdout=pipe, cwd=REPO, env=self._environment
            )
            if await self._next() is None:
                raise RuntimeError(
                    f"the application ended before it was connected: {self._command}"
                )

    async def ask(self, told: dict[str, Any], killed_at: int = 0) -> dict[str, Any] | None:
        """Sends an order; returns the result, or None if the program was killed first.

        Args:
            killed_at: The item at which the program is killed; 0 = no kill.
        """
        await self.start()
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        result, is_killed = None, False
        while (line := await self._next()) is not None:
            if "at" not in line:
                result = line
                if not is_killed:
                    return result
            elif line["at"] == killed_at and not is_killed:
                self._process.kill()
                self.kills, is_killed = self.kills + 1, True
        code = await self._process.wait()
        self._process = None
        if not is_killed:
            raise RuntimeError(f"the application ended unexpectedly, with {code}: {told}")
        return result  # The program may have reported the result before the kill.

    async def close(self) -> None:
        """Ends the program, and waits for its exit."""
        if self._process is not None:
            self._process.kill()
            await self._process.wait()
            self._process = None

    async def _next(self) -> dict[str, Any] | None:
        assert self._process is not None
        assert self._process.stdout is not None
        line = await self._process.stdout.readline()
        if not line.endswith(b"\n"):
            return None
        said: dict[str, Any] = json.loads(line)
        self.at = max(self.at, said.get("at", 0))
        return said
