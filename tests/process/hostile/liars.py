"""Attackers that claim to be a peer queue manager, and use requests that only links may send."""

from qmgr_protocol import messages as m
from qmgr_protocol import record
from qmgr_protocol.record import Fields
from tests.process.hostile.enemy import Enemy, Raid

CLAIMS = ("NYC", "EWR", "HOSTILE", "LIAR")
STREAMS = 50


async def liar(raid: Raid) -> None:
    """Poses as a queue manager: opens streams, fetches, and commits ids that it never received."""
    rng = raid.rng
    while True:
        enemy = await raid.connect()
        store_id = rng.choice((b"S" * 16, rng.randbytes(16)))
        name = rng.choice(CLAIMS)
        await enemy.say(m.Hello(m.MAGIC, 1, 1, "queue-manager", name, [], store_id))
        await enemy.next(m.Welcome)
        await _lie(raid, enemy, store_id)
        await enemy.listen(0.3)
        raid.close()


async def _lie(raid: Raid, enemy: Enemy, store_id: bytes) -> None:
    rng = raid.rng
    pick = rng.random()
    if pick < 0.3:
        for _ in range(STREAMS):
            stream_id = store_id + rng.randbytes(8)
            await enemy.say(m.LinkOpen(enemy.id(), stream_id, 1, rng.choice((1, 2**40)), b"", 0))
    elif pick < 0.6:
        frame, message = 8 << 20, 4 << 20
        await enemy.say(m.LinkFetch(enemy.id(), rng.randrange(4), frame, message, 4_096, 16 << 20))
        await enemy.say(*(m.Committed(stream, 2**40) for stream in range(1, 20)))
    elif pick < 0.8:
        body = record.encode(Fields(b"lie"))
        stream_id = store_id + rng.randbytes(8)
        await enemy.say(m.LinkOpen(enemy.id(), stream_id, 1, 1))
        await enemy.say(m.Put(1, 1, 0, rng.choice(("H.1", "H.NONE", "SYSTEM.EVENTS")), [body]))
    else:
        kinds = (m.Committed, m.Blocked, m.Ok, m.Error, m.CommitAsk, m.LinkOpen, m.LinkFetch)
        await enemy.say(*(raid.maker.message(rng.choice(kinds)) for _ in range(20)))
