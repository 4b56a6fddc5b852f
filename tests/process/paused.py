"""Suspends the active member under load: ``python -m tests.process.paused --cycles 50``.

Each cycle suspends the member (SIGSTOP) until another one is active, and wakes it up. The members
have separate roles, so that nobody can end the session of the suspended one. Only the fence keeps
its records out of the log. In half of the cycles it wakes up before the other one has appended
anything.

The suspended member must report that it is not active, and become a standby. No record of its epoch
may follow one of a later epoch, and every acknowledged message must be received.
"""

import argparse
import asyncio
import random
import shutil
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from qmgr_demo.cluster import Node
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.postgres import Postgres
from tests.process.crash import endured
from tests.process.daemon import Wire
from tests.process.shared import PATIENCE_S, Shared, entries, name_of, tail


class Pauses:
    """Suspends the members of a queue manager, and checks what they do afterwards."""

    def __init__(self, manager: Shared, seed: int) -> None:
        self._manager, self._random = manager, random.Random(seed)

    async def strike(self, kind: str) -> None:
        """Suspends the active member."""
        manager = self._manager
        node = await asyncio.to_thread(manager.active)
        before = len(entries(node))
        await manager.pause(node, self._random.choice([0.0, self._random.uniform(0.0, 1.0)]))
        end_s = time.monotonic() + PATIENCE_S
        while not await asyncio.to_thread(self._is_standby, node, before):
            await asyncio.to_thread(manager.look)
            if manager.faults:
                return
            if time.monotonic() > end_s:
                manager.faults.append(f"{name_of(node)} did not become a standby: {tail(node)}")
                return
            await asyncio.sleep(0.05)

    def _is_standby(self, node: Node, before: int) -> bool:
        events = [entry["event"] for entry in entries(node)[before:]]
        if "another member is active" not in events:
            return False
        later = events[events.index("another member is active") :]
        # It may be active again by now, in another epoch.
        return "standby" in later and ("active" in later or _refuses(node.tcp))


def _refuses(address: str) -> bool:
    """Returns whether the member at *address* answers a client with NOT_ACTIVE."""
    with suppress(OSError, EOFError), Wire(address) as wire:
        wire.send(m.Hello(m.MAGIC, 1, 1, "client", "paused"))
        goaway: Any = wire.next(m.Goaway)
        return bool(goaway.code == ErrorCode.NOT_ACTIVE)
    return False


def paused(directory: Path, cycles: int, seed: int, broken: str = "") -> int:
    """Runs the campaign; returns 0 if there are no faults."""
    manager = Shared(directory, Postgres(), seed, broken, has_roles=True)
    summary = f"paused: cycles={cycles} seed={seed}"
    return endured(manager, ["pause"] * cycles, Pauses(manager, seed).strike, summary)


def main() -> int:
    """Runs the campaign; returns 0 if there are no faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--dir", type=Path, default=Path("build/paused"))
    parser.add_argument("--broken", default="", help="the bug of the members: see member.py")
    options = parser.parse_args()
    print(f"seed={options.seed}", flush=True)
    shutil.rmtree(options.dir, ignore_errors=True)
    return paused(options.dir.resolve(), options.cycles, options.seed, options.broken)


if __name__ == "__main__":
    sys.exit(main())
