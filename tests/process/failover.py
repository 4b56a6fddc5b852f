"""Kills the server of a journal, and promotes its standby: python -m tests.process.failover.

    members ──postgresql://...@HOST1,HOST2/...──▶ primary ══synchronous replication══▶ standby

Each cycle kills the primary under load with -9, promotes the standby, and attaches a new standby to
it, which has the port of the killed one. In some cycles, the active member is killed, too. No
acknowledged message may be lost.
"""

import argparse
import asyncio
import random
import shutil
import sys
from pathlib import Path

from qmgr_bench.server import free_port
from tests.postgres import Postgres
from tests.process.crash import endured
from tests.process.shared import Shared

KINDS = ["failover", "failover", "failover and member"]


class Pair:
    """A primary with a synchronous standby.

    Invariant: ``standby`` has all commits of the primary, except during a fault.
    """

    def __init__(self, manager: Shared) -> None:
        self._manager = manager
        self.standby = manager.server.standby(synchronous=True, port=manager.other_port)

    async def strike(self, kind: str) -> None:
        """Replaces the primary by its standby."""
        active = await asyncio.to_thread(self._manager.active)
        if kind == "failover and member":
            active.kill()
            active.start()
        await asyncio.to_thread(self._fail_over)

    def _fail_over(self) -> None:
        manager, old, new = self._manager, self._manager.server, self.standby
        old.kill()
        old.part(new)
        new.promote()
        manager.server, manager.other_port = new, old.port
        manager.database_kills += 1
        old.close()
        self.standby = new.standby(synchronous=True, port=old.port)


def failed_over(directory: Path, cycles: int, seed: int) -> int:
    """Runs the campaign; returns 0 if there are no faults."""
    manager = Shared(directory, Postgres(), seed, other_port=free_port())
    try:
        pair = Pair(manager)
        plan = random.Random(seed).choices(KINDS, k=cycles)
        return endured(manager, plan, pair.strike, f"failover: cycles={cycles} seed={seed}")
    finally:
        manager.close()


def main() -> int:
    """Runs the campaign; returns 0 if there are no faults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cycles", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    parser.add_argument("--dir", type=Path, default=Path("build/failover"))
    options = parser.parse_args()
    print(f"seed={options.seed}", flush=True)
    shutil.rmtree(options.dir, ignore_errors=True)
    return failed_over(options.dir.resolve(), options.cycles, options.seed)


if __name__ == "__main__":
    sys.exit(main())
