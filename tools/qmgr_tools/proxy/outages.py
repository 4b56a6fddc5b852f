"""Outages of a proxy: at random times it cuts its connections, or stalls."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from qmgr_tools.proxy.proxy import Proxy

MS = 1_000


@dataclass(frozen=True, slots=True)
class Outages:
    """Average times between outages, in milliseconds; 0: never. Each varies by half."""

    cut_every_ms: int = 0  # between cuts of all connections
    refuse_ms: int = 0  # for which connections are refused after a cut
    stall_every_ms: int = 0  # between stalls, which keep connections open
    stall_ms: int = 0


async def run(
    proxy: Proxy, outages: Outages, seed: int, report: Callable[[str, int], None]
) -> None:
    """Cause outages until cancelled; *report* receives each one and the number of connections."""
    async with asyncio.TaskGroup() as tasks:
        if outages.cut_every_ms:
            tasks.create_task(_cuts(proxy, outages, Random(f"{seed}/cut"), report))
        if outages.stall_every_ms:
            tasks.create_task(_stalls(proxy, outages, Random(f"{seed}/stall"), report))


async def _cuts(
    proxy: Proxy, outages: Outages, chance: Random, report: Callable[[str, int], None]
) -> None:
    while True:
        await _pause(outages.cut_every_ms, chance)
        report("cut", len(proxy.connections))
        proxy.cut()
        if outages.refuse_ms:
            proxy.refuse()
            await asyncio.sleep(outages.refuse_ms / MS)
            await proxy.accept()
            report("accepting again", len(proxy.connections))


async def _stalls(
    proxy: Proxy, outages: Outages, chance: Random, report: Callable[[str, int], None]
) -> None:
    while True:
        await _pause(outages.stall_every_ms, chance)
        report("stalled", len(proxy.connections))
        proxy.stall()
        await asyncio.sleep(outages.stall_ms / MS)
        proxy.resume()
        report("passing again", len(proxy.connections))


async def _pause(every_ms: int, chance: Random) -> None:
    await asyncio.sleep(every_ms * chance.uniform(0.5, 1.5) / MS)
