"""Real daemons under load, killed at random: ``python -m tests.process.crash --cycles 100``.

    LOCAL   producers ──▶ EDGE ──▶ consumers
    AWAY    producers ──▶ EDGE ══link══▶ HUB ──▶ consumers
    units   on EDGE: pairs of messages from queue to queue, see unit_load.py
    groups  on EDGE: put over several units, got by pinned consumers, or read over several units, by
            applications that are killed as well and resume, see group_load.py

Each cycle kills one daemon or both with -9 at a random moment, in a start sometimes, and starts it
again. At the end the load stops, everything drains, and the ledger must balance: nothing that was
acknowledged is lost, nothing comes out twice unflagged, nothing comes out that nobody put; and the
stores must be sound. Prints one summary line; exits 1 on any fault, with the seed.
"""

import argparse
import asyncio
import random
import shutil
import sys
import time
from collections.abc import Awaitable
from functools import partial
from pathlib import Path

from qmgr_client.aio import QueueManager, connect
from qmgr_client.message import PutResult
from qmgr_protocol.errors import RequestError
from qmgr_tools.demo.cluster import Node
from qmgr_tools.demo.ledger import Ledger
from qmgrd.ops.verify import verify
from tests.process.group_load import GroupLoad
from tests.process.unit_ledger import UnitLedger
from tests.process.unit_load import UnitLoad

PUT_WINDOW = 200
WAIT_MS = 60_000
STALL_MAX_S = 60  # without a message, while some are still to come
BACKLOG_MAX = 50_000  # producers wait for consumers, or the drain takes longer than the kills
PRODUCERS = CONSUMERS = 2


class Load:
    """Producers and consumers of one queue, and its ledger."""

    def __init__(self, source: Node, target: Node, put_to: str, get_from: str, seed: int) -> None:
        self.ledger = Ledger()
        self.stopping = asyncio.Event()
        self.put_done = asyncio.Event()
        self._source, self._target = source, target
        self._put_to, self._get_from = put_to, get_from
        self._random = random.Random(seed)
        self._next = 0
        self._answered = 0

    async def run(self) -> None:
        """Put until told to stop, then consume until everything came out."""
        async with asyncio.TaskGroup() as tasks:
            consumers = [tasks.create_task(self._consume()) for _ in range(CONSUMERS)]
            async with asyncio.TaskGroup() as producers:
                for _ in range(PRODUCERS):
                    producers.create_task(self._produce())
            self.put_done.set()
            consumed, since = self.ledger.consumed, time.monotonic()
            while self.ledger.lost and time.monotonic() < since + STALL_MAX_S:
                await asyncio.sleep(0.5)  # What is lost takes long to tell, of a million.
                if self.ledger.consumed != consumed:
                    consumed, since = self.ledger.consumed, time.monotonic()
            for consumer in consumers:
                consumer.cancel()

    async def _produce(self) -> None:
        room = asyncio.Semaphore(PUT_WINDOW)

        def land(number: int, future: "asyncio.Future[PutResult]") -> None:
            room.release()
            self._answered += 1
            if future.exception() is None:
                self.ledger.note_put(number)
            else:
                self.ledger.refused += 1

        async with self._connect(self._source) as manager:
            while not self.stopping.is_set():
                await room.acquire()
                while len(self.ledger.acknowledged) > self.ledger.consumed + BACKLOG_MAX:
                    await asyncio.sleep(0.01)
                number, self._next = self._next, self._next + 1
                body = str(number).encode() + b"." * self._random.choice([0, 100, 1_000, 9_000])
                priority = self._random.randrange(10)
                future = await manager.submit(self._put_to, body, priority=priority)
                future.add_done_callback(partial(land, number))
                if number % 50 == 0:
                    await asyncio.sleep(0.002)
            for _ in range(PUT_WINDOW):
                await room.acquire()

    async def _consume(self) -> None:
        async with self._connect(self._target) as manager:
            async for message in manager.consume(self._get_from, prefetch=100, lease_ms=10_000):
                number = int(message.body.rstrip(b"."))
                flagged = message.redelivered != "no"
                self.ledger.note_delivery(
                    number, str(message.uid), flagged=flagged, known=number < self._next
                )
                if self._random.random() < 0.02:
                    await self._quietly(manager.release(message))
                else:
                    future = await manager.ack_soon(message)
                    future.add_done_callback(lambda done: done.exception())

    async def _quietly(self, settling: Awaitable[None]) -> None:
        try:
            await settling
        except RequestError:
            return  # The lease was lost to a kill: the message comes again.

    def _connect(self, node: Node) -> QueueManager:
        return connect(node.address, name="crash", wait_ms=WAIT_MS)


