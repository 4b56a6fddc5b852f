"""Repeatedly cuts or stalls the connections of a proxy."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from qmgr_proxy.proxy import Proxy

MS = 1_000


@dataclass(frozen=True, slots=True)
class Outages:
    """Mean intervals and durations of outages in milliseconds. An interval of 0 means never.

    Each interval is 0.5 to 1.5 times the mean.
    """

    cut_every_ms: int = 0  # interval between cuts of all connections
    refuse_ms: int = 0  # time after a cut during which new connections are refused
    stall_every_ms: int = 0  # interval between stalls in both directions; connections stay open
    stall_ms: int = 0  # duration of a stall


async def run(
    proxy: Proxy, outages: Outages, seed: int, report: Callable[[str, int], None]
) -> None:
    """Causes *outages* until cancelled.

    Args:
        report: A function that is called with the name of each event and the number of connections.
    """
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
