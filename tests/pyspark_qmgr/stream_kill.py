"""A stream of history, killed at random: ``python -m tests.pyspark_qmgr.stream_kill --cycles 50``.

    producers ─▶ daemon ─▶ consumers          accounting is on
                   │
                   ├─ cursor "lake" ──▶ streaming query ──▶ files of Parquet, with a checkpoint
                   │                    (a driver, two executors of a standalone cluster)
                   └─ cursor "witness" ──▶ all rows of history, read once, in order

Each cycle kills a process with -9 at a random moment: the driver or its planning process, an
executor or its Python worker, or the daemon. The killed process starts again. At the end, the load
stops and a last query reads the rest. The output, read through Spark, must have each event of the
history once and no other event. The arrivals and departures in the history must match the content
of the store.

The program prints a summary line. If it finds a fault, it prints the seed and exits with 1.
"""

import argparse
import asyncio
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from qmgr_demo.cluster import Node
from tests.pyspark_qmgr import stream_load
from tests.pyspark_qmgr.cluster import Cluster
from tests.pyspark_qmgr.processes import below, end_session, words
from tests.pyspark_qmgr.stream_broken import BROKEN
from tests.pyspark_qmgr.stream_check import faults, stored_in
from tests.pyspark_qmgr.stream_query import DUMP

PROGRESS_MAX_S = 180.0  # time without a batch after which the query counts as stuck
FAILURES_MAX = 3  # number of failures without a batch after which the query counts as stuck
DRAIN_MAX_S = 300.0
PLANNER, EXECUTOR, WORKER = (
    "python_streaming_source_runner",
    "CoarseGrainedExecutorBackend",
    "pyspark.daemon",
)
WEIGHTS = {"driver": 4, "planner": 1, "executor": 3, "worker": 2, "daemon": 4}
VICTIMS = tuple(WEIGHTS)


class Stuck(Exception):
    """Raised if a query makes no progress."""


class Query:
    """The streaming query as a process. ``starts`` and ``failures`` are counters."""

    def __init__(self, directory: Path, url: str, master: str, broken: str | None) -> None:
        self.starts = self.failures = 0
        self._directory = directory
        self._command = [
            sys.executable,
            "-m",
            "tests.pyspark_qmgr.stream_query",
            "--url",
            url,
            "--dir",
            str(directory),
            "--master",
            master,
            *(["--broken", broken] if broken else []),
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *more: str) -> None:
        """Starts the query."""
        self.starts += 1
        with (self._directory / "query.log").open("ab") as log:
            log.write(b"--- start %d\n" % self.starts)
            log.flush()
            self._process = subprocess.Popen(
                [*self._command, *more],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            )

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """Returns the Python process of the driver."""
        assert self._process is not None
        return self._process

    def revive(self) -> None:
        """Restarts the query after a failure, for example after the kill of many executors."""
        if self.process.poll() is not None:
            self.failures += 1
            self.kill()
            self.start()

    def kill(self) -> None:
        """Kills the Python process, its Java process and the planning process with -9."""
        end_session(self.process)

    @property
    def batches(self) -> int:
        """Returns the number of committed batches."""
        with suppress(FileNotFoundError):
            names = os.listdir(self._directory / "checkpoint" / "commits")
            return max((int(name) for name in names if name.isdigit()), default=-1)
        return -1

    def goes_on(self, batches: int) -> None:
        """Waits until the query has written more than *batches* batches.

        Raises:
            Stuck: The query writes no batch.
        """
        until_s = time.monotonic() + PROGRESS_MAX_S
        failures_max = self.failures + FAILURES_MAX
        while self.batches <= batches:
            if time.monotonic() > until_s or self.failures > failures_max:
                raise Stuck(f"no batch, {self.failures} failures within {PROGRESS_MAX_S:.0f} s")
            self.revive()
            time.sleep(0.1)

    def drain(self) -> None:
        """Lets the query read the remaining history."""
        self.start("--drain")
        try:
            code = self.process.wait(DRAIN_MAX_S)
        except subprocess.TimeoutExpired:
            raise Stuck(f"the query does not finish within {DRAIN_MAX_S:.0f} s") from None
        finally:
            self.kill()
        if code != 0:
            raise Stuck(f"the query does not finish, exit code {code}")

    def log_tail(self) -> str:
        """Returns the end of the query's log."""
        return (self._directory / "query.log").read_text(errors="replace")[-4_000:]


