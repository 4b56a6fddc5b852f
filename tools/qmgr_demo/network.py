"""The network of the demo, which cuts and stalls paths of links."""

import asyncio
from collections.abc import Callable, Sequence

from qmgr_demo.cluster import Node
from qmgr_proxy.proxy import Proxy

CONNECTIONS = 4  # number of connections per link
# Fractions of the consumed messages. Daemons are killed at other fractions.
CUT_AT, STALL_AT = 0.35, 0.6
UP_MAX_S = 20


class Network:
    """One proxy in front of the hub for the link of each airport."""

    def __init__(self, hub: Node, airports: Sequence[str]) -> None:
        self._hub = hub
        host, _, port = hub.tcp.rpartition(":")
        self._proxies = {airport: Proxy(host, int(port)) for airport in airports}
        self.cuts: dict[str, int] = dict.fromkeys(airports, 0)
        self.stalls: dict[str, int] = dict.fromkeys(airports, 0)

    async def start(self) -> None:
        """Accepts connections."""
        for proxy in self._proxies.values():
            await proxy.start()

    async def close(self) -> None:
        """Cuts all connections, and refuses new ones."""
        for proxy in self._proxies.values():
            await proxy.close()

    def address(self, airport: str) -> str:
        """Returns the address for the link of *airport*."""
        return self._hub.dialled(self._proxies[airport].address)

    async def trouble(self, airport: str, progress: Callable[[], float]) -> None:
        """Cuts a path of the link, and later stalls another path, at fractions of *progress*."""
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
    """Returns whether *is_so* becomes true within UP_MAX_S. A daemon may be restarting."""
    try:
        async with asyncio.timeout(UP_MAX_S):
            await _until(is_so)
    except TimeoutError:
        return False
    return True
