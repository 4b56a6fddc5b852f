"""The network of the demo, and what goes wrong with it: paths of links fail."""

import asyncio
from collections.abc import Callable, Sequence

from qmgr_demo.cluster import Node
from qmgr_proxy.proxy import Proxy

CONNECTIONS = 4  # of each link
CUT_AT, STALL_AT = 0.35, 0.6  # of all that is to be consumed; daemons are killed between
UP_MAX_S = 20


class Network:
    """A proxy before the hub for each airport, whose link goes over several connections."""

    def __init__(self, hub: Node, airports: Sequence[str]) -> None:
        host, _, port = hub.tcp.rpartition(":")
        self._proxies = {airport: Proxy(host, int(port)) for airport in airports}
        self.cuts: dict[str, int] = dict.fromkeys(airports, 0)
        self.stalls: dict[str, int] = dict.fromkeys(airports, 0)

    async def start(self) -> None:
        """Takes connections."""
        for proxy in self._proxies.values():
            await proxy.start()

    async def close(self) -> None:
        """Cuts all connections, and take none."""
        for proxy in self._proxies.values():
            await proxy.close()

    def address(self, airport: str) -> str:
        """Returns where the link of *airport* is to dial."""
        return self._proxies[airport].address

    async def trouble(self, airport: str, progress: Callable[[], float]) -> None:
        """Cuts a path of the link, and have another one stand still, as the work gets on."""
        proxy = self._proxies[airport]
        await _until(lambda: progress() >= CUT_AT)
        if await _soon(lambda: len(proxy.connections) >= 1):
            proxy.connections[0].cut()
            self.cuts[airport] += 1
        await _until(lambda: progress() >= STALL_AT)
        if await _soon(lambda: len(proxy.connections) >= 2):
            proxy.connections[1].stall()
            self.stalls[airport] += 1


async def _until(is_so: Callable[[], bool]) -> None:
    while not is_so():
        await asyncio.sleep(0.01)


async def _soon(is_so: Callable[[], bool]) -> bool:
    """Returns whether it *is_so* before long: a daemon may have been killed a moment ago."""
    try:
        async with asyncio.timeout(UP_MAX_S):
            await _until(is_so)
    except TimeoutError:
        return False
    return True
