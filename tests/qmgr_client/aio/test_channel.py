"""Tests that requests and puts are sent with checked names, and that puts wait for space."""

import asyncio
from pathlib import Path

import pytest

from qmgr_client.aio import ConnectionEnded, RequestError, connect
from tests.qmgr_client.served import serve


async def test_invalid_requests_are_refused_by_the_client(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        for asking in (
            manager.put("no name", b"x"),
            manager.put("Q", b"x", priority=10),
            manager.put("Q", b"x", headers={"no": object()}),
            manager.get("Q", wait_ms=-1),
            manager.put("Q", "text"),  # type: ignore[arg-type]
            manager.put(None, b"x"),  # type: ignore[arg-type]
            manager.put(["Q"], b"x"),  # type: ignore[arg-type]
            anext(manager.browse("Q", -1)),
        ):
            with pytest.raises(RequestError):
                await asking
        assert (await manager.admin.status())["name"] == "QM1", "the connection is still open"


async def test_client_that_is_not_open_raises() -> None:
    manager = connect("127.0.0.1:1")
    await manager.close()
    for asking in (manager.put("Q", b"x"), manager.get("Q"), manager.admin.status()):
        with pytest.raises(ConnectionEnded, match="the client is not open: use it in"):
            await asking
    with pytest.raises(ConnectionEnded, match="not open"):
        manager.consume("Q")


async def test_puts_of_many_tasks_beyond_the_window_all_come_through(tmp_path: Path) -> None:
    async with (
        serve(tmp_path, put_window_messages=10, put_window_bytes=2_000) as address,
        connect(address) as manager,
    ):
        await manager.admin.queue_create("Q")
        async with asyncio.TaskGroup() as tasks:
            for number in range(200):
                tasks.create_task(manager.put("Q", b"%d" % number))
        assert (await manager.admin.queue_show("Q"))["depth"] == 200


async def test_submit_waits_only_for_room(tmp_path: Path) -> None:
    async with serve(tmp_path, put_window_messages=4) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        futures = [await manager.submit("Q", b"x") for _ in range(100)]
        assert not futures[-1].done()
        assert sum(not future.done() for future in futures) <= 9, "two windows and one more put"
        assert len({(await future).uid for future in futures}) == 100
