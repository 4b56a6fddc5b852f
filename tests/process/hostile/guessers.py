"""Attackers that settle messages leased by others, with guessed handles."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record
from qmgr_protocol.record import Fields
from tests.fuzz.hostile_maker import forged
from tests.process.hostile.enemy import Enemy, Raid
from tests.process.hostile.good import QUEUES

GUESSES = 2_000
LEASED = 50
ACTIONS = (m.ACK, m.ACK, m.RELEASE, m.RETURN, m.UNREAD, m.REJECT, m.RENEW)


async def guess(raid: Raid) -> None:
    """Guesses handles of the good clients, based on a browse of their queues."""
    enemy = await raid.client("guesser")
    while True:
        queue = raid.rng.choice(QUEUES)
        queue_id = (await enemy.ask(m.Consume, queue, 0, 0))[0]
        for _ in range(20):
            page = await enemy.ask(m.Browse, queue, None, 20, 1 << 16)
            await _settle(raid, enemy, queue_id, page["items"], GUESSES // 20)


async def rob(raid: Raid) -> None:
    """Guesses handles of a second client of the attacker; counts the leases lost by that client."""
    queue = f"H.ROBBED.{raid.rng.randrange(10**9)}"
    victim, thief = await raid.client("victim"), await raid.client("thief")
    await victim.ask(m.QueueCreate, queue)
    stream = (await victim.ask(m.ProducerOpen, raid.rng.randbytes(16)))[0]
    bodies = [record.encode(Fields(b"%d" % number)) for number in range(2 * LEASED)]
    await victim.say(m.Put(stream, 1, 0, queue, bodies))
    await victim.next(m.Committed)
    await victim.say(m.Get(victim.id(), queue, LEASED, 0, m.LEASE_MAX_MS, 1 << 20))
    leased: Any = await victim.next(m.Deliver)
    await thief.say(m.Get(thief.id(), queue, 1, 0, m.LEASE_MAX_MS, 1 << 20))
    own: Any = await thief.next(m.Deliver)  # The handles of this delivery serve as the pattern.
    for _ in range(10):
        page = await thief.ask(m.Browse, queue, None, 2 * LEASED, 1 << 20)
        items = [item for item in page["items"] if not _is_same(item, own.items[0])]
        await _settle(raid, thief, leased.queue_id, items, GUESSES, own.items[0])
        await _settle(raid, thief, leased.queue_id, leased.items, LEASED)
        row = await victim.ask(m.QueueShow, queue)
        lost = max(2 * LEASED - row["depth"], LEASED + 1 - row["leased"])
        if lost:
            raid.counts["stolen"] += lost
            break
    await victim.ask(m.QueueDelete, queue, True)
    raid.close()


def _is_same(item: bytes, other: bytes) -> bool:
    """Returns whether two items are the same message, which means they have the same position."""
    return m.HANDLE.unpack_from(item)[:2] == m.HANDLE.unpack_from(other)[:2]


async def _settle(
    raid: Raid, enemy: Enemy, queue_id: int, items: list[bytes], count: int, own: bytes = b""
) -> None:
    """Settles messages with *count* guessed handles, and with known handles."""
    if not items:
        return
    rng = raid.rng
    shown = [item[: m.HANDLE.size] for item in items]
    guesses = [forged(rng, rng.choice(items), own[: m.HANDLE.size]) for _ in range(count)]
    raid.counts["guesses"] += len(shown) + len(guesses)
    handles = b"".join(shown + guesses)
    await enemy.say(m.Settle(enemy.id(), rng.choice(ACTIONS), queue_id, handles))
    await enemy.next(m.Settled, m.Error)
