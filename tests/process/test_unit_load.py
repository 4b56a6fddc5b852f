"""Tests of units of work on a real daemon that is killed with -9, and on broken daemons."""

import asyncio
import sys
from collections.abc import Callable

import pytest

from tests.process import broken
from tests.process.daemon import Daemon
from tests.process.unit_ledger import UnitLedger
from tests.process.unit_load import UnitLoad

pytestmark = pytest.mark.process
Make = Callable[..., Daemon]
ENOUGH = 60  # number of pairs that are committed before a kill, and before the end


async def worked(daemon: Daemon, *, kills: int = 0, stall_max_s: float = 20) -> UnitLedger:
    """Runs units on a daemon, with *kills* kills; returns the results."""
    load = UnitLoad(daemon.address, 1, stall_max_s=stall_max_s)
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(load.run())
        for kill in range(kills + 1):
            while len(load.ledger.committed) < ENOUGH * (kill + 1):
                await asyncio.sleep(0.01)
                assert not work.done()
            if kill < kills:
                await asyncio.to_thread(daemon.kill)
                await asyncio.to_thread(daemon.start)
        load.stopping.set()
    return load.ledger


def test_units_are_whole_over_kills(make: Make) -> None:
    """G20: a committed message is received once, and other messages are never received."""
    ledger = asyncio.run(worked(make().start(), kills=2))
    assert not any(ledger.faults().values()), ledger.faults()
    assert ledger.moved
    assert ledger.dead


@pytest.mark.long
@pytest.mark.parametrize(
    ("variant", "fault"), [("halve", "lost"), ("keep", "never committed"), ("repeat", "doubled")]
)
def test_broken_daemon_is_found(make: Make, variant: str, fault: str) -> None:
    daemon = make()
    daemon.command = [sys.executable, broken.__file__, variant]
    ledger = asyncio.run(worked(daemon.start(), stall_max_s=2))
    assert ledger.faults()[fault]
