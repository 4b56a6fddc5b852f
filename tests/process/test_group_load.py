"""Groups on a real daemon, killed with -9; and an audit that finds what is wrong with them."""

import asyncio
from collections.abc import Callable

import pytest

from tests.process.daemon import Daemon
from tests.process.group_load import GroupLoad

Make = Callable[..., Daemon]
ENOUGH = 12  # groups that are begun before a kill, and before the end


async def worked(daemon: Daemon, *, kills: int) -> GroupLoad:
    """Have groups put and got on a daemon that is killed so often; return what came of them."""
    load = GroupLoad(daemon.address, 1, stall_max_s=20)
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(load.run())
        for kill in range(kills + 1):
            while len(load.lengths) < ENOUGH * (kill + 1):
                await asyncio.sleep(0.01)
                assert not work.done()
            if kill < kills:
                await asyncio.to_thread(daemon.kill)
                await asyncio.to_thread(daemon.start)
        load.stopping.set()
    return load


@pytest.mark.process
def test_groups_are_whole_and_in_order_over_kills(make: Make) -> None:
    load = asyncio.run(worked(make().start(), kills=2))
    assert not any(load.faults().values()), load.faults()
    assert not load.missing
    assert len(load.came) == len(load.lengths) >= ENOUGH


def test_audit_finds_what_is_wrong() -> None:
    load = GroupLoad("", 1)
    load.lengths |= {"whole": 2, "torn": 3}
    for name, number in (("whole", 1), ("whole", 2), ("whole", 1), ("torn", 2), ("odd", 1)):
        load._note(name, number)
    load.consumed["whole"] = {2}
    load._note("whole", 2)
    assert load.faults() == {
        "incomplete": ["torn"], "never put": ["odd"], "out of order": ["torn:2"],
        "doubled": ["whole:2"],
    }  # fmt: skip
    assert load.missing == 2
