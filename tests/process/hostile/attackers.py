"""The attackers' process: ``python -m tests.process.hostile.attackers``, with orders on stdin.

    {"tcp": "127.0.0.1:7470", "unix": "unix:/...", "seed": "7/3", "kinds": [...], "seconds": 6}
        {"counts": {"mute": {"connections": 2100, ...}, ...}}
    {"tcp": ..., "unix": ..., "define": [10000, 3000, 1000]}
        {"counts": {}}

The process lowers its own priority, so that it never takes the processor from the daemon and the
good clients.
"""

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from qmgr_client.errors import ConnectFailed
from qmgr_protocol.errors import RequestError
from tests.process.hostile import (
    deputies,
    floods,
    frames,
    guessers,
    hoarders,
    liars,
    readers,
    sockets,
    strangers,
)
from tests.process.hostile.enemy import Pace, Raid

NICE = 19
PAUSE_S = 0.2
DEFINED_PER_S = 10**9  # no limit here, because definitions are not an attack
KINDS: dict[str, Callable[[Raid], Awaitable[None]]] = {
    "mute": sockets.mute,
    "slow": sockets.slow,
    "storm": sockets.storm,
    "dead": sockets.dead,
    "half": frames.half,
    "malformed": frames.malformed,
    "flood": floods.flood,
    "costly": floods.costly,
    "wildcards": floods.wildcards,
    "refused": floods.refused,
    "browsers": readers.browsers,
    "consumers": readers.consumers,
    "guess": guessers.guess,
    "rob": guessers.rob,
    "liar": liars.liar,
    "system": deputies.system,
    "reports": deputies.reports,
    "stamps": deputies.stamps,
    "producers": hoarders.producers,
    "units": hoarders.units,
    "rows": hoarders.rows,
    "fill": hoarders.fill,
}
# Kinds of the act "secured". All other kinds need a daemon without users.
SECURED: dict[str, Callable[[Raid], Awaitable[None]]] = {
    "half_handshake": strangers.half_handshake,
    "garbage": strangers.garbage,
    "no_data": strangers.no_data,
    "rekey": strangers.rekey,
    "renegotiate": strangers.renegotiate,
    "guess_passwords": strangers.guess_passwords,
    "use_up": strangers.use_up,
}


async def attack(order: dict[str, Any], pace: Pace) -> dict[str, dict[str, int]]:
    """Runs the attacks of an order at the same time; returns the results of each."""
    raids = {
        kind: Raid(
            order["tcp"],
            order["unix"],
            f"{order['seed']}/{kind}",
            pace,
            order.get("ca", ""),
            order.get("passwords", ""),
        )
        for kind in order["kinds"]
    }
    until_s = time.monotonic() + order["seconds"]
    async with asyncio.TaskGroup() as tasks:
        for kind, raid in raids.items():
            tasks.create_task(_go_on(kind, raid, until_s))
    return {kind: dict(raid.counts) for kind, raid in raids.items()}


async def _go_on(kind: str, raid: Raid, until_s: float) -> None:
    """Repeats an attack until the time is up, regardless of the daemon's reaction."""
    while (left_s := until_s - time.monotonic()) > 0:
        try:
            async with asyncio.timeout(left_s):
                await (KINDS | SECURED)[kind](raid)
        except (OSError, EOFError, TimeoutError, RequestError, ConnectFailed):
            raid.counts["cut off"] += time.monotonic() < until_s
        raid.close()
        await asyncio.sleep(PAUSE_S)


async def define(order: dict[str, Any], _: Pace) -> dict[str, dict[str, int]]:
    """Defines as many queues, topics and templates as an order requests."""
    raid = Raid(order["tcp"], order["unix"], "define", Pace(DEFINED_PER_S))
    enemy = await raid.client("define")
    await hoarders.define_many(enemy, *order["define"])
    raid.close()
    return {}


def main() -> None:
    """Executes orders until the input ends."""
    os.nice(NICE)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    pace = Pace()
    for line in sys.stdin:
        order = json.loads(line)
        follow = define if "define" in order else attack
        print(json.dumps({"counts": asyncio.run(follow(order, pace))}), flush=True)


if __name__ == "__main__":
    main()
