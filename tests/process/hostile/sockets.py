"""Attackers that use only connections: silent, slow, short-lived and dead ones."""

import asyncio
import contextlib

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.frame import encode
from tests.fuzz.hostile_maker import OPERATIONS
from tests.process.hostile.enemy import Raid

MUTE = 2_100  # number of sockets above listen.connections_max
DRIP_S = 0.5


async def mute(raid: Raid) -> None:
    """Opens more sockets than the daemon allows, and sends nothing on any of them."""
    for _ in range(MUTE):
        await raid.pace.spend(1, 0)
        with contextlib.suppress(OSError):
            await raid.connect()
    await asyncio.sleep(30)


async def slow(raid: Raid) -> None:
    """Sends hello one byte at a time, on many connections."""
    hello = encode(layout.to_array(m.Hello(m.MAGIC, 1, 1, "client", "slow" * 20)))
    enemies = [await raid.connect() for _ in range(100)]
    for at in range(len(hello)):
        for enemy in enemies:
            with contextlib.suppress(OSError):
                await enemy.write(hello[at : at + 1], 0)
        await asyncio.sleep(DRIP_S)


async def storm(raid: Raid) -> None:
    """Connects and disconnects, sometimes in the middle of the handshake."""
    while True:
        enemy = await raid.connect(unix=raid.rng.random() < 0.3)
        if raid.rng.random() < 0.7:
            await enemy.say(m.Hello(m.MAGIC, 1, 1, "client", "storm"))
        if raid.rng.random() < 0.3:
            await enemy.next(m.Welcome)
        raid.close()


async def dead(raid: Raid) -> None:
    """Sends a window of requests and closes immediately, so that no peer receives the replies."""
    while True:
        enemy = await raid.client("dead")
        kind = raid.rng.choice(OPERATIONS)
        count = raid.rng.choice((1, 100, 1_000))
        await enemy.say(*(raid.maker.message(kind) for _ in range(count)))
        enemy.abort()
        raid.enemies.clear()
        await asyncio.sleep(0.2)
