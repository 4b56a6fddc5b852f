"""Four consumers share the aircraft of a day, while one of the consumers is killed.

LEGS, a group per aircraft ──pinned──▶ A B C D ──unit of work──▶ LEGS.FLOWN ──▶ the audit
                                            ▲
                                          kill -9, restarted
"""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path

from qmgr_client.aio import QueueManager
from qmgr_client.credentials import PASSWORD_FILE, USER
from qmgr_client.message import Outgoing
from qmgr_demo.cluster import Node
from qmgr_demo.leg_consumer import FLOWN, LEGS
from qmgr_demo.legs import Audit, Day, Flown, audit
from qmgr_protocol.errors import RequestError

CONSUMERS = ("A", "B", "C", "D")
KILLED = "D"
OPERATOR, PLANNER, APRON = "operator", "planner", "apron"  # users
KILLS = 5
# Fraction of the day between kills. Aircraft with many legs start early, so a kill can be between
# two of their legs.
KILL_EACH = 0.1
WORK_MS = 60  # time per leg; the whole day takes about six seconds
LEASE_MS = 5_000
POLL_S = 0.02
DAY_MAX_S = 120
STOP_MAX_S = 20


class PinnedFailed(Exception):
    """The error if a consumer ended unexpectedly, a leg was refused, or legs are left."""


class ConsumerProcess:
    """One consumer. Invariant: ``process`` is the most recently started process."""

    def __init__(self, name: str, node: Node, directory: Path, work_ms: int) -> None:
        self.name = name
        self._environment = dict(os.environ)
        if file := node.password_file(APRON):
            self._environment |= {USER: APRON, PASSWORD_FILE: file}
        self._command = [
            sys.executable,
            "-m",
            "qmgr_demo.leg_consumer",
            node.address,
            name,
            str(work_ms),
        ]
        self._log = directory / f"consumer.{name}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process, which begins to consume a moment later."""
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                self._command, stdout=log, stderr=log, env=self._environment
            )

    def kill(self) -> None:
        """Kills the process with SIGKILL, and waits until it has ended."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(STOP_MAX_S)

    def check(self) -> None:
        """Raises PinnedFailed if the process ended."""
        if self.process is not None and self.process.poll() is not None:
            last_line = self._log.read_text(errors="replace").splitlines()[-1:]
            raise PinnedFailed(f"consumer {self.name} ended by itself: {''.join(last_line)}")


class PinnedDay:
    """The legs of a day, put and consumed. Invariant: all records in ``flown`` are committed."""

    def __init__(self, day: Day, node: Node, directory: Path, work_ms: int = WORK_MS) -> None:
        self.day = day
        self.put = 0
        self.flown: list[Flown] = []
        self.kills = 0
        self.seconds = 0.0
        self.left = 0
        self._node = node
        self._consumers = {
            name: ConsumerProcess(name, node, directory, work_ms) for name in CONSUMERS
        }
        self._done_before = 0  # legs that the killed consumer had processed at its last kill

    def audit(self) -> Audit:
        """Returns the comparison of the records with the legs that were put."""
        return audit(self.day.legs, self.flown)

    async def run(self) -> None:
        """Puts and consumes all legs while a consumer is killed.

        Raises:
            PinnedFailed: The text states the reason.
        """
        async with self._connect(OPERATOR) as operator, self._connect(PLANNER) as planner:
            await operator.admin.queue_create(LEGS, lease_ms=LEASE_MS)
            await operator.admin.queue_create(FLOWN)
            await self._put_all(planner)
            began = time.monotonic()
            try:
                for consumer in self._consumers.values():
                    consumer.start()
                await self._consume_all(operator, planner)
            finally:
                for consumer in self._consumers.values():
                    await asyncio.to_thread(consumer.kill)
            self.seconds = time.monotonic() - began
            await self._look(planner)  # A duplicate may have arrived after the last leg.
            self.left = (await operator.admin.queue_show(LEGS))["depth"]

    async def _put_all(self, manager: QueueManager) -> None:
        """Puts the legs of all aircraft in planned order."""
        items = [
            Outgoing(leg.body, headers={"row": leg.row}, group=leg.group) for leg in self.day.legs
        ]
        for result in await manager.put_many(LEGS, items):
            if isinstance(result, RequestError):
                raise PinnedFailed(f"a leg was refused: {result.text}")
            self.put += 1

    def _connect(self, user: str) -> QueueManager:
        return self._node.connect("demo.pinned", user, wait_ms=STOP_MAX_S * 1000)

    async def _consume_all(self, operator: QueueManager, planner: QueueManager) -> None:
        """Waits until no leg is left, and kills one consumer in the meantime."""
        victim, end_s = self._consumers[KILLED], time.monotonic() + DAY_MAX_S
        while (await operator.admin.queue_show(LEGS))["depth"]:
            await self._look(planner)
            if self._is_kill_due():
                await asyncio.to_thread(victim.kill)
                victim.start()
                self.kills += 1
                await self._look(planner)
                self._done_before = self._done_by(KILLED)
            for consumer in self._consumers.values():
                consumer.check()
            if time.monotonic() > end_s:
                raise PinnedFailed(f"legs are left after {DAY_MAX_S} s; see the consumers' logs")
            await asyncio.sleep(POLL_S)

    def _is_kill_due(self) -> bool:
        """Returns whether enough legs are done, and the consumer to kill is between two legs.

        After some time, the second condition is ignored.
        """
        part = (self.kills + 1) * KILL_EACH
        if self.kills == KILLS or len(self.flown) < part * len(self.day.legs):
            return False
        done = [one for one in self.flown if one.by == KILLED]
        is_late = len(self.flown) >= (part + KILL_EACH / 2) * len(self.day.legs)
        return len(done) > self._done_before and (is_late or not done[-1].last)

    def _done_by(self, name: str) -> int:
        return sum(one.by == name for one in self.flown)

    async def _look(self, manager: QueueManager) -> None:
        """Reads all records again, because a put gets its position before its unit commits."""
        self.flown = [Flown(**message.headers) async for message in manager.browse(FLOWN)]
