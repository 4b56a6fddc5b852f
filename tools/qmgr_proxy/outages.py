"""Repeated trouble of a proxy: it cuts its connections, or stalls them."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from qmgr_proxy.proxy import Proxy

MS = 1_000


@dataclass(frozen=True, slots=True)
class Outages:
    """The periods of trouble in milliseconds; 0 is never. Pauses are 0.5 to 1.5 times as long."""

    cut_every_ms: int = 0  # All connections are cut.
    refuse_ms: int = 0  # New connections are refused for this time after a cut.
    stall_every_ms: int = 0  # Nothing passes in either direction; connections stay open.
    stall_ms: int = 0


async def run(proxy: Proxy, outages: Outages, seed: int, tell: Callable[[str, int], None]) -> None:
    """Makes trouble until cancelled; *tell* is called with each event and its number of
    connections.
    """
    async with asyncio.TaskGroup() as tasks:
        if outages.cut_every_ms:
            tasks.create_task(_cuts(proxy, outages, Random(f"{seed}/cut"), tell))
        if outages.stall_every_ms:
            tasks.create_task(_stalls(proxy, outages, Random(f"{seed}/stall"), tell))


async def _cuts(
    proxy: Proxy, outages: Outages, chance: Random, tell: Callable[[str, int], None]
) -> None:
    while True:
        await _pause(outages.cut_every_ms, chance)
        tell("cut", len(proxy.connections))
        proxy.cut()
        if outages.refuse_ms:
            proxy.refuse()
            await asyncio.sleep(outages.refuse_ms / MS)
            await proxy.accept()
            tell("accepting again", len(proxy.connections))


async def _stalls(
    proxy: Proxy, outages: Outages, chance: Random, tell: Callable[[str, int], None]
) -> None:
    while True:
        await _pause(outages.stall_every_ms, chance)
        tell("stalled", len(proxy.connections))
        proxy.stall()
        await asyncio.sleep(outages.stall_ms / MS)
        proxy.resume()
        tell("passing again", len(proxy.connections))


async def _pause(every_ms: int, chance: Random) -> None:
    await asyncio.sleep(every_ms * chance.uniform(0.5, 1.5) / MS)
