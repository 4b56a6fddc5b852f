"""Two daemons under load, linked in both directions over proxies: ``make crash LINK=1``.

    producers ──▶ EDGE ══4 connections══ proxy ══▶ HUB  ──▶ consumers
    consumers ◀── EDGE ◀══ proxy ══4 connections══ HUB  ◀── producers      in order

Links use TLS. All links and clients log in as users that have only the rights that they need.
Clients of guest_load.py try what they may not do, while their rights change.

Each cycle causes one fault of link_faults.py. At the end, the network is healed, and everything
drains. Both ledgers must balance, the transmission queues must be empty, each link must be up with
all its connections, and the stores must be intact.
"""

import asyncio
import random
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from qmgr_demo.cluster import Node
from qmgr_demo.security import Security, User
from qmgr_proxy.proxy import Proxy
from qmgrd.verify.verify import verify
from tests.process.guest_load import QUEUE as GUEST_QUEUE
from tests.process.guest_load import USERS as GUESTS
from tests.process.guest_load import GuestLoad, counted
from tests.process.link_faults import LinkFaults
from tests.process.load import CONSUMER, PRODUCER, STALL_MAX_S, Load

CONNECTIONS = 4
MONITOR = "monitor"
SETTINGS = {"QMGRD_LINK__STALL_MS": "2000", "QMGRD_LINK__REDIAL_MAX_MS": "1000"}
_USUAL = 6 * (30, 500) + 4 * (4_000,) + 2 * (30_000,) + (100_000,)
SIZES = 20 * _USUAL + (1_300_000,)  # The last one is sent in pieces.
RUN_MAX = 60
BACKLOG_MAX = 4_000
PAUSE_MAX_S = 0.8
HEAL_PART = 0.25  # fraction of the cycles that begin on a network without faults


