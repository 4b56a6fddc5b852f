"""Kills real daemons under load at random: ``python -m tests.process.crash --cycles 100``.

    LOCAL   producers ──▶ EDGE ──▶ consumers
    AWAY    producers ──▶ EDGE ══link with TLS══▶ HUB ──▶ consumers
    units   on EDGE: pairs of messages that move from queue to queue, see unit_load.py
    groups  on EDGE: put in several units, then got by pinned consumers or read in several units, by
            applications that are also killed and resume, see group_load.py
    history of LOCAL and AWAY: exported during the run, checked against the answers, see
            history_load.py
    topics  on EDGE: published, parked by one subscriber and republished to it, see topic_load.py
    guests  on EDGE and HUB: clients that try what they may not do, while their rights change, see
            guest_load.py

The link and all clients log in as users that have only the rights that they need.

Each cycle kills one daemon or both with -9 at a random moment, in some cases during a start, and
starts them again. At the end, the load stops, everything drains, and the ledger must balance: no
acknowledged message is lost, every duplicate is flagged, and no unknown message arrives. The stores
must be intact. The command prints one summary line. After any fault it exits with 1 and prints the
seed.

With ``--shared``, the daemons are three members of one queue manager, whose journal is on a
PostgreSQL server. The faults also concern this server, see shared.py. There are no links and no
guests. At the end, the log must have no gap, and the stores of all members must be equal.

With ``--link``, the daemons are linked in both directions over several connections, and the network
between them has faults, see link_load.py.
"""

import argparse
import asyncio
import random
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from qmgr_demo.cluster import Node
from qmgr_demo.security import Security, User
from qmgrd.verify.verify import verify
from tests.postgres import Postgres
from tests.process.group_load import USER as GROUPS
from tests.process.group_load import GroupLoad
from tests.process.guest_load import QUEUE as GUEST_QUEUE
from tests.process.guest_load import USERS as GUESTS
from tests.process.guest_load import GuestLoad, counted
from tests.process.history_load import USER as EXPORT
from tests.process.history_load import HistoryLoad
from tests.process.kill import kill_some
from tests.process.link_faults import drawn
from tests.process.link_load import LinkLoad, report
from tests.process.load import CONSUMER, PRODUCER, Load
from tests.process.shared import Shared
from tests.process.shared import drawn as drawn_shared
from tests.process.topic_load import USER as TOPICS
from tests.process.topic_load import TopicLoad
from tests.process.unit_load import USER as UNITS
from tests.process.unit_load import UnitLoad

UP_MAX_S = 60  # the time in which a member becomes active after a fault
MOVES_MAX_S = 5.0  # the time in which the load connects again
SHARED_BACKLOG_MAX = 5_000  # The drain would take long, because a record is slower than a flush.
Strike: TypeAlias = Callable[[str], Awaitable[None]]  # causes a fault of a kind


class Loads(NamedTuple):
    """All work of a campaign."""

    messages: list[Load]  # LOCAL and AWAY
    units: UnitLoad
    groups: GroupLoad
    topics: TopicLoad
    guests: list[GuestLoad]
    exports: list[HistoryLoad]  # of EDGE and HUB

    @property
    def working(self) -> "list[Load | UnitLoad | GroupLoad | TopicLoad | GuestLoad]":
        """All work except the exports, which end last."""
        return [*self.messages, self.units, self.groups, self.topics, *self.guests]

    def faults(self) -> dict[str, dict[str, Any]]:
        """Returns the problems other than those of messages, by the kind of work and of fault."""
        found: dict[str, dict[str, Any]] = {
            "units": self.units.ledger.faults(),
            "groups": self.groups.faults(),
            "topics": self.topics.faults(),
        }
        found |= {f"guests of {guests.node.name}": guests.faults() for guests in self.guests}
        for export, load in zip(self.exports, self.messages, strict=True):
            found[export.name] = export.faults(load)
        return found


async def campaign(directory: Path, cycles: int, seed: int) -> Loads:
    """Runs the load during *cycles* of kills; returns the results."""
    rng = random.Random(seed)
    hub, edge = Node("HUB", directory), Node("EDGE", directory)
    nodes = [hub, edge]
    security = Security(directory / "secrets")
    security.protect(hub)
    security.protect(edge, logins={hub.name: edge.name})
    for node in nodes:
        node.start()
    try:
        await _define(security, hub, edge)
        seeds = iter(partial(rng.randrange, 2**32), -1)
        loads = Loads(
            [
                Load(edge, edge, "LOCAL", "LOCAL", next(seeds)),
                Load(edge, hub, "AWAY@HUB", "AWAY", next(seeds)),
            ],
            UnitLoad(edge.address, next(seeds), login=edge.login(UNITS.name)),
            GroupLoad(edge.address, next(seeds), login=edge.login(GROUPS.name)),
            TopicLoad(edge.address, next(seeds), login=edge.login(TOPICS.name)),
            [
                GuestLoad(edge, ["LOCAL", "AWAY@HUB", "IN"], next(seeds)),
                GuestLoad(hub, ["AWAY"], next(seeds)),
            ],
            [HistoryLoad(node, next(seeds)) for node in (edge, hub)],
        )
        async with asyncio.TaskGroup() as tasks:
            for export in loads.exports:
                tasks.create_task(export.run())
            await asyncio.sleep(0)
            await _live(rng, nodes, cycles, loads)
            for export in loads.exports:
                export.stopping.set()
        return loads
    finally:
        for node in nodes:
            code = node.stop()
            if code != 0:
                print(f"{node.name} stopped with {code}:\n{node.log_tail()}", file=sys.stderr)


