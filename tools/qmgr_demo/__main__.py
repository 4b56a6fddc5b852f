"""``make demo``: transfers a year of flights from three airports to one hub, despite kills.

Spark reads a snapshot of the hub and checks the mean delays.

The demo also puts all flights of one day at one airport as groups by tail number. Each group
has the legs of one aircraft in time order, and the last leg is flagged. Four pinned consumers
process the groups, and one consumer is killed repeatedly. Every aircraft's legs must be consumed in
order, without loss or duplicates.

Finally, the demo publishes the delayed flights by airport and carrier. Each subscriber must receive
each flight that matches its filter exactly once. Publications that one subscriber failed on are
republished to that subscriber only.

All queue managers are secured: links use TLS, and all links and clients log in as users with few
rights. At the end, the demo shows the logins and the refusals. The only refusal is one that the
demo causes itself.
"""

import argparse
import asyncio
import shutil
import sys
import time
from collections import Counter
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from pyspark_qmgr.java import JavaUnsuitable
from pyspark_qmgr.session import local_session
from qmgr_client.message import Message
from qmgr_demo import flights as data
from qmgr_demo import report, spark_report
from qmgr_demo.cluster import Node
from qmgr_demo.delays_part import delays_part
from qmgr_demo.logins import recorded
from qmgr_demo.network import CONNECTIONS
from qmgr_demo.pinned import OPERATOR
from qmgr_demo.pinned_part import pinned_part
from qmgr_demo.security import Security
from qmgr_demo.traffic import ARRIVALS, HUB, MONITOR, QUEUE, Killer, Traffic
from qmgr_demo.users import USERS, USERS_TOTAL

KILL_ROUNDS = 3
BACKLOG_PART = 0.25  # The snapshot is taken when this fraction is pending at the hub.


