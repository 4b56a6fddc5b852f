"""Attackers that send floods of requests of each operation, and many expensive requests."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import Fields
from tests.fuzz.hostile_maker import OPERATIONS
from tests.process.hostile.enemy import Enemy, Raid

FLOOD = 1_000
FILTERS = 1_024
LEVELS = 10
PUBLICATIONS = 200


async def flood(raid: Raid) -> None:
    """Sends a thousand requests of one operation in one write, with random and edge arguments."""
    while True:
        enemy = await raid.client("flood")
        kind = raid.rng.choice(OPERATIONS)
        raid.counts[f"flood of {kind.__name__}"] += 1
        if kind in (m.Put, m.UnitCommit):
            await _open_streams(raid, enemy)
        await enemy.say(*(raid.maker.message(kind) for _ in range(FLOOD)))
        await enemy.listen(1)
        raid.close()


async def _open_streams(raid: Raid, enemy: Enemy) -> None:
    stream, commit_id = (await enemy.ask(m.ProducerOpen, raid.rng.randbytes(16)))[:2]
    raid.maker.streams = {stream: commit_id + 1}


async def costly(raid: Raid) -> None:
    """Sends requests whose cost grows with the definitions: status, lists, topics, templates."""
    kinds: tuple[tuple[Any, ...], ...] = (
        (m.Status,),
        (m.QueueList, "", 1),
        (m.TopicSet, "h/a", {"republish": "manual"}),
        (m.TemplateSet, "H.*", {"depth_max": 1_000}),
        (m.SubscriptionList, "", 1),
        (m.TopicList, "", 1),
        (m.TemplateList,),
        (m.TopicShow, "h/a"),
    )
    while True:
        enemy = await raid.client("costly")
        kind, *fields = raid.rng.choice(kinds)
        raid.counts[f"flood of {kind.__name__}"] += 1
        await enemy.say(*(kind(enemy.id(), *fields) for _ in range(FLOOD)))
        await enemy.listen(3)
        raid.close()


async def wildcards(raid: Raid) -> None:
    """Subscribes to a thousand wildcard filters, and publishes to topics that match them all."""
    enemy = await raid.client("wildcards")
    await enemy.say(*(m.Subscribe(enemy.id(), _filter(number)) for number in range(FILTERS)))
    await enemy.listen(2)
    publisher = await raid.client("wildcards")
    stream = (await publisher.ask(m.ProducerOpen, raid.rng.randbytes(16)))[0]
    topic = "/h/" + "/".join("x" * LEVELS)
    body = record.encode(Fields(b"wild"))
    for first in range(1, 10_000, PUBLICATIONS):
        await publisher.say(
            *(
                m.Put(stream, number, 0, topic, [body])
                for number in range(first, first + PUBLICATIONS)
            )
        )
        await publisher.listen(1)
        await enemy.listen(1)


def _filter(number: int) -> str:
    """Returns a filter in which each level is "x" or "+", according to the bits of *number*.

    No topic has the last level, so the daemon looks the filters up but stores nothing.
    """
    levels = ("+" if number >> bit & 1 else "x" for bit in range(LEVELS))
    return "h/" + "/".join(levels) + "/none"


async def refused(raid: Raid) -> None:
    """Sends requests for missing objects, each of which is refused."""
    enemy = await raid.client("refused")
    while True:
        name = f"H.NONE.{raid.rng.randrange(10**6)}"
        requests = (m.QueueShow, m.QueueDelete, m.TemplateDelete, m.LinkShow)
        try:
            await enemy.ask(raid.rng.choice(requests), name)
        except RequestError:
            raid.counts["refused"] += 1