async def _live(rng: random.Random, nodes: list[Node], cycles: int, loads: Loads) -> None:
    """Kills daemons under load, then drains everything."""
    async with asyncio.TaskGroup() as tasks:
        for work in loads.working:
            tasks.create_task(work.run())
        for cycle in range(cycles):
            for node in nodes:
                async with node.connect("crash"):
                    pass  # The daemon is up.
            await asyncio.sleep(rng.uniform(0.0, 0.6))
            await kill_some(rng, nodes)
            if cycle % 10 == 9:
                _show(cycle + 1, cycles, loads.messages)
        for work in loads.working:
            work.stopping.set()


async def _define(security: Security, hub: Node, edge: Node) -> None:
    consumer = (["get"], "queue", "AWAY")
    at_hub = [User(edge.name, ["peer"], queue_manager=edge.name), User(CONSUMER, grants=[consumer])]
    at_edge = [
        User(PRODUCER, grants=[(["put"], "queue", queue) for queue in ("LOCAL", "AWAY@HUB")]),
        User(CONSUMER, grants=[(["get"], "queue", "LOCAL")]),
        UNITS,
        GROUPS,
        TOPICS,
    ]
    for node, users in ((hub, at_hub), (edge, at_edge)):
        await security.create_users(node, [*users, EXPORT, *GUESTS])
    async with hub.connect("crash") as manager:
        for queue in ("AWAY", GUEST_QUEUE):
            await manager.admin.queue_create(queue, accounting="on")
        await manager.admin.link_allow(edge.name)
    async with edge.connect("crash") as manager:
        for queue in ("LOCAL", GUEST_QUEUE):
            await manager.admin.queue_create(queue, accounting="on")
        await manager.admin.link_create("HUB", [edge.dialled(hub.tcp)])
        await manager.admin.queue_create("AWAY@HUB")


def _show(cycle: int, cycles: int, loads: list[Load]) -> None:
    acknowledged = sum(len(load.ledger.acknowledged) for load in loads)
    consumed = sum(load.ledger.consumed for load in loads)
    print(
        f"cycle {cycle} of {cycles}: {acknowledged} acknowledged, {consumed} consumed", flush=True
    )


