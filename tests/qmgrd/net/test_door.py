"""New connections wait for the turn, but not forever."""

import asyncio

import pytest

from qmgrd.net.door import PATIENCE, SLICE_S, Door


class Unit:
    def __init__(self, log: list[str], name: str, *, is_known: bool = False) -> None:
        self.log, self.name, self.is_known = log, name, is_known

    def step(self) -> None:
        self.log.append(self.name)
        if self.name == "bug":
            raise ZeroDivisionError("a bug")

    def fail(self, error: Exception) -> None:
        self.log.append(f"failed: {error}")


async def worked(log: list[str], count: int) -> list[str]:
    """Returns *log* once it has *count* entries."""
    async with asyncio.timeout(20):
        while len(log) < count:
            await asyncio.sleep(0)
    return log


async def test_other_work_runs_between_two_slices() -> None:
    log: list[str] = []
    now_s, loop = 0.0, asyncio.get_running_loop()
    door = Door(lambda: False, lambda: now_s)

    class Short(Unit):
        def step(self) -> None:
            nonlocal now_s
            super().step()
            now_s += SLICE_S / 3

    for n in range(5):
        door.shake(Short(log, str(n)))

    def other() -> None:
        log.append("other")
        if len(log) < 15:
            loop.call_soon(other)

    loop.call_soon(other)
    groups = " ".join(await worked(log, 15)).split("other")
    assert [len(group.split()) for group in groups if group.split()] == [3, 2]


async def test_long_unit_has_a_slice_of_its_own() -> None:
    log: list[str] = []
    now_s = 0.0
    door = Door(lambda: False, lambda: now_s)

    class Long(Unit):
        def step(self) -> None:
            nonlocal now_s
            super().step()
            now_s += SLICE_S

    for n in range(2):
        door.shake(Long(log, str(n)))
    await asyncio.sleep(0)
    assert log == ["1"]
    assert await worked(log, 2) == ["1", "0"]


async def test_connection_waits_for_one_step_at_a_time() -> None:
    log: list[str] = []
    door, connection = Door(lambda: False), Unit(log, "a")
    for _ in range(3):
        door.shake(connection)
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == ["a"]
    door.shake(connection)
    assert await worked(log, 2) == ["a", "a"]


@pytest.mark.parametrize("first", ["arrived", "shake"])
async def test_known_come_first_then_listeners_and_the_newest_strangers(first: str) -> None:
    log: list[str] = []
    door = Door(lambda: False)
    for name in ("a", "b", "c"):
        door.shake(Unit(log, name))
    for name in ("listener 1", "listener 2"):
        door.arrived(Unit(log, name))
    getattr(door, first)(Unit(log, "known 1", is_known=True))
    door.shake(Unit(log, "known 2", is_known=True))
    expected = ["known 1", "known 2", "listener 1", "c", "listener 2", "b", "a"]
    assert await worked(log, 7) == expected


async def test_unit_waits_while_a_turn_is_due_but_not_forever() -> None:
    log: list[str] = []
    now_s, is_turn_due = 0.0, True
    door = Door(lambda: is_turn_due, lambda: now_s)

    class Slow(Unit):
        def step(self) -> None:
            nonlocal now_s
            super().step()
            now_s += 1.0

    for name in ("c", "b", "a"):
        door.shake(Slow(log, name))
    assert await worked(log, 1) == ["a"]
    for _ in range(10):
        await asyncio.sleep(0)
    assert log == ["a"]
    is_turn_due = False
    assert await worked(log, 2) == ["a", "b"]
    is_turn_due, now_s = True, 2.0 + PATIENCE - 0.001
    for _ in range(10):
        await asyncio.sleep(0)
    assert log == ["a", "b"]
    now_s += 0.001
    assert await worked(log, 3) == ["a", "b", "c"]


@pytest.mark.parametrize("is_known", [True, False])
async def test_closed_connection_leaves_the_door(*, is_known: bool) -> None:
    """In a flood, the newest strangers are served, and the closed ones would stay in memory."""
    log: list[str] = []
    door = Door(lambda: False)
    connections = [Unit(log, name, is_known=is_known) for name in ("a", "b")]
    for connection in connections:
        door.shake(connection)
    for connection in connections:
        door.forget(connection)
        door.forget(connection)  # The second time, it has no effect.
    for _ in range(5):
        await asyncio.sleep(0)
    assert log == []
    door.shake(connections[0])
    assert await worked(log, 1) == ["a"]


async def test_bug_in_one_handshake_does_not_stop_the_others() -> None:
    log: list[str] = []
    door = Door(lambda: False)
    for name in ("b", "a", "bug"):
        door.shake(Unit(log, name))
    assert await worked(log, 4) == ["bug", "failed: a bug", "a", "b"]
