"""Handshakes wait for their turn."""

import asyncio

from qmgrd.net.handshakes import STEPS_MAX, Handshakes


class Connection:
    def __init__(self, log: list[str], name: str) -> None:
        self.log, self.name = log, name

    def shake(self) -> None:
        self.log.append(self.name)
        if self.name == "bug":
            raise ZeroDivisionError("a bug")

    def fail(self, error: Exception) -> None:
        self.log.append(f"failed: {error}")


async def test_other_work_runs_between_a_few_steps() -> None:
    log: list[str] = []
    handshakes, loop = Handshakes(), asyncio.get_running_loop()
    names = [str(n) for n in range(2 * STEPS_MAX + 1)]
    for name in names:
        handshakes.add(Connection(log, name))

    def other() -> None:
        log.append("other")
        if len(log) < 2 * len(names):
            loop.call_soon(other)

    loop.call_soon(other)
    while len(log) < 2 * len(names):
        await asyncio.sleep(0)
    assert [name for name in log if name != "other"] == names
    groups = " ".join(log).split("other")
    assert max(len(group.split()) for group in groups) == STEPS_MAX


async def test_connection_waits_for_one_step_at_a_time() -> None:
    log: list[str] = []
    handshakes, connection = Handshakes(), Connection(log, "a")
    for _ in range(3):
        handshakes.add(connection)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert log == ["a"]
    handshakes.add(connection)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert log == ["a", "a"]


async def test_bug_in_one_handshake_does_not_stop_the_others() -> None:
    log: list[str] = []
    handshakes = Handshakes()
    for name in ("bug", "a", "b", "c"):
        handshakes.add(Connection(log, name))
    while len(log) < 5:
        await asyncio.sleep(0)
    assert log == ["bug", "failed: a bug", "a", "b", "c"]