def main() -> int:
    """Runs the campaign; returns 0 if the ledgers balance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--dir", type=Path, default=Path("build/crash"))
    parser.add_argument(
        "--link", action="store_true", help="test links in both directions over a faulty network"
    )
    parser.add_argument("--shared", action="store_true", help="test members that share a journal")
    parser.add_argument("--broken", default="", help="the bug of the members: see member.py")
    options = parser.parse_args()
    if options.cycles < 1:
        parser.error("--cycles must be positive")
    seed = random.randrange(2**32) if options.seed is None else options.seed
    print(f"seed={seed}", flush=True)
    shutil.rmtree(options.dir, ignore_errors=True)
    options.dir.mkdir(parents=True)
    run = linked if options.link else unlinked
    if options.shared:
        run = partial(shared, broken=options.broken)
    try:
        return run(options.dir.resolve(), options.cycles, seed)
    except Exception:
        print(f"crash: failed during the run, seed={seed}", file=sys.stderr)
        raise


def linked(directory: Path, cycles: int, seed: int) -> int:
    """Runs the campaign of links; returns 0 if there are no faults."""
    began, load = time.monotonic(), LinkLoad(directory, seed)
    asyncio.run(load.run(drawn(random.Random(seed), cycles)))
    return 1 if report(load, cycles, seed, time.monotonic() - began) else 0


def unlinked(directory: Path, cycles: int, seed: int) -> int:
    """Runs the campaign of one link and all other loads; returns 0 if the ledgers balance."""
    began = time.monotonic()
    loads = asyncio.run(campaign(directory, cycles, seed))
    found = [str(one) for name in ("HUB", "EDGE") for one in verify(directory / name).findings.kept]
    return judged(loads, found, f"crash: cycles={cycles} seed={seed}", began)


def shared(directory: Path, cycles: int, seed: int, broken: str = "") -> int:
    """Runs the campaign of three members on one server; returns 0 if the ledgers balance."""
    manager = Shared(directory, Postgres(fsync=True), seed, broken)
    plan = drawn_shared(random.Random(seed), cycles)
    return endured(manager, plan, manager.strike, f"crash: shared cycles={cycles} seed={seed}")


def endured(manager: Shared, plan: Sequence[str], strike: Strike, summary: str) -> int:
    """Causes the faults of *plan* under load, and closes *manager*.

    Prints the faults and a line that begins with *summary*; returns 0 if there are no faults.
    """
    began = time.monotonic()
    try:
        loads = asyncio.run(shared_campaign(manager, plan, strike))
        found = manager.faults + manager.store_faults()
        return judged(loads, found, f"{summary} {manager.counted()}", began)
    except Exception:
        print("\n".join(manager.faults), file=sys.stderr)
        raise
    finally:
        manager.close()


async def shared_campaign(manager: Shared, plan: Sequence[str], strike: Strike) -> Loads:
    """Runs the load during the faults of *plan*; returns the results."""
    rng = random.Random(manager.seed)
    manager.start()
    async with manager.connect("crash") as client:
        await client.admin.queue_create("LOCAL", accounting="on")
    seeds = iter(partial(rng.randrange, 2**32), -1)
    loads = Loads(
        [Load(manager, manager, "LOCAL", "LOCAL", next(seeds), backlog_max=SHARED_BACKLOG_MAX)],
        UnitLoad(manager.address, next(seeds)),
        GroupLoad(manager.address, next(seeds)),
        TopicLoad(manager.address, next(seeds)),
        [],
        [HistoryLoad(manager, next(seeds))],
    )
    async with asyncio.TaskGroup() as tasks:
        (export,) = loads.exports
        tasks.create_task(export.run())
        await _strike_all(rng, manager, plan, strike, loads)
        export.stopping.set()
    await asyncio.to_thread(manager.stop)
    return loads


async def _strike_all(
    rng: random.Random, manager: Shared, plan: Sequence[str], strike: Strike, loads: Loads
) -> None:
    """Causes the faults of *plan* under load, then drains everything."""
    async with asyncio.TaskGroup() as tasks:
        for work in loads.working:
            tasks.create_task(work.run())
        for cycle, kind in enumerate(plan, 1):
            await asyncio.to_thread(manager.look)
            if manager.faults:
                break  # Later faults would only follow from these.
            async with asyncio.timeout(UP_MAX_S), manager.connect("crash"):
                pass  # A member is active.
            if rng.random() < 0.7:
                await _moves(loads.messages[0])
            await asyncio.sleep(rng.uniform(0.0, 1.5))
            print(f"cycle {cycle}: {kind}", flush=True)
            await strike(kind)
            if cycle % 10 == 0:
                _show(cycle, len(plan), loads.messages)
        for work in loads.working:
            work.stopping.set()


async def _moves(load: Load) -> None:
    """Waits until *load* is connected again, at most MOVES_MAX_S."""
    before, end_s = len(load.ledger.acknowledged), time.monotonic() + MOVES_MAX_S
    while len(load.ledger.acknowledged) == before and time.monotonic() < end_s:
        await asyncio.sleep(0.02)


def judged(loads: Loads, found: Sequence[str], summary: str, began: float) -> int:
    """Prints the faults and a line that begins with *summary*; returns 0 if there are no faults.

    Args:
        found: The faults of stores and processes.
        began: The time of the start, in seconds.
    """
    units, groups, topics = loads.units.ledger, loads.groups, loads.topics
    ledgers = [load.ledger for load in loads.messages]
    lost = len(topics.lost) + sum(len(ledger.lost) for ledger in ledgers)
    doubled = len(topics.doubled) + sum(len(ledger.doubled) for ledger in ledgers)
    unexpected = sum(len(ledger.unexpected) for ledger in ledgers)
    for one in found:
        print(one, file=sys.stderr)
    faults = {
        what: {kind: some for kind, some in found_there.items() if some}
        for what, found_there in loads.faults().items()
    }
    for what, kinds in faults.items():
        for kind, some in kinds.items():
            print(f"{what}: {kind}: {list(some)[:20]}", file=sys.stderr)
    count = {what: sum(map(len, kinds.values())) for what, kinds in faults.items()}
    print(
        f"{summary} "
        f"acknowledged={sum(len(ledger.acknowledged) for ledger in ledgers)} "
        f"consumed={sum(ledger.consumed for ledger in ledgers)} "
        f"redelivered={sum(ledger.redelivered for ledger in ledgers)} "
        f"lost={lost} doubled={doubled} unexpected={unexpected} damaged={len(found)} "
        f"units={len(units.committed)} units_lost={len(units.refused)} "
        f"units_unknown={len(units.unknown)} moved={units.moved} dead={len(units.dead)} "
        f"unit_faults={count['units']} "
        f"groups={len(groups.lengths)} group_kills={groups.kills} "
        f"groups_resumed={groups.resumed} groups_read_on={groups.read_on} "
        f"group_faults={count['groups']} "
        f"published={len(topics.acknowledged)} delivered={topics.delivered} "
        f"parked={len(topics.parked)} republished={len(topics.republished)} "
        f"topic_faults={count['topics']} "
        f"history_rows={sum(len(x.rows) for x in loads.exports)} "
        f"history_faults={sum(count[x.name] for x in loads.exports)} "
        f"{counted(loads.guests)} "
        f"seconds={time.monotonic() - began:.0f}"
    )
    return 1 if lost or doubled or unexpected or found or any(count.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
