"""Takes snapshots each second under full load: ``python -m tests.process.snapshots --seconds 60``.

    LOCAL    producers ──▶ EDGE ──▶ consumers
    AWAY     producers ──▶ EDGE ══link══▶ HUB ──▶ consumers
    FAMILY.* a unit puts one message on each queue, another unit gets one from each
    units, groups, topics as in crash.py; and PROBE, which times its puts

In one run, periods with a snapshot of both daemons each second alternate with periods without
snapshots. The ratio of their latencies is the cost of a snapshot. Each snapshot is verified
afterwards, see snapshot_check.py. The command prints one summary line, in which a pair such as a/b
gives the figures with and without snapshots. It exits with 1 if a snapshot is faulty, or if no
snapshot was taken.
"""

import argparse
import asyncio
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from statistics import median

from qmgr_client.aio import QueueManager, connect
from qmgr_demo.cluster import Node
from qmgr_protocol.errors import RequestError
from tests.process.group_load import GroupLoad
from tests.process.load import WAIT_MS, Load
from tests.process.put_probe import QUEUE as PROBE
from tests.process.snapshot_check import FAMILY, LINKED
from tests.process.topic_load import TopicLoad
from tests.process.unit_load import UnitLoad

PERIOD_S = 3.0
EVERY_S = 1.0
WARM_UP_S = 3.0
BACKLOG_MAX = 5_000
FAMILY_BACKLOG_MAX = 500
SIZES = (0, 100, 1_000, 9_000)
NEVER = 1 << 60
RATIO_MAX = 1.5  # limit of the p99 put latency with snapshots, divided by that without


class Family:
    """Units that put one message on each queue of a family, and units that get one from each."""

    def __init__(self, address: str) -> None:
        self.stopping = asyncio.Event()
        self.put = self.got = 0
        self._address = address
        self._random = random.Random(1)

    async def run(self) -> None:
        """Works until a stop is requested."""
        async with self._connect() as manager:
            for queue in FAMILY:
                await manager.admin.queue_create(queue)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._produce())
            tasks.create_task(self._produce())
            tasks.create_task(self._consume())

    def _connect(self) -> QueueManager:
        return connect(self._address, name="family", wait_ms=WAIT_MS)

    async def _produce(self) -> None:
        async with self._connect() as manager:
            while not self.stopping.is_set():
                self.put += 1
                body = b"%d" % self.put
                async with manager.unit_of_work() as unit:
                    for queue in FAMILY:
                        await unit.put(queue, body, correlation_id=body)
                while self.put > self.got + FAMILY_BACKLOG_MAX and not self.stopping.is_set():
                    await asyncio.sleep(0.005)

    async def _consume(self) -> None:
        """Gets the first message of one queue, and the messages with its number from the others.

        The first messages of the other queues may differ, because two simultaneous puts may have a
        different order on each queue.
        """
        async with self._connect() as manager:
            while not self.stopping.is_set():
                with suppress(RequestError):
                    async with manager.unit_of_work() as unit:
                        first = await unit.get(FAMILY[0], 200)
                        number = b"" if first is None else first.body
                        found = [first] + [
                            await unit.get(queue, 200, correlation_id=number)
                            for queue in FAMILY[1:]
                            if number
                        ]
                        if None in found or self._random.random() < 0.1:
                            await unit.backout()
                            continue
                    self.got += 1


