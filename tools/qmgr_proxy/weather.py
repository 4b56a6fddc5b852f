"""The bad days of a proxy: from time to time it cuts its connections, or nothing passes."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from qmgr_proxy.proxy import Proxy

MS = 1_000


@dataclass(frozen=True, slots=True)
class Weather:
    """How often what happens, in milliseconds; 0 is never. Pauses are 0.5 to 1.5 times as long."""

    cut_every_ms: int = 0  # All connections are cut.
    refuse_ms: int = 0  # For so long after a cut new ones are refused.
    stall_every_ms: int = 0  # Nothing passes, either way; connections stay.
    stall_ms: int = 0


async def run(proxy: Proxy, weather: Weather, seed: int, tell: Callable[[str, int], None]) -> None:
    """Makes that weather until cancelled; *tell* hears what was done, to how many connections."""
    async with asyncio.TaskGroup() as tasks:
        if weather.cut_every_ms:
            tasks.create_task(_cuts(proxy, weather, Random(f"{seed}/cut"), tell))
        if weather.stall_every_ms:
            tasks.create_task(_stalls(proxy, weather, Random(f"{seed}/stall"), tell))


async def _cuts(
    proxy: Proxy, weather: Weather, chance: Random, tell: Callable[[str, int], None]
) -> None:
    while True:
        await _pause(weather.cut_every_ms, chance)
        tell("cut", len(proxy.connections))
        proxy.cut()
        if weather.refuse_ms:
            proxy.refuse()
            await asyncio.sleep(weather.refuse_ms / MS)
            await proxy.accept()
            tell("accepting again", len(proxy.connections))


async def _stalls(
    proxy: Proxy, weather: Weather, chance: Random, tell: Callable[[str, int], None]
) -> None:
    while True:
        await _pause(weather.stall_every_ms, chance)
        tell("stalled", len(proxy.connections))
        proxy.stall()
        await asyncio.sleep(weather.stall_ms / MS)
        proxy.resume()
        tell("passing again", len(proxy.connections))


async def _pause(every_ms: int, chance: Random) -> None:
    await asyncio.sleep(every_ms * chance.uniform(0.5, 1.5) / MS)