class LinkLoad:
    """The daemons, their links and the load.

    ``resent`` and ``stalls`` are lower bounds, because a kill resets the daemon's counters of
    resent messages and of stalled connections.
    """

    def __init__(
        self,
        directory: Path,
        seed: int,
        *,
        program: Sequence[str] = ("-m", "qmgrd"),
        stall_max_s: float = STALL_MAX_S,
    ) -> None:
        """Stores all data in *directory*.

        Args:
            program: The daemon as a Python program.
            stall_max_s: The time without a message after which missing messages count as lost.
        """
        self._rng = random.Random(seed)
        self.hub = Node("HUB", directory, SETTINGS, program)
        self.edge = Node("EDGE", directory, SETTINGS, program)
        security = self._security = Security(directory / "secrets")
        for node, peer in ((self.hub, self.edge), (self.edge, self.hub)):
            security.protect(node, logins={peer.name: node.name})
        self._proxies = [self._proxy_of(self.hub), self._proxy_of(self.edge)]
        self.harm = LinkFaults(self._rng, [self.hub, self.edge], self._proxies)
        self.loads = [
            self._load(self.edge, self.hub, "FORTH", stall_max_s),
            self._load(self.hub, self.edge, "BACK", stall_max_s),
        ]
        self.guests = [
            GuestLoad(node, queues, self._rng.randrange(2**32))
            for node, queues in (
                (self.hub, ["FORTH", "BACK@EDGE"]),
                (self.edge, ["BACK", "FORTH@HUB"]),
            )
        ]
        self._stall_max_s = stall_max_s
        self._directory = directory
        # counters by daemon and process run
        self._counted: dict[tuple[str, int], tuple[int, int]] = {}
        self._wrong: dict[str, Any] = {}

    @staticmethod
    def _proxy_of(node: Node) -> Proxy:
        host, _, port = node.tcp.rpartition(":")
        return Proxy(host, int(port))

    def _load(self, source: Node, target: Node, queue: str, stall_max_s: float) -> Load:
        return Load(
            source,
            target,
            f"{queue}@{target.name}",
            queue,
            self._rng.randrange(2**32),
            sizes=SIZES,
            run_max=RUN_MAX,
            backlog_max=BACKLOG_MAX,
            stall_max_s=stall_max_s,
            is_empty=partial(self._is_empty, source, target, queue),
        )

    @property
    def resent(self) -> int:
        """The number of resent messages."""
        return sum(resent for resent, _ in self._counted.values())

    @property
    def stalls(self) -> int:
        """The number of connections that were closed because of a stall."""
        return sum(stalls for _, stalls in self._counted.values())

    def faults(self) -> dict[str, Any]:
        """Returns the problems by type of fault."""
        ledgers = [load.ledger for load in self.loads]
        names = ("HUB", "EDGE")
        found = self._wrong | {
            "lost": [number for ledger in ledgers for number in sorted(ledger.lost)],
            "doubled": [number for ledger in ledgers for number in ledger.doubled],
            "unexpected": [number for ledger in ledgers for number in ledger.unexpected],
            "let in": [one for guests in self.guests for one in guests.let_in],
            "shut out": [one for guests in self.guests for one in guests.shut_out],
            "damaged": [
                one for name in names for one in verify(self._directory / name).findings.kept
            ],
        }
        return {fault: of_it for fault, of_it in found.items() if of_it}

    async def run(self, kinds: Sequence[str]) -> None:
        """Causes faults of these *kinds* under load, heals, and waits until everything settles."""
        nodes = [self.hub, self.edge]
        for node in nodes:
            node.start()
        try:
            async with self._proxies[0], self._proxies[1]:
                await self._define(self.edge, self.hub, self._proxies[0], "FORTH", "BACK")
                await self._define(self.hub, self.edge, self._proxies[1], "BACK", "FORTH")
                async with asyncio.TaskGroup() as tasks:
                    for load in self.loads:
                        tasks.create_task(load.run())
                    for guests in self.guests:
                        tasks.create_task(guests.run())
                    await self._suffer(kinds)
                    for stopping in (one.stopping for one in self.loads):
                        stopping.set()
                    for stopping in (one.stopping for one in self.guests):
                        stopping.set()
                await self._settle()
        finally:
            for node in nodes:
                code = await asyncio.to_thread(node.stop)
                if code != 0:
                    self._wrong[f"{node.name} stopped"] = f"with {code}:\n{node.log_tail()}"

    async def _define(
        self, node: Node, peer: Node, proxy: Proxy, outgoing: str, incoming: str
    ) -> None:
        remote = f"{outgoing}@{peer.name}"
        users = [
            User(peer.name, ["peer"], queue_manager=peer.name),
            User(PRODUCER, grants=[(["put"], "queue", remote)]),
            User(CONSUMER, grants=[(["get"], "queue", incoming)]),
            User(MONITOR, ["monitor"]),
            *GUESTS,
        ]
        await self._security.create_users(node, users)
        async with node.connect("crash") as manager:
            for queue in (incoming, GUEST_QUEUE):
                await manager.admin.queue_create(queue)
            await manager.admin.link_allow(peer.name)
            await manager.admin.link_create(
                peer.name,
                [peer.dialled(proxy.address)],
                connections=CONNECTIONS,
                ordered=node is self.hub,
            )
            await manager.admin.queue_create(remote)

    async def _suffer(self, kinds: Sequence[str]) -> None:
        for cycle, kind in enumerate(kinds, 1):
            await self._look()
            if self._rng.random() < HEAL_PART:
                await self.harm.heal()
            await asyncio.sleep(self._rng.uniform(0.0, PAUSE_MAX_S))
            await self.harm.strike(kind)
            if cycle % 10 == 0:
                acknowledged = sum(len(load.ledger.acknowledged) for load in self.loads)
                consumed = sum(load.ledger.consumed for load in self.loads)
                print(
                    f"cycle {cycle} of {len(kinds)}: {acknowledged} acknowledged, "
                    f"{consumed} consumed",
                    flush=True,
                )
        await self._look()
        await self.harm.heal()

    async def _look(self) -> list[dict[str, Any]]:
        """Returns the row of each link when both daemons are up, and adds up its counters."""
        rows = []
        for node, peer in ((self.edge, self.hub), (self.hub, self.edge)):
            if not node.is_running():
                raise RuntimeError(f"{node.name} ended unexpectedly:\n{node.log_tail()}")
            async with node.connect("crash", MONITOR) as manager:
                row = await manager.admin.link_show(peer.name)
            stalls = sum(path["stalls"] for path in row["paths"])
            self._counted[node.name, node.starts] = (row["resent"], stalls)
            rows.append(dict(row))
        return rows

    async def _is_empty(self, source: Node, target: Node, queue: str) -> bool:
        async with source.connect("crash", MONITOR) as manager:
            if (await manager.admin.link_show(target.name))["waiting"]:
                return False
        async with target.connect("crash", MONITOR) as manager:
            depth: int = (await manager.admin.queue_show(queue))["depth"]
            return depth == 0

    async def _settle(self) -> None:
        """Waits until the links have settled, and records links that do not settle."""
        until = time.monotonic() + self._stall_max_s
        while odd := [row for row in await self._look() if not is_settled(row)]:
            if time.monotonic() > until:
                self._wrong["unsettled"] = odd
                return
            await asyncio.sleep(0.1)


def is_settled(row: dict[str, Any]) -> bool:
    """Returns whether a link has no messages to send, and is up with all its connections."""
    is_up = row["state"] == "up" and row["connections_up"] == row["connections"]
    return is_up and not row["waiting"] and not row["in_flight"]


def report(load: LinkLoad, cycles: int, seed: int, seconds: float) -> int:
    """Prints the results in one line, and each fault; returns the number of faults."""
    faults, ledgers = load.faults(), [load.ledger for load in load.loads]
    for fault, of_it in faults.items():
        print(f"link: {fault}: {str(of_it)[:2_000]}", file=sys.stderr)
    done = load.harm.done
    print(
        f"crash: link cycles={cycles} seed={seed} "
        f"acknowledged={sum(len(ledger.acknowledged) for ledger in ledgers)} "
        f"consumed={sum(ledger.consumed for ledger in ledgers)} "
        f"redelivered={sum(ledger.redelivered for ledger in ledgers)} "
        f"lost={len(faults.get('lost', ()))} doubled={len(faults.get('doubled', ()))} "
        f"unexpected={len(faults.get('unexpected', ()))} "
        f"damaged={len(faults.get('damaged', ()))} unsettled={len(faults.get('unsettled', ()))} "
        f"kills={done['kill']} stops={done['stop']} cuts={done['cut']} stalls={done['stall']} "
        f"slows={done['slow']} refusals={done['refuse']} "
        f"{counted(load.guests)} resent={load.resent} link_stalls={load.stalls} "
        f"seconds={seconds:.0f}"
    )
    return len(faults)