class SnapshotLoad:
    """A run and its results.

    Invariant: ``periods`` alternate between periods with and without snapshots.
    """

    def __init__(
        self,
        directory: Path,
        *,
        seed: int = 1,
        program: Sequence[str] = ("-m", "qmgrd"),
        rate_bytes: int = 0,
    ) -> None:
        self.edge = Node("EDGE", directory, program=program)
        self.hub = Node("HUB", directory, program=program)
        self.taken: list[Path] = []
        self.took_s: list[float] = []
        self.periods: list[tuple[bool, float, float]] = []
        self.latencies: list[tuple[float, float]] = []
        self.wrong: dict[str, list[str]] = {}
        self.consumed = 0
        # growth of EDGE's store in bytes, in periods with snapshots and without
        self.grown = {True: 0, False: 0}
        self._snapshots = directory / "snapshots"
        self._seed = seed
        self._rate_bytes = rate_bytes

    async def run(self, seconds: float, period_s: float = PERIOD_S) -> None:
        """Runs for *seconds*, half of the time with snapshots and half without."""
        self._snapshots.mkdir(parents=True)
        for node in (self.hub, self.edge):
            node.start()
        try:
            await self._define()
            await self._under_load(seconds, period_s)
        finally:
            for node in (self.edge, self.hub):
                node.stop()

    async def _define(self) -> None:
        async with connect(self.hub.address, name="run", wait_ms=WAIT_MS) as manager:
            await manager.admin.queue_create(LINKED)
            await manager.admin.link_allow(self.edge.name)
        async with connect(self.edge.address, name="run", wait_ms=WAIT_MS) as manager:
            await manager.admin.queue_create("LOCAL")
            await manager.admin.queue_create(PROBE)
            await manager.admin.link_create("HUB", [self.hub.tcp])
            await manager.admin.queue_create(f"{LINKED}@HUB")

    async def _under_load(self, seconds: float, period_s: float) -> None:
        edge, hub, seed = self.edge, self.hub, self._seed
        away = f"{LINKED}@HUB"
        loads = [
            Load(edge, edge, "LOCAL", "LOCAL", seed, sizes=SIZES, backlog_max=BACKLOG_MAX),
            Load(edge, hub, away, LINKED, seed + 1, sizes=SIZES, backlog_max=BACKLOG_MAX),
        ]
        everything: list[Load | UnitLoad | TopicLoad | GroupLoad | Family] = [
            *loads,
            UnitLoad(edge.address, seed, stall_max_s=1),
            TopicLoad(edge.address, seed, stall_max_s=1),
            GroupLoad(edge.address, seed, stall_max_s=1, kill_every=NEVER),
            Family(edge.address),
        ]
        command = [sys.executable, "-m", "tests.process.put_probe", edge.address]
        probe = await asyncio.create_subprocess_exec(
            *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1 << 30
        )
        async with asyncio.TaskGroup() as tasks:
            work = [tasks.create_task(one.run()) for one in everything]
            await asyncio.sleep(WARM_UP_S)
            await self._take_turns(seconds, period_s)
            out, _ = await probe.communicate(b"")
            self.latencies = json.loads(out)
            for one in everything:
                one.stopping.set()
            self.consumed = sum(load.ledger.consumed for load in loads)
            for task in work:  # The messages left on the queues do not matter here.
                task.cancel()

    async def _take_turns(self, seconds: float, period_s: float) -> None:
        async with (
            connect(self.edge.address, name="run", wait_ms=WAIT_MS) as edge,
            connect(self.hub.address, name="run", wait_ms=WAIT_MS) as hub,
        ):
            for number in range(2 * max(1, round(seconds / period_s))):
                began, size = time.monotonic(), self._store_bytes()
                # A B B A A B B A: a drift, for example of the depth, affects both kinds equally.
                if is_on := number % 4 in (0, 3):
                    await self._take(edge, hub, began + period_s)
                else:
                    await asyncio.sleep(period_s)
                self.periods.append((is_on, began, time.monotonic()))
                self.grown[is_on] += self._store_bytes() - size

    def _store_bytes(self) -> int:
        return (self.edge.data_dir / "store" / "data.mdb").stat().st_size

    async def _take(self, edge: QueueManager, hub: QueueManager, until: float) -> None:
        due = time.monotonic()
        while due < until:
            await asyncio.gather(self._snapshot(edge, "EDGE"), self._snapshot(hub, "HUB"))
            due += EVERY_S
            await asyncio.sleep(max(due - time.monotonic(), 0))

    async def _snapshot(self, manager: QueueManager, name: str) -> None:
        directory = self._snapshots / f"{name}-{len(self.taken):04}"
        self.taken.append(directory)
        began = time.monotonic()
        await manager.admin.snapshot(str(directory), self._rate_bytes)
        self.took_s.append(time.monotonic() - began)

    def check(self) -> None:
        """Verifies each snapshot in a separate process."""
        command = [sys.executable, "-m", "tests.process.snapshot_check", *map(str, self.taken)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        for line in done.stdout.splitlines():
            told = json.loads(line)
            self.wrong[told["directory"]] = told["faults"]

    @property
    def faults(self) -> dict[str, list[str]]:
        """The faults, by snapshot."""
        return {directory: found for directory, found in self.wrong.items() if found}

    def percentile(self, share: float, *, is_on: bool) -> float:
        """Returns a percentile of the put latency, with or without snapshots, in ms."""
        return _percentile(
            [
                took
                for on, began, ended in self.periods
                if on == is_on
                for when, took in self.latencies
                if began <= when < ended
            ],
            share,
        )

    def ratio_of_pairs(self) -> float:
        """Returns the median ratio of the p99 of neighbouring periods."""
        by_period = [
            (
                on,
                _percentile([took for when, took in self.latencies if began <= when < ended], 0.99),
            )
            for on, began, ended in self.periods
        ]
        return median(
            (b / a if on else a / b) for (_, a), (on, b) in pairwise(by_period) if on != _
        )


def _percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return 1000 * ordered[min(int(len(ordered) * share), len(ordered) - 1)] if ordered else 0.0


def main() -> int:
    """Runs the campaign; returns 0 if each snapshot is intact."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rate", type=int, default=0, help="bytes per second; 0: the configured rate"
    )
    parser.add_argument("--dir", type=Path, default=Path("build/snapshots"))
    options = parser.parse_args()
    shutil.rmtree(options.dir, ignore_errors=True)
    options.dir.mkdir(parents=True)
    load = SnapshotLoad(options.dir.resolve(), seed=options.seed, rate_bytes=options.rate)
    asyncio.run(load.run(options.seconds))
    load.check()
    return report(load, options.seed)


def report(load: SnapshotLoad, seed: int) -> int:
    """Prints the summary and the faults; returns the exit code."""
    for directory, found in load.faults.items():
        print(f"{directory}: {'; '.join(found[:5])}", file=sys.stderr)
    sizes = [(directory / "data.mdb").stat().st_size for directory in load.taken]
    p50 = {on: load.percentile(0.5, is_on=on) for on in (True, False)}
    p99 = {on: load.percentile(0.99, is_on=on) for on in (True, False)}
    print(
        f"snapshots: seed={seed} taken={len(load.taken)} verified={len(load.wrong)} "
        f"faulty={len(load.faults)} mib={sum(sizes) / 2**20:.0f} "
        f"took_ms={1000 * median(load.took_s):.0f} took_max_ms={1000 * max(load.took_s):.0f} "
        f"grown_mib={load.grown[True] >> 20}/{load.grown[False] >> 20} "
        f"consumed={load.consumed} puts_timed={len(load.latencies)} "
        f"p50_ms={p50[True]:.2f}/{p50[False]:.2f} p99_ms={p99[True]:.2f}/{p99[False]:.2f} "
        f"p99_ratio={p99[True] / p99[False]:.2f} p99_ratio_of_pairs={load.ratio_of_pairs():.2f} "
        f"(at most {RATIO_MAX})"
    )
    return 1 if load.faults or not load.taken or len(load.wrong) != len(load.taken) else 0


if __name__ == "__main__":
    sys.exit(main())
