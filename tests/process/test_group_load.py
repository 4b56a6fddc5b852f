"""Tests of groups on a real daemon and clients that are killed with -9, with an audit."""

import asyncio
import sys
from collections.abc import Callable

import pytest

from tests.process import broken
from tests.process.daemon import Daemon
from tests.process.group_load import GroupLoad, kept_from

Make = Callable[..., Daemon]
ENOUGH = 12  # number of groups that begin before a kill, and before the end


async def worked(
    load: GroupLoad, daemon: Daemon, is_enough: Callable[[], object], *, kills: int = 0
) -> None:
    """Puts and gets groups on a daemon, with *kills* kills, until *is_enough* returns true."""
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(load.run())
        for kill in range(kills + 1):
            while len(load.lengths) < ENOUGH * (kill + 1):
                await asyncio.sleep(0.01)
                assert not work.done()
            if kill < kills:
                await asyncio.to_thread(daemon.kill)
                await asyncio.to_thread(daemon.start)
        while not is_enough():
            await asyncio.sleep(0.01)
            assert not work.done()
        load.stopping.set()


@pytest.mark.process
def test_groups_are_whole_and_in_order_over_kills(make: Make) -> None:
    daemon = make().start()
    load = GroupLoad(daemon.address, 1, stall_max_s=20, kill_every=3)
    asyncio.run(worked(load, daemon, lambda: load.resumed and load.read_on, kills=2))
    assert not any(load.faults().values()), load.faults()
    assert not load.missing
    assert len(load.came) == len(load.lengths) >= ENOUGH
    assert load.kills


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize(
    ("variant", "fault"),
    [("skip", "out of order"), ("repeat", "doubled"), ("overread", "out of order")],
)
def test_application_that_resumes_wrongly_is_found(make: Make, variant: str, fault: str) -> None:
    daemon = make().start()
    command = (sys.executable, "-m", "tests.process.broken_app", variant)
    load = GroupLoad(daemon.address, 1, stall_max_s=1, kill_every=2, command=command)
    asyncio.run(worked(load, daemon, lambda: load.faults()[fault]))
    assert load.faults()[fault]


@pytest.mark.long
@pytest.mark.process
def test_daemon_that_keeps_a_backed_out_unit_is_found(make: Make) -> None:
    """After this bug, the reader writes bills for the same messages again."""
    daemon = make()
    daemon.command = [sys.executable, broken.__file__, "keep"]
    load = GroupLoad(daemon.start().address, 1, stall_max_s=1, kill_every=2)
    asyncio.run(worked(load, daemon, lambda: load.doubled))
    assert load.faults()["doubled"]


@pytest.mark.parametrize(
    ("at", "first"), [(0, 1), (7, 1), (8, 1), (14, 1), (15, 8), (21, 8), (22, 15)]
)
def test_items_are_discarded_once_they_are_committed(at: int, first: int) -> None:
    assert kept_from(at) == first


def test_audit_finds_the_faults() -> None:
    load = GroupLoad("", 1)
    load.lengths |= {"whole": 2, "torn": 3, "twice": 1}
    for name, number in (("whole", 1), ("whole", 2), ("whole", 1), ("torn", 2), ("odd", 1)):
        load._note(name, number, f"{name}{number}")
    load.consumed["whole"] = {2}
    load._note("whole", 2, "whole2")
    load._note("twice", 1, "one")
    load._note("twice", 1, "another")
    load.given_up.append("torn")
    assert load.faults() == {
        "incomplete": ["torn"],
        "never put": ["odd"],
        "out of order": ["torn:2"],
        "doubled": ["whole:2", "twice:1"],
        "given up": ["torn"],
        "status left": [],
    }
    assert load.missing == 2
