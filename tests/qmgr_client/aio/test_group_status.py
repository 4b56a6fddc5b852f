"""Tests of runs that compete for a group, with a real daemon."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import Message, QueueManager, RequestError, UnitOfWork, connect
from qmgr_client.aio import group_status as aio_group_status
from qmgr_client.aio.group_status import RunStatus
from qmgr_client.groups.status import GroupRun, GroupStatus
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.served import serve

A = b"a" * 24
RUN: Any = {"status_queue": "STATUS", "name": "load", "batch": 2}
LOAD = GroupRun("put_group", "Q", "load")


class Killed(Exception):
    """Raised to interrupt a run."""


@asynccontextmanager
async def two(directory: Path) -> AsyncIterator[tuple[QueueManager, QueueManager]]:
    """Runs a daemon with queues and yields two clients."""
    async with serve(directory) as address, connect(address) as one, connect(address) as other:
        for queue in ("Q", "R", "DONE", "STATUS"):
            await one.admin.queue_create(queue)
        yield one, other


def items(count: int, killed_at: int = 0) -> Iterator[bytes]:
    for number in range(1, count + 1):
        if number == killed_at:
            raise Killed
        yield b"%d" % number


async def bill(message: Message, unit: UnitOfWork) -> None:
    await unit.put("DONE", message.body)


async def bodies(manager: QueueManager, queue: str) -> list[bytes]:
    return [message.body async for message in manager.browse(queue)]


async def depth(manager: QueueManager, queue: str) -> int:
    row = await manager.admin.queue_show(queue)
    return int(row["depth"])


@pytest.mark.parametrize("units", [1, 2, 3])
async def test_one_of_two_puts_that_found_no_status_goes_on(tmp_path: Path, units: int) -> None:
    """E25: The first unit of the other run is refused. Each message is put once."""
    async with two(tmp_path) as (one, other):
        has_found, is_ahead, is_refused = asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def ahead() -> AsyncIterator[bytes]:
            await has_found.wait()
            for index, item in enumerate(items(10)):
                if index == 2 * units + 1:  # number of units that are committed
                    is_ahead.set()
                    await is_refused.wait()
                yield item

        async def behind() -> AsyncIterator[bytes]:
            has_found.set()
            await is_ahead.wait()
            for item in items(10):
                yield item

        running = asyncio.create_task(one.put_group("Q", ahead(), **RUN))
        why = (
            r"LEASE_LOST: put_group 'load' on Q: another call has started this run \(status .*: "
            rf"group .*, done up to number {2 * units}\): .* call again"
        )
        with pytest.raises(RequestError, match=why):
            await other.put_group("Q", behind(), **RUN)
        is_refused.set()
        assert (await running).put == 10
        assert await bodies(one, "Q") == list(items(10))
        assert await depth(one, "STATUS") == 0


async def test_put_that_another_call_continues_raises(tmp_path: Path) -> None:
    """E25: The later call continues the group, and puts no message twice."""
    async with two(tmp_path) as (one, other):

        async def slow() -> AsyncIterator[bytes]:
            for index, item in enumerate(items(10)):
                if index == 5:
                    done = await other.put_group("Q", items(10), **RUN)
                    assert (done.put, done.skipped) == (6, 4)
                yield item

        why = "LEASE_LOST: put_group 'load' on Q: another call has taken the status from STATUS"
        with pytest.raises(RequestError, match=why):
            await one.put_group("Q", slow(), **RUN)
        assert await bodies(one, "Q") == list(items(10))
        assert await depth(one, "STATUS") == 0


async def test_one_of_two_reads_that_found_no_status_goes_on(tmp_path: Path) -> None:
    """E26: The other run's messages return to the queue, and the next call reads them."""
    async with two(tmp_path) as (one, other):
        for _ in range(2):
            await one.put_group("Q", items(5), **RUN)
        is_ahead, is_refused = asyncio.Event(), asyncio.Event()

        async def slow(message: Message, unit: UnitOfWork) -> None:
            if message.group_number == 3:
                is_ahead.set()
                await is_refused.wait()
            await bill(message, unit)

        async def behind(message: Message, unit: UnitOfWork) -> None:
            if not running:
                running.append(asyncio.create_task(one.get_group("Q", slow, **RUN)))
                await is_ahead.wait()
            await bill(message, unit)

        running: list[asyncio.Task[Any]] = []
        with pytest.raises(RequestError, match="LEASE_LOST: get_group 'load' on Q: another call"):
            await other.get_group("Q", behind, **RUN)
        is_refused.set()
        assert (await running[0]).got == 5
        got = await other.get_group("Q", bill, **RUN)
        assert got is not None
        assert got.got == 5
        assert await bodies(one, "DONE") == [*items(5), *items(5)]
        assert await depth(one, "STATUS") == 0


async def test_name_of_a_put_is_another_one_for_a_read(tmp_path: Path) -> None:
    """E25, E26: A read does not skip messages because of the status message of a put."""
    async with two(tmp_path) as (one, other):
        with pytest.raises(Killed):
            await one.put_group("Q", items(10, 6), **RUN)
        got = await other.get_group("Q", bill, all_available=False, **RUN)
        assert got is not None
        assert (got.got, got.skipped, got.has_ended) == (4, 0, False)
        done = await one.put_group("Q", items(10), **RUN)
        assert (done.put, done.skipped) == (6, 4)
        got = await other.get_group("Q", bill, wait_ms=1_000, **RUN)
        assert got is not None
        assert (got.got, got.skipped, got.has_ended) == (6, 4, True)
        assert await bodies(one, "DONE") == list(items(10))
        assert await depth(one, "STATUS") == 0


