"""Attackers that exploit the daemon's own actions: events, reports, dead letters, stamps."""

import contextlib
import time

from qmgr_protocol import messages as m
from qmgr_protocol import record
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import FLAG_REPORT_EXPIRY, REPLY_TO, Fields, Uid
from tests.process.hostile.enemy import Raid
from tests.process.hostile.good import QUEUES

SYSTEM_QUEUES = ("SYSTEM.EVENTS", "SYSTEM.DEAD.LETTERS", "SYSTEM.PUBLICATIONS")
EMPTY = 9_999
BATCH = 256
DAY_US = 86_400_000_000


async def system(raid: Raid) -> None:
    """Puts a member of a group on a system queue, then fills the queue with empty messages."""
    enemy = await raid.client("system")
    with contextlib.suppress(RequestError):
        await enemy.ask(m.QueueCreate, "H.1")
    stream = (await enemy.ask(m.ProducerOpen, raid.rng.randbytes(16)))[0]
    queue = raid.rng.choice((SYSTEM_QUEUES[0], *SYSTEM_QUEUES))
    member = record.encode(Fields(b"", group=(raid.rng.randbytes(24), 1, False)))
    empty, short = record.encode(Fields(b"")), record.encode(Fields(b"", expiry_ms=1))
    await enemy.say(m.Put(stream, 1, 0, queue, [member]))
    await enemy.next(m.Committed)
    number = 2
    while number < EMPTY + 2:
        batch = [empty] * min(BATCH, EMPTY + 2 - number)
        await enemy.say(m.Put(stream, number, number - 1, queue, batch))
        await enemy.next(m.Committed)
        number += len(batch)
    # Each of these puts causes an event message.
    await enemy.say(m.Put(stream, number, number - 1, "H.1", [short] * 10))
    await enemy.listen(2)
    raid.close()


async def reports(raid: Raid) -> None:
    """Puts messages that expire and then send reports to queues where the client never puts."""
    enemy = await raid.client("reports")
    with contextlib.suppress(RequestError):
        await enemy.ask(m.QueueCreate, "H.1")
    stream = (await enemy.ask(m.ProducerOpen, raid.rng.randbytes(16)))[0]
    for number in range(1, 10_000, 20):
        batch = [
            record.encode(
                Fields(
                    b"",
                    envelope={REPLY_TO: raid.rng.choice((*QUEUES, *SYSTEM_QUEUES, "/h/a"))},
                    expiry_ms=raid.rng.choice((1, 50, 300)),
                    flags=FLAG_REPORT_EXPIRY,
                )
            )
            for _ in range(20)
        ]
        await enemy.say(m.Put(stream, number, number - 1, "H.1", batch))
        await enemy.next(m.Committed)


async def stamps(raid: Raid) -> None:
    """Puts messages whose UIDs have the queue manager's own name and a time one day ahead."""
    enemy = await raid.client("stamps")
    with contextlib.suppress(RequestError):
        await enemy.ask(m.QueueCreate, "H.1")
    name = raid.rng.choice(("HOSTILE", "HOSTILE", "OTHER"))
    stream = (await enemy.ask(m.ProducerOpen, raid.rng.randbytes(16)))[0]
    for number in range(1, 1_000):
        ahead_us = raid.rng.choice((DAY_US, DAY_US - 10**7, DAY_US // 2))
        uid = Uid(name, time.time_ns() // 1_000 + ahead_us + number)
        await enemy.say(m.Put(stream, number, 0, "H.1", [record.encode(Fields(b"", uid=uid))]))
        await enemy.next(m.Committed)
