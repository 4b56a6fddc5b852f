import asyncio
from typing import Any

from qmgrd.core.context.context import BeginSwitchOver, Dial, TakeSnapshot
from qmgrd.process.effects import Effects

DIAL, SWITCH, SNAPSHOT = (
    Dial("NYC", "h:1", 1),
    BeginSwitchOver(1, 2, "", 0),
    TakeSnapshot(1, 2, "/x", 3),
)


async def test_each_effect_starts_its_work() -> None:
    done: list[Any] = []

    async def work(effect: Dial | BeginSwitchOver) -> None:
        done.append(effect)

    effects = Effects(work, work, done.append)
    async with asyncio.TaskGroup() as group:
        for effect in (DIAL, SWITCH, SNAPSHOT):
            effects.start(effect, group)
        assert done == [SNAPSHOT]
        assert len(effects.tasks) == 2, effects.tasks
    assert done == [SNAPSHOT, DIAL, SWITCH]
    assert not effects.tasks


async def test_nothing_is_dialled_before_the_daemon_serves() -> None:
    async def work(effect: object) -> None:
        raise AssertionError(effect)

    effects = Effects(work, work, lambda effect: None)
    effects.start(DIAL, None)
    assert effects.tasks == ()
