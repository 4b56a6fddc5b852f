"""Attackers that send partial, damaged, oversized and deeply nested frames."""

import asyncio

from qmgr_protocol import messages as m
from qmgr_protocol.frame import LENGTH
from tests.fuzz.frames import deep_frame
from tests.process.hostile.enemy import FRAME_MAX_BYTES, Raid

HALF_BYTES = 2 << 20
HALVES = 30


async def half(raid: Raid) -> None:
    """Announces large frames, sends part of each, and waits."""
    for _ in range(HALVES):
        enemy = await raid.client("half")
        await enemy.write(LENGTH.pack(FRAME_MAX_BYTES) + b"\x96" + bytes(HALF_BYTES))
    await asyncio.gather(*(enemy.stay_deaf(20) for enemy in raid.enemies))


async def malformed(raid: Raid) -> None:
    """Sends altered, damaged, nested or oversized frames, before and after a hello."""
    rng, maker = raid.rng, raid.maker
    while True:
        enemy = await (raid.client("malformed") if rng.random() < 0.7 else raid.connect())
        pick = rng.random()
        if pick < 0.1:
            await enemy.write(LENGTH.pack(rng.choice((FRAME_MAX_BYTES + 1, 2**32 - 1))) + b"x")
        elif pick < 0.2:
            await enemy.write(deep_frame([rng.choice((21, 40, 61, 99)), 1, "H.1"], 1_000))
        else:
            for _ in range(rng.choice((1, 5, 50))):
                for chunk in maker.chunks(maker.damaged(maker.request())):
                    await enemy.write(chunk)
        if rng.random() < 0.2:
            await enemy.say(m.Hello(m.MAGIC, 1, 1, "client", "twice"))
        await enemy.listen(0.1)
        raid.close()