class Campaign:
    """A campaign of kills, counted by victim."""

    def __init__(self, rng: random.Random, node: Node, query: Query, master: str) -> None:
        self.killed = dict.fromkeys(VICTIMS, 0)
        self._rng, self._node, self._query, self._master = rng, node, query, master

    def cycle(self) -> None:
        """Waits for a random moment, kills a process, and starts it again."""
        # Otherwise, the next kill would come while the previous victim is still starting.
        if self._rng.random() < 0.5:
            self._query.goes_on(self._query.batches)
        time.sleep(self._rng.uniform(0, 1.5))
        is_local = self._master.startswith("local")
        weights = [0 if is_local and what == "executor" else WEIGHTS[what] for what in VICTIMS]
        victim = self._rng.choices(VICTIMS, weights)[0]
        if victim not in ("driver", "daemon"):
            until_s = time.monotonic() + PROGRESS_MAX_S
            while not (found := self._found(victim)):
                if time.monotonic() > until_s:
                    raise Stuck(f"no {victim} started within {PROGRESS_MAX_S:.0f} s")
                self._query.revive()
                time.sleep(0.05)
            with suppress(ProcessLookupError):
                os.kill(self._rng.choice(found), signal.SIGKILL)
        elif victim == "driver":
            self._query.kill()
            self._query.start()
        else:
            self._node.kill()
            time.sleep(self._rng.uniform(0, 1))
            self._node.start()
        self.killed[victim] += 1

    def _found(self, victim: str) -> list[int]:
        """Returns the processes of the kind *victim*. Forked workers are included."""
        what = {"planner": PLANNER, "executor": EXECUTOR, "worker": WORKER}[victim]
        return [pid for pid in below(os.getpid()) if what in words(pid)]


async def run(
    directory: Path, cycles: int, seed: int, master: str, broken: str | None
) -> list[str]:
    """Runs the campaign. Returns the faults that were found."""
    rng = random.Random(seed)
    node = Node("QM1", directory)
    node.start()
    witness = stream_load.Witness(node.tcp)
    query = Query(directory, node.tcp, master, broken)
    campaign = Campaign(rng, node, query, master)
    stopping = asyncio.Event()
    stuck: list[str] = []
    try:
        await stream_load.define(node.tcp)
        await asyncio.to_thread(witness.start)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(2):
                tasks.create_task(stream_load.produce(node.tcp, _child(rng), stopping))
            for queue in stream_load.QUEUES:
                tasks.create_task(stream_load.consume(node.tcp, _child(rng), stopping, queue))
            try:
                query.start()
                for cycle in range(cycles):
                    await asyncio.to_thread(campaign.cycle)
                    print(
                        f"cycle {cycle + 1} of {cycles}: {campaign.killed}, batch "
                        f"{query.batches}, {len(witness.rows)} rows",
                        flush=True,
                    )
                if cycles:
                    await asyncio.to_thread(query.goes_on, query.batches)
                await asyncio.to_thread(query.kill)
            finally:
                stopping.set()
        await asyncio.sleep(1.5)  # Within this time, the daemon stores the last deliveries.
        await asyncio.to_thread(witness.stop)
        await asyncio.to_thread(query.drain)
    except* Stuck as errors:
        stuck = [f"{errors.exceptions[0]}: {query.log_tail()}"]
    finally:
        query.kill()
        witness.stop()
        node.stop()
    if stuck:
        return stuck
    dump = pq.read_table(directory / DUMP)
    stored = stored_in(node.data_dir / "store" / "data.mdb", _queue_ids(dump))
    print(
        f"{sum(campaign.killed.values())} kills {campaign.killed}, {query.starts} starts of the "
        f"query, {query.failures} after failures; {len(witness.rows)} rows of history, "
        f"{dump.num_rows} events in the output, {len(stored)} messages left"
    )
    return witness.wrong + faults(dump, witness.store_id, witness.rows, stored)


def _queue_ids(dump: Any) -> set[int]:
    return set(dump.column("queue_id").unique().to_pylist())


def _child(rng: random.Random) -> random.Random:
    return random.Random(rng.getrandbits(32))


def main() -> int:
    """Runs the campaign. Returns 0 if the output matches the history."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--dir", type=Path, default=Path("build/stream"))
    parser.add_argument("--local", action="store_true", help="run executors within the driver")
    parser.add_argument("--broken", choices=sorted(BROKEN), help="show that a fault is found")
    options = parser.parse_args()
    seed = random.randrange(2**32) if options.seed is None else options.seed
    shutil.rmtree(options.dir, ignore_errors=True)
    options.dir.mkdir(parents=True)
    directory = options.dir.resolve()
    began_s = time.monotonic()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # The interrupt ends all processes.
    with ExitStack() as stack:
        master = "local[2]"
        if not options.local:
            (directory / "cluster").mkdir()
            cluster = Cluster(directory / "cluster")
            cluster.environment["SPARK_MASTER_OPTS"] = "-Dspark.deploy.maxExecutorRetries=-1"
            master = stack.enter_context(cluster).master
        wrong = asyncio.run(run(directory, options.cycles, seed, master, options.broken))
    for fault in wrong:
        print(f"FAULT {fault}", file=sys.stderr)
    verdict = "FAULTS" if wrong else "the output has each event of the history once"
    print(f"seed {seed}: {verdict}; {time.monotonic() - began_s:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
