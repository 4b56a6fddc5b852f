"""Attackers that make the daemon store data: rows, producers, units, queues, a full store."""

import asyncio
import contextlib
from random import Random
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import Fields
from tests.process.hostile.enemy import Enemy, Raid

BATCH = 200
UNITS = 60
UNIT_BYTES = 2 << 20
FILL_BYTES = 200_000


async def producers(raid: Raid) -> None:
    """Opens thousands of producers, each with a new id."""
    while True:
        enemy = await raid.client("producers")
        ids = (raid.rng.randbytes(16) for _ in range(BATCH))
        await enemy.say(*(m.ProducerOpen(enemy.id(), one) for one in ids))
        await enemy.listen(0.2)
        raid.close()


async def units(raid: Raid) -> None:
    """Keeps units of work open that contain data."""
    body = record.encode(Fields(bytes(UNIT_BYTES)))
    enemies = [await raid.client("units") for _ in range(3)]
    with contextlib.suppress(RequestError):
        await enemies[0].ask(m.QueueCreate, "H.UNITS")
    for unit in range(1, UNITS + 1):
        enemy = raid.rng.choice(enemies)
        await enemy.say(m.UnitBegin(enemy.id(), unit))
        await enemy.say(m.UnitPut(enemy.id(), unit, "H.UNITS", [body]))
    await asyncio.gather(*(enemy.listen(20) for enemy in enemies))


async def rows(raid: Raid) -> None:
    """Creates rows without puts: queues, topics, cursors, subscriptions, templates, producers."""
    enemy = await raid.client("rows")
    while True:
        await enemy.say(*(_row(raid.rng, enemy.id()) for _ in range(BATCH)))
        await enemy.listen(0.1)


def _row(rng: Random, request_id: int) -> Any:
    """Returns a request that creates a row under a long name that is not in use."""
    tag = f"{rng.randrange(10**9)}{'x' * 40}"
    topic = f"h/row/{tag}/{'x' * 100}"
    requests: tuple[Any, ...] = (
        *[m.QueueCreate(request_id, f"H.ROW.{tag}")] * 2,
        *[m.TopicSet(request_id, topic, {"republish": "manual"})] * 2,
        m.CursorCommit(request_id, f"H{tag}", 0),
        *[m.Subscribe(request_id, topic, f"H:{tag}")] * 2,
        m.TemplateSet(request_id, f"H.ROW.{tag}.*", {"depth_max": 1}),
        m.LinkCreate(request_id, f"L{tag[:5]}", {"addresses": ["127.0.0.1:1"]}),
        m.ProducerOpen(request_id, rng.randbytes(16)),
    )
    return rng.choice(requests)


async def fill(raid: Raid) -> None:
    """Puts messages until the store is full, and then continues to put."""
    enemy = await raid.client("fill")
    with contextlib.suppress(RequestError):
        await enemy.ask(m.QueueCreate, "H.FILL")
    stream = (await enemy.ask(m.ProducerOpen, raid.rng.randbytes(16)))[0]
    body = record.encode(Fields(bytes(FILL_BYTES)))
    for number in range(1, 100_000):
        await enemy.say(m.Put(stream, number, number - 1, "H.FILL", [body]))
        committed = await enemy.next(m.Committed)
        if committed.refused:
            raid.counts["store full"] += 1
            await asyncio.sleep(0.1)


async def define_many(enemy: Enemy, queues: int, topics: int, templates: int) -> None:
    """Defines the given numbers of queues, topics and templates."""
    wanted: list[Any] = [m.QueueCreate(0, f"H.MANY.{n}") for n in range(queues)]
    wanted += [m.TopicSet(0, f"h/many/{n}", {"republish": "manual"}) for n in range(topics)]
    wanted += [
        m.TemplateSet(0, f"H.TEMPLATE.{n}.*", {"depth_max": n + 1}) for n in range(templates)
    ]
    for first in range(0, len(wanted), BATCH):
        batch = [one._replace(request_id=enemy.id()) for one in wanted[first : first + BATCH]]
        await enemy.say(*batch)
        await enemy.next(m.Ok, m.Error, request_id=batch[-1][0])
