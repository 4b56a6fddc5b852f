"""Tests of the methods of the asyncio client, with a real daemon."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import ConnectFailed, ConnectionEnded, PutResult, QueueManager, connect
from qmgr_protocol.errors import ErrorClass, ErrorCode
from tests.qmgr_client.served import address_of, serve


async def test_tcp_serves_as_well(tmp_path: Path) -> None:
    async with serve(tmp_path, tcp=True) as address, connect(address) as manager:
        assert address.startswith("127.0.0.1:")
        await manager.admin.queue_create("Q")
        assert (await manager.put("Q", b"x")).uid is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"producer_id": "x" * 16},
        {"producer_id": b""},
        {"wait_ms": -1},
        {"give_up_ms": -1},
        {"name": "\udcff"},
        {"name": 5},
        {"name": "x" * 256},
    ],
    ids=repr,
)
async def test_client_that_cannot_be_is_a_value_error(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        ValueError, match=r"is not 16 bytes|is negative|is not valid UTF-8|the limit is 255"
    ):
        connect("127.0.0.1:1", **wrong)


async def test_calls_last_over_restarts(tmp_path: Path) -> None:
    results: list[PutResult] = []
    seen: list[bytes] = []
    done = asyncio.Event()

    async def run_daemons() -> None:
        for part in range(1, 3):
            async with serve(tmp_path):
                while len(results) < part * 100:
                    await asyncio.sleep(0)
        async with serve(tmp_path):
            await done.wait()

    async def put(manager: QueueManager) -> None:
        for number in range(300):
            results.append(await manager.put("Q", b"%d" % number))

    async def take(manager: QueueManager) -> None:
        async for message in manager.consume("Q", prefetch=16):
            seen.append(message.body)
            (refused,) = await manager.ack_many([message])
            assert refused is None or refused.code == ErrorCode.LEASE_LOST
            if len(set(seen)) == 300:
                return

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run_daemons())
        async with connect(address_of(tmp_path), wait_ms=30_000) as manager:
            await manager.admin.queue_create("Q")
            async with asyncio.TaskGroup() as both:
                both.create_task(put(manager))
                both.create_task(take(manager))
            assert (await manager.admin.queue_show("Q"))["depth"] == 0
            done.set()
    assert len(results) == 300


async def test_refused_connection_has_a_reason_an_address_and_a_hint(tmp_path: Path) -> None:
    with pytest.raises(ConnectFailed, match=r"No such file or directory; is qmgrd running there\?"):
        async with connect(f"unix:{tmp_path}/none"):
            pass


async def test_patience_runs_out(tmp_path: Path) -> None:
    with pytest.raises(ConnectFailed):
        async with connect(f"unix:{tmp_path}/none", wait_ms=50):
            pass


async def test_without_reconnect_a_loss_fails_what_is_open(tmp_path: Path) -> None:
    async with serve(tmp_path) as address:
        manager = connect(address, reconnect=False)
        await manager.open()
        await manager.admin.queue_create("Q")
        getting = asyncio.create_task(manager.get("Q", wait_ms=60_000))
        await manager.admin.status()
    with pytest.raises(ConnectionEnded) as caught:
        await getting
    assert caught.value.error_class is ErrorClass.UNKNOWN_OUTCOME
    with pytest.raises(ConnectionEnded, match="no connection to"):
        await manager.put("Q", b"x")
    await manager.close()


async def test_close_waits_for_what_is_under_way(tmp_path: Path) -> None:
    async with serve(tmp_path) as address:
        async with connect(address) as manager:
            await manager.admin.queue_create("Q")
            futures = [await manager.submit("Q", b"x") for _ in range(50)]
        assert all(future.result().uid for future in futures)
        async with connect(address) as manager:
            assert (await manager.admin.queue_show("Q"))["depth"] == 50
            message = await manager.get("Q")
            assert message is not None
            await manager.ack_soon(message)
        async with connect(address) as manager:
            assert (await manager.admin.queue_show("Q"))["depth"] == 49


async def test_close_does_not_wait_for_ever(tmp_path: Path) -> None:
    async with serve(tmp_path) as address:
        manager = connect(address)
        await manager.open()
        await manager.admin.queue_create("Q")
    future = await manager.submit("Q", b"x")
    await manager.close(timeout_ms=20)
    with pytest.raises(ConnectionEnded, match="closed by the caller"):
        await future
    await manager.close()


async def test_second_process_of_a_producer_sends_the_first_away(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address, producer_id=b"p" * 16) as first:
        await first.admin.queue_create("Q")
        await first.put("Q", b"1")
        async with connect(address, producer_id=b"p" * 16) as second:
            await second.put("Q", b"2")
            with pytest.raises(ConnectionEnded) as caught:
                await first.put("Q", b"3")
            assert caught.value.code == ErrorCode.PRODUCER_FENCED
            assert [x.body async for x in second.browse("Q")] == [b"1", b"2"]


def test_invalid_address_is_refused() -> None:
    with pytest.raises(ConnectFailed, match="is not host:port"):
        connect("nowhere")
    with pytest.raises(ValueError, match="is not 16 bytes"):
        connect("unix:/x", producer_id=b"abc")


async def test_no_put_is_taken_while_the_client_closes(tmp_path: Path) -> None:
    """Otherwise, callers that continue to put would keep the client open."""
    async with serve(tmp_path):
        manager = connect(address_of(tmp_path))
        await manager.open()
        await manager.admin.queue_create("Q")
        under_way = await manager.submit("Q", b"1")
        closing = asyncio.create_task(manager.close())
        await asyncio.sleep(0)
        with pytest.raises(ConnectionEnded, match="being closed"):
            await manager.put("Q", b"2")
        await closing
        assert (await under_way).uid is not None