async def test_name_is_another_one_on_another_queue(tmp_path: Path) -> None:
    """E25: A run on another queue does not continue the group of the first queue."""
    async with two(tmp_path) as (one, _):
        with pytest.raises(Killed):
            await one.put_group("Q", items(10, 6), **RUN)
        done = await one.put_group("R", items(10), **RUN)
        assert (done.put, done.skipped) == (10, 0)
        done = await one.put_group("Q", items(10), **RUN)
        assert (done.put, done.skipped) == (6, 4)
        assert await bodies(one, "Q") == await bodies(one, "R") == list(items(10))
        assert await depth(one, "STATUS") == 0


async def test_first_unit_of_a_dead_connection_is_waited_for(tmp_path: Path) -> None:
    """E25: The backout of the unit releases the claim on the group."""
    async with two(tmp_path) as (one, other):
        unit = one.unit_of_work()
        await unit.__aenter__()
        await RunStatus(one, "STATUS", LOAD).replace(unit, GroupStatus(A, 2))
        putting = asyncio.create_task(other.put_group("Q", items(5), **RUN))
        while not (await other.admin.queue_show("STATUS"))["refused"]:  # until a put is refused
            assert not putting.done()
        await unit.backout()
        assert (await putting).put == 5
        assert await depth(one, "STATUS") == 0


async def test_first_unit_that_does_not_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio_group_status, "WAIT_MS", aio_group_status.PAUSE_MS)
    async with two(tmp_path) as (one, other):
        async with one.unit_of_work() as unit:
            await RunStatus(one, "STATUS", LOAD).replace(unit, GroupStatus(A, 2))
            why = "LEASE_LOST: put_group 'load' on Q: another call has just started this run"
            with pytest.raises(RequestError, match=why):
                await other.put_group("Q", items(5), **RUN)
        assert await depth(one, "Q") == 0


async def test_queue_that_remembers_uids_is_refused(tmp_path: Path) -> None:
    """The first call fails, and not only a later call with the same name."""
    async with two(tmp_path) as (one, _):
        await one.admin.queue_alter("STATUS", dedup_retention_ms=60_000)
        why = r"STATUS cannot store the status of .*: qmctl queue alter STATUS --dedup-retention 0"
        with pytest.raises(RequestError, match=why) as caught:
            await one.put_group("Q", items(5), **RUN)
        assert caught.value.code == ErrorCode.VALUE_INVALID
        assert await depth(one, "Q") == 0
        await one.admin.queue_alter("STATUS", dedup_retention_ms=0)
        assert (await one.put_group("Q", items(5), **RUN)).put == 5


async def test_name_that_is_still_remembered_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aio_group_status, "WAIT_MS", aio_group_status.PAUSE_MS)
    async with two(tmp_path) as (one, _):
        await one.admin.queue_alter("STATUS", dedup_retention_ms=60_000)
        await one.put("STATUS", b"", uid=LOAD.claim)
        message = await one.get("STATUS")
        assert message is not None
        await one.ack(message)
        await one.admin.queue_alter("STATUS", dedup_retention_ms=0)
        with pytest.raises(
            RequestError, match=r"VALUE_INVALID.*, but no such status exists: the queue"
        ):
            await one.put_group("Q", items(5), **RUN)
        assert await depth(one, "Q") == 0


async def test_two_statuses_are_reported_with_the_commands_that_remove_them(tmp_path: Path) -> None:
    async with two(tmp_path) as (one, other):
        for number in (2, 4):  # A run never puts two status messages.
            async with one.unit_of_work() as unit:
                await RunStatus(one, "STATUS", LOAD)._put(unit, GroupStatus(A, number), None)
        with pytest.raises(
            RequestError, match="STATUS has 2 statuses of put_group 'load'"
        ) as caught:
            await other.put_group("Q", items(5), **RUN)
        uids = [message.uid async for message in one.browse("STATUS")]
        for uid, number in zip(uids, (2, 4), strict=True):
            status = f"done up to number {number} (qmctl get STATUS --uid {uid})"
            assert status in caught.value.text


async def test_run_needs_only_rights_on_its_queues(tmp_path: Path) -> None:
    password = "a long password"
    async with two(tmp_path) as (one, _):
        address = f"unix:{tmp_path / 'qmgrd.sock'}"
        await one.admin.user_create("admin", password, roles=["administrator"])
        await one.admin.user_create("clerk", password)
        rights = {"Q": "put get", "STATUS": "put get browse show", "DONE": "put"}
        for queue, of_queue in rights.items():
            await one.admin.grant_create(of_queue.split(), "queue", queue, user="clerk")
        async with connect(address, user="clerk", password=password) as clerk:
            assert (await clerk.put_group("Q", items(5), **RUN)).put == 5
            done = await clerk.get_group("Q", bill, **RUN)
            assert done is not None
            assert done.got == 5
