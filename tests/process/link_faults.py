"""Faults of two daemons and of the network between them, one at a time.

    kill     kills one daemon or both with -9, and restarts them
    stop     suspends one daemon for a while (SIGSTOP to SIGCONT)
    cut      cuts one connection, now or after some bytes, or all connections to a daemon
    stall    stops the data of one open connection, in one direction or both
    slow     delays one connection, or limits its rate
    refuse   refuses new connections to a daemon for a while, and cuts one or all connections

A connection stays stalled or slow until :meth:`LinkFaults.heal`, or until it is closed.
"""

import asyncio
import random
import signal
import time
from collections import Counter
from collections.abc import Sequence

from qmgr_demo.cluster import Node
from qmgr_proxy.pipe import Shape
from qmgr_proxy.proxy import BOTH, Proxy, Way
from tests.process.kill import kill_some

KINDS = {"kill": 4, "stop": 2, "cut": 4, "stall": 3, "slow": 3, "refuse": 2}  # relative frequencies
STOPS_S = (0.3, 1.0, 3.5)  # The last duration is longer than a link waits.
UP_MAX_S = 5
CUT_MAX_BYTES = 200_000
DELAYS_MS = (0, 20, 300)
RATES = (0, 20_000, 500_000)
WAYS: tuple[Sequence[Way], ...] = (BOTH, (Way.FORTH,), (Way.BACK,))


def drawn(rng: random.Random, count: int) -> list[str]:
    """Returns *count* random kinds of faults."""
    return rng.choices(list(KINDS), list(KINDS.values()), k=count)


class LinkFaults:
    """Causes faults of daemons and of their proxies. ``done`` counts the faults by kind."""

    def __init__(self, rng: random.Random, nodes: list[Node], proxies: list[Proxy]) -> None:
        self.done: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
        self._rng, self._nodes, self._proxies = rng, nodes, proxies

    async def strike(self, kind: str) -> None:
        """Causes a fault of type *kind* on a random target."""
        proxy = self._rng.choice(self._proxies)
        if kind == "kill":
            await kill_some(self._rng, self._nodes)
        elif kind == "stop":
            await self._stop(self._rng.choice(self._nodes))
        elif kind == "refuse":
            await self._refuse(proxy)
        elif kind == "cut" and self._rng.random() < 0.3:
            proxy.cut()
        elif not await self._harm(kind, proxy):
            return
        self.done[kind] += 1

    async def heal(self) -> None:
        """Ends all faults of the network."""
        for proxy in self._proxies:
            await proxy.heal()

    async def _harm(self, kind: str, proxy: Proxy) -> bool:
        """Causes a fault of a connection; returns whether a connection was found."""
        rng, until = self._rng, time.monotonic() + UP_MAX_S
        while not (connections := proxy.connections):
            if time.monotonic() > until:
                return False  # If a connection never appears, the end of the run reveals it.
            await asyncio.sleep(0.01)
        connection = rng.choice(connections)
        if kind == "stall":
            connection.stall(rng.choice(WAYS))
        elif kind == "slow":
            shape = Shape(rng.choice(DELAYS_MS), rng.choice(RATES))
            connection.shape(shape, rng.choice(WAYS))
        elif rng.random() < 0.5:
            connection.cut()
        else:
            connection.cut_after(rng.randrange(CUT_MAX_BYTES), rng.choice(BOTH))
        return True

    async def _stop(self, node: Node) -> None:
        assert node.process is not None
        node.process.send_signal(signal.SIGSTOP)
        try:
            await asyncio.sleep(self._rng.choice(STOPS_S))
        finally:
            node.process.send_signal(signal.SIGCONT)

    async def _refuse(self, proxy: Proxy) -> None:
        proxy.refuse()
        connections = proxy.connections
        if connections and self._rng.random() < 0.5:
            self._rng.choice(connections).cut()
        else:
            proxy.cut()
        await asyncio.sleep(self._rng.uniform(0.1, 2.0))
        await proxy.accept()
