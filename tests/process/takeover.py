"""Measures takeovers with a large backlog: python -m tests.process.takeover.

Two members share a journal. Each cycle ends the active member, with -9 or by a switch-over, and
measures the time until a put of a client that knows both is answered. Prints a summary line.
"""

import argparse
import asyncio
import shutil
import statistics
import sys
import time
from pathlib import Path

from qmgr_client.aio import QueueManager, connect
from qmgr_demo.cluster import WAIT_MS, Node
from tests.postgres import Postgres

NAME = "LARGE"
BATCH = 1_000
PRODUCERS = 4
BODY = bytes(256)
POLL_S = 0.05


class Members:
    """Two members, with the addresses of both."""

    def __init__(self, directory: Path, url: str, map_bytes: int) -> None:
        self.nodes = [
            Node(
                NAME,
                directory / f"m{number}",
                {
                    "QMGRD_JOURNAL__URL": url,
                    "QMGRD_JOURNAL__MEMBER": f"m{number}",
                    "QMGRD_STORE__MAP_BYTES": str(map_bytes),
                },
            )
            for number in range(2)
        ]
        self.address = ",".join(node.tcp for node in self.nodes)

    def client(self, name: str) -> QueueManager:
        """Returns a client that has the addresses of both members."""
        return connect(self.address, name=name, wait_ms=WAIT_MS)

    async def active(self, qm: QueueManager) -> Node:
        """Returns the active member, once the other one has all records."""
        while True:
            journal = (await qm.admin.status())["journal"]
            others = [row for row in journal.get("members", []) if row["role"] == "standby"]
            if any(row["behind"] < BATCH and row["seen_ms"] < 3_000 for row in others):
                return self.nodes[int(journal["member"][1:])]
            await asyncio.sleep(POLL_S)


async def fill(members: Members, messages: int) -> float:
    """Puts the backlog. Returns the time in seconds."""

    async def produce(number: int) -> None:
        async with members.client(f"fill-{number}") as qm:
            for _ in range(messages // PRODUCERS // BATCH):
                await qm.put_many("Q", [BODY] * BATCH)

    async with members.client("operator") as qm:
        await qm.admin.queue_create("Q", depth_max=2 * messages + BATCH)
    start_s = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number in range(PRODUCERS):
            tasks.create_task(produce(number))
    return time.monotonic() - start_s


async def take_over(members: Members, qm: QueueManager, *, is_orderly: bool) -> float:
    """Ends the active member. Returns the time until the next put is answered, in seconds."""
    node = await members.active(qm)
    start_s = time.monotonic()
    if is_orderly:
        await qm.admin.switch_over()
    else:
        node.kill()
    await qm.put("Q", BODY)
    taken_s = time.monotonic() - start_s
    if not is_orderly:
        node.start()
    return taken_s


async def measured(members: Members, messages: int, cycles: int) -> str:
    """Runs the cycles. Returns the summary."""
    filled_s = await fill(members, messages)
    lines = [f"takeover: messages={messages} filled_s={filled_s:.0f}"]
    async with members.client("probe") as qm:
        for name, count in (("killed", cycles), ("orderly", max(cycles // 5, 1))):
            taken = []
            for cycle in range(count):
                taken.append(await take_over(members, qm, is_orderly=name == "orderly"))
                print(f"{name} {cycle + 1}: {taken[-1]:.2f} s", file=sys.stderr, flush=True)
            lines.append(
                f"{name}_p50_s={statistics.median(taken):.2f} {name}_max_s={max(taken):.2f}"
            )
        depth = (await qm.admin.queue_show("Q"))["ready"]
    lines.append(f"depth={depth} wanted={messages // PRODUCERS // BATCH * PRODUCERS * BATCH}+puts")
    return " ".join(lines)


def main() -> int:
    """Runs the measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--dir", type=Path, default=Path("build/takeover"))
    options = parser.parse_args()
    shutil.rmtree(options.dir, ignore_errors=True)
    directory = options.dir.resolve()
    with Postgres(fsync=True) as server:
        members = Members(
            directory, server.create_database(), max(options.messages * 2_000, 1 << 30)
        )
        for node in members.nodes:
            node.start()
        try:
            print(asyncio.run(measured(members, options.messages, options.cycles)))
        finally:
            for node in members.nodes:
                node.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
