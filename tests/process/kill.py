"""Kills daemons with -9, and restarts them."""

import asyncio
import random

from qmgr_demo.cluster import Node


async def kill_some(rng: random.Random, nodes: list[Node]) -> None:
    """Kills one of two *nodes* or both, sometimes again during the start, and restarts them."""
    victims = rng.choices([nodes[:1], nodes[1:], nodes], [4, 4, 1])[0]
    for node in victims:
        await asyncio.to_thread(node.kill)
        node.start()
        if rng.random() < 0.1:  # A second kill, during the start.
            await asyncio.sleep(rng.uniform(0.0, 0.5))
            await asyncio.to_thread(node.kill)
            node.start()
