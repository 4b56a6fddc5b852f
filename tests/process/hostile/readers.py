"""Attackers that request large amounts of data and never read them."""

import asyncio
import contextlib

from qmgr_protocol import messages as m
from qmgr_protocol import record
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import Fields
from tests.process.hostile.enemy import Enemy, Raid

LARGE_BYTES = (4 << 20) - 1_000
LARGE = "H.LARGE"
DEAF = 24
BROWSES = 31
DEAF_S = 15


async def _put_large(raid: Raid, enemy: Enemy, count: int) -> None:
    with contextlib.suppress(RequestError):
        await enemy.ask(m.QueueCreate, LARGE, {"depth_max": 10})
    stream = (await enemy.ask(m.ProducerOpen, raid.rng.randbytes(16)))[0]
    body = record.encode(Fields(bytes(LARGE_BYTES)))
    for number in range(1, count + 1):
        await enemy.say(m.Put(stream, number, 0, LARGE, [body]))
        await enemy.next(m.Committed)


async def browsers(raid: Raid) -> None:
    """Repeatedly browses one message of 4 MB over many connections that do not read."""
    await _put_large(raid, await raid.client("browser"), 1)
    while True:
        enemies = [await raid.client("browser") for _ in range(DEAF)]
        for enemy in enemies:
            pages = (m.Browse(enemy.id(), LARGE, None, 1, 1 << 30) for _ in range(BROWSES))
            await enemy.say(*pages)
        await asyncio.gather(*(enemy.stay_deaf(DEAF_S) for enemy in enemies))
        raid.close()


async def consumers(raid: Raid) -> None:
    """Consumes messages of 4 MB with unlimited credit, and does not read them."""
    await _put_large(raid, await raid.client("consumer"), 5)
    while True:
        enemies = [await raid.client("consumer") for _ in range(DEAF)]
        for enemy in enemies:
            await enemy.say(
                m.Consume(enemy.id(), LARGE, 2**32 - 1, 2**62, 100),
                m.Get(enemy.id(), LARGE, 1_000, 60_000, 100, 2**62),
            )
        await asyncio.gather(*(enemy.stay_deaf(DEAF_S) for enemy in enemies))
        raid.close()