async def campaign(
    directory: Path, cycles: int, seed: int
) -> tuple[list[Load], UnitLedger, GroupLoad]:
    """Run the load through *cycles* of kills; return what it saw."""
    rng = random.Random(seed)
    hub, edge = Node("HUB", directory), Node("EDGE", directory)
    nodes = [hub, edge]
    for node in nodes:
        node.start()
    try:
        await _define(hub, edge)
        loads = [
            Load(edge, edge, "LOCAL", "LOCAL", rng.random().__hash__()),
            Load(edge, hub, "AWAY@HUB", "AWAY", rng.random().__hash__()),
        ]
        units = UnitLoad(edge.address, rng.random().__hash__())
        groups = GroupLoad(edge.address, rng.random().__hash__())
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(units.run())
            tasks.create_task(groups.run())
            for load in loads:
                tasks.create_task(load.run())
            for cycle in range(cycles):
                for node in nodes:
                    async with connect(node.address, name="crash", wait_ms=WAIT_MS):
                        pass  # It is up.
                await asyncio.sleep(rng.uniform(0.0, 0.6))
                await _kill(rng, nodes)
                if cycle % 10 == 9:
                    _show(cycle + 1, cycles, loads)
            units.stopping.set()
            groups.stopping.set()
            for load in loads:
                load.stopping.set()
        return loads, units.ledger, groups
    finally:
        for node in nodes:
            code = node.stop()
            if code != 0:
                print(f"{node.name} stopped with {code}:\n{node.log_tail()}", file=sys.stderr)


async def _kill(rng: random.Random, nodes: list[Node]) -> None:
    victims = rng.choices([nodes[:1], nodes[1:], nodes], [4, 4, 1])[0]
    for node in victims:
        await asyncio.to_thread(node.kill)
        node.start()
        if rng.random() < 0.1:  # Again, while it starts.
            await asyncio.sleep(rng.uniform(0.0, 0.5))
            await asyncio.to_thread(node.kill)
            node.start()


async def _define(hub: Node, edge: Node) -> None:
    async with connect(hub.address, name="crash", wait_ms=WAIT_MS) as manager:
        await manager.queue_create("AWAY")
    async with connect(edge.address, name="crash", wait_ms=WAIT_MS) as manager:
        await manager.queue_create("LOCAL")
        await manager.link_create("HUB", [hub.tcp])
        await manager.queue_create("AWAY@HUB")


def _show(cycle: int, cycles: int, loads: list[Load]) -> None:
    acknowledged = sum(len(load.ledger.acknowledged) for load in loads)
    consumed = sum(load.ledger.consumed for load in loads)
    print(
        f"cycle {cycle} of {cycles}: {acknowledged} acknowledged, {consumed} consumed", flush=True
    )


def main() -> int:
    """Run the campaign; return 0 if the ledgers balance."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=100)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--dir", type=Path, default=Path("build/crash"))
    options = parser.parse_args()
    if options.cycles < 1:
        parser.error("--cycles is to be positive: nothing would be tried")
    seed = random.randrange(2**32) if options.seed is None else options.seed
    shutil.rmtree(options.dir, ignore_errors=True)
    options.dir.mkdir(parents=True)
    began = time.monotonic()
    loads, units, groups = asyncio.run(campaign(options.dir.resolve(), options.cycles, seed))
    ledgers = [load.ledger for load in loads]
    lost = sum(len(ledger.lost) for ledger in ledgers)
    doubled = sum(len(ledger.doubled) for ledger in ledgers)
    unexpected = sum(len(ledger.unexpected) for ledger in ledgers)
    found = [one for name in ("HUB", "EDGE") for one in verify(options.dir / name).findings.kept]
    for one in found:
        print(one, file=sys.stderr)
    faults = {kind: tokens for kind, tokens in units.faults().items() if tokens}
    for kind, tokens in faults.items():
        print(f"units: {kind}: {tokens[:20]}", file=sys.stderr)
    torn = {kind: names for kind, names in groups.faults().items() if names}
    for kind, names in torn.items():
        print(f"groups: {kind}: {names[:20]}", file=sys.stderr)
    print(
        f"crash: cycles={options.cycles} seed={seed} "
        f"acknowledged={sum(len(ledger.acknowledged) for ledger in ledgers)} "
        f"consumed={sum(ledger.consumed for ledger in ledgers)} "
        f"redelivered={sum(ledger.redelivered for ledger in ledgers)} "
        f"lost={lost} doubled={doubled} unexpected={unexpected} damaged={len(found)} "
        f"units={len(units.committed)} units_lost={len(units.refused)} "
        f"units_unknown={len(units.unknown)} moved={units.moved} dead={len(units.dead)} "
        f"unit_faults={sum(map(len, faults.values()))} "
        f"groups={len(groups.lengths)} group_kills={groups.kills} "
        f"groups_resumed={groups.resumed} groups_read_on={groups.read_on} "
        f"group_faults={sum(map(len, torn.values()))} "
        f"seconds={time.monotonic() - began:.0f}"
    )
    return 1 if lost or doubled or unexpected or found or faults or torn else 0


if __name__ == "__main__":
    sys.exit(main())