def main() -> int:
    """Runs the demo. Returns 0 if no message was lost or duplicated and the aggregates agree."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--flights", type=int, default=0, help="number of flights, 0 = all")
    parser.add_argument(
        "--dir", type=Path, default=Path("build/demo"), help="directory for the data"
    )
    parser.add_argument("--no-spark", action="store_true", help="skip Spark")
    options = parser.parse_args()
    if options.flights < 0:
        parser.error(f"--flights {options.flights} is negative: use 0 for all flights")
    console = Console(soft_wrap=False)
    shutil.rmtree(options.dir, ignore_errors=True)
    options.dir.mkdir(parents=True)
    try:
        flights = data.read(options.flights)
    except data.DataMissing as error:
        console.print(f"[red]error[/red]: {error}")
        return 1
    nodes = {name: Node(name, options.dir.resolve()) for name in (*data.AIRPORTS, HUB)}
    security = Security(options.dir.resolve() / "secrets")
    for name, node in nodes.items():
        security.protect(node, listens=name == HUB, logins={} if name == HUB else {HUB: name})
    console.print(
        f"Queue managers EWR, JFK and LGA accept {len(flights):,} flights and send them to "
        f"NYC. Each link has {CONNECTIONS} connections. One of them is cut and one is stalled. "
        f"In the meantime, each daemon is killed {KILL_ROUNDS} times. Links use TLS, and all links "
        "and clients log in."
    )
    run = Run(console, nodes, security, flights, options.dir.resolve() / "snapshot")
    try:
        asyncio.run(run.traffic_flows())
        run.show()
        parts_are_fine = [
            asyncio.run(run.legs_follow(options.dir)),
            asyncio.run(run.delays_follow()),
        ]
    finally:
        codes = {name: node.stop() for name, node in nodes.items()}
    orderly = all(code == 0 for code in codes.values())
    if not orderly:
        console.print(f"[red]a daemon did not stop cleanly[/red]: {codes}")
    parts_are_fine.append(run.show_logins())
    spark_agrees = run.check_spark(skip=options.no_spark)
    return 0 if spark_agrees and run.is_clean and all(parts_are_fine) and orderly else 1


class Run:
    """One run of the demo."""

    def __init__(
        self,
        console: Console,
        nodes: dict[str, Node],
        security: Security,
        flights: list[data.Flight],
        snapshot: Path,
    ) -> None:
        self._console = console
        self._nodes = nodes
        self._security = security
        self._snapshot = snapshot
        self._flights = flights
        self._killer = Killer(KILL_ROUNDS)
        self._seconds = 0.0
        self._transferred = 0

    async def traffic_flows(self) -> None:
        """Puts, transfers and consumes all flights during the kills, and takes the snapshot."""
        self._traffic = traffic = Traffic(self._nodes, self._flights)
        for node in self._nodes.values():
            node.start()
        try:
            await self._flow(traffic)
        finally:
            await traffic.network.close()

    async def _flow(self, traffic: Traffic) -> None:
        for name, node in self._nodes.items():
            await self._security.create_users(node, USERS[name])
        await traffic.define()
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            progress = tasks.create_task(self._show_progress())
            kills = [
                tasks.create_task(self._killer.run(node, partial(traffic.progress, name)))
                for name, node in self._nodes.items()
            ]
            troubles = [
                tasks.create_task(traffic.network.trouble(name, partial(traffic.progress, HUB)))
                for name in data.AIRPORTS
            ]
            for airport in data.AIRPORTS:
                tasks.create_task(traffic.produce(airport))
            await self._take_snapshot()
            await traffic.take_all(self._work)
            self._seconds = time.monotonic() - began
            await asyncio.wait([*kills, *troubles])
            progress.cancel()
        self._refusal = await traffic.put_without_right()
        async with traffic.connect(self._nodes[HUB], MONITOR) as manager:
            row = await manager.admin.queue_show(QUEUE)
            self._transferred = row["puts"]
            self._left = row["depth"]

    async def legs_follow(self, directory: Path) -> bool:
        """Consumes one day's flights at the hub, in order for each aircraft."""
        return await pinned_part(self._console, self._nodes[HUB], self._flights, directory)

    async def delays_follow(self) -> bool:
        """Publishes the delayed flights at the hub while its daemon is killed."""
        return await delays_part(self._console, self._nodes[HUB], self._flights)

    def _work(self, message: Message) -> None:
        """Stands for the application's work for a flight. Does nothing in this demo."""

    async def _take_snapshot(self) -> None:
        """Waits for a backlog at the hub, then takes a snapshot during the traffic."""
        traffic, hub = self._traffic, self._nodes[HUB]
        async with traffic.connect(hub, OPERATOR) as manager:
            while (await manager.admin.queue_show(QUEUE))["depth"] < BACKLOG_PART * traffic.total:
                await asyncio.sleep(0.05)
            await manager.admin.snapshot(str(self._snapshot))

    async def _show_progress(self) -> None:
        traffic = self._traffic
        columns = (
            TextColumn("{task.description:<12}"),
            BarColumn(40),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self._console) as bars:
            put = bars.add_task("put", total=traffic.total)
            consumed = bars.add_task("consumed", total=traffic.total)
            kills = bars.add_task("kills", total=KILL_ROUNDS * len(self._nodes))
            try:
                while True:
                    await asyncio.sleep(0.1)
                    self._update(bars, put, consumed, kills)
            finally:
                self._update(bars, put, consumed, kills)

    def _update(self, bars: Progress, put: TaskID, consumed: TaskID, kills: TaskID) -> None:
        bars.update(put, completed=sum(self._traffic.put.values()))
        bars.update(consumed, completed=self._traffic.ledger.consumed)
        bars.update(kills, completed=sum(self._killer.kills.values()))

    @property
    def is_clean(self) -> bool:
        """Whether each message was consumed exactly once."""
        ledger = self._traffic.ledger
        wrong = {
            "not acknowledged": len(self._flights) - len(ledger.acknowledged),
            "not transferred": len(ledger.acknowledged) - self._transferred,
            "refused": ledger.refused,
            "left on the queue": self._left,
        }
        for what, count in wrong.items():
            if count:
                self._console.print(f"[red]{what}: {count:,}[/red]")
        return ledger.is_clean and not any(wrong.values())

    def show(self) -> None:
        """Prints the results for the messages."""
        manifest = spark_report.manifest(self._snapshot)
        depth = next(row["depth"] for row in manifest["queues"] if row["queue"] == QUEUE)
        network = self._traffic.network
        totals = report.Totals(
            self._transferred,
            self._killer.kills,
            self._seconds,
            depth,
            manifest["turn"],
            sum(network.cuts.values()),
            sum(network.stalls.values()),
        )
        report.show(self._console, self._traffic.ledger, totals)

    def show_logins(self) -> bool:
        """Prints the logins and refusals. Returns whether only the expected put was refused."""
        logins = recorded(node.log for node in self._nodes.values())
        report.show_logins(self._console, logins, USERS_TOTAL, self._refusal)
        expected = {ARRIVALS: 1} if self._refusal else {}
        is_expected = dict(logins.denied) == expected and bool(self._refusal)
        return is_expected and not logins.refused and not logins.otherwise

    def check_spark(self, *, skip: bool) -> bool:
        """Prints Spark's means, and returns whether they equal the expected means.

        Each airport sends its flights in order over one link. The snapshot must therefore hold the
        first rows of each airport.
        """
        if skip:
            return True
        self._console.print("Starting Spark to read the snapshot ...")
        try:
            spark = local_session("qmgrd demo")
        except JavaUnsuitable as error:
            self._console.print(f"[red]error[/red]: {error}")
            return False
        found = spark_report.aggregate(spark, self._snapshot, QUEUE)
        spark.stop()
        counts: Counter[str] = Counter()
        for (_, airport), mean in found.items():
            counts[airport] += mean.flights
        rows = [
            flight
            for airport, flights in self._traffic.by_airport.items()
            for flight in flights[: counts[airport]]
        ]
        manifest = spark_report.manifest(self._snapshot)
        depth = next(row["depth"] for row in manifest["queues"] if row["queue"] == QUEUE)
        agree = report.show_means(self._console, found, data.aggregate(rows))
        return agree and len(rows) == depth


sys.exit(main())
