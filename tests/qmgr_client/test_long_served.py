"""Tests of long messages between the client and a real daemon, in pieces."""

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import QueueManager, RequestError, connect
from qmgr_client.blocking import connect as connect_blocking
from qmgrd.core.context.piece_sender import LongSend, PieceSender
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES
from tests.qmgr_client.served import Server, serve

MIB = 1024 * 1024
LIMITS: dict[str, Any] = {"message_max_bytes": "20 MiB"}  # longer than a frame
SIZES = [252_001, DELIVER_MAX_BYTES, DELIVER_MAX_BYTES + 1, 1_260_000, 4 * MIB, 19 * MIB]


def body_of(size: int) -> bytes:
    return random.Random(size).randbytes(size)


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the records that the daemon sends in pieces."""
    sizes: list[int] = []
    begin = PieceSender.begin

    def begun(self: PieceSender, connection: int, send: LongSend) -> None:
        sizes.append(len(send.record))
        begin(self, connection, send)

    monkeypatch.setattr(PieceSender, "begin", begun)
    return sizes


async def test_long_messages_arrive_as_they_were_put(tmp_path: Path, sent: list[int]) -> None:
    async with serve(tmp_path, **LIMITS) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        bodies = [body_of(size) for size in SIZES]
        uids = [
            (await manager.put("Q", body, headers={"size": len(body)}, correlation_id=b"c")).uid
            for body in bodies
        ]
        for body, uid in zip(bodies, uids, strict=True):
            message = await manager.get("Q")
            assert message is not None
            assert (message.body, message.uid) == (body, uid)
            assert message.headers == {"size": len(body)}
            await manager.ack(message)
        shown = await manager.admin.queue_show("Q")
        assert (shown["depth"], shown["bytes"]) == (0, 0)
    assert len(sent) == 5  # those above 1 MiB, including their heads


async def test_consumer_receives_messages_in_order(tmp_path: Path, sent: list[int]) -> None:
    async with serve(tmp_path, **LIMITS) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        sizes = [10, 3 * MIB, 20, 2 * MIB, 5 * MIB, 30]
        for size in sizes:
            await manager.put("Q", body_of(size))
        found = []
        async for message in manager.consume("Q"):
            found.append(len(message.body))
            await manager.ack(message)
            if len(found) == len(sizes):
                break
        assert found == sizes
    assert len(sent) == 3


async def test_short_messages_pass_between_the_pieces(tmp_path: Path) -> None:
    async with serve(tmp_path, **LIMITS) as address, connect(address) as manager:
        await manager.admin.queue_create("LONG")
        await manager.admin.queue_create("SHORT")
        async with connect(address) as other:
            order = []

            async def put(by: QueueManager, queue: str, body: bytes) -> None:
                await by.put(queue, body)
                order.append(queue)

            long = asyncio.create_task(put(manager, "LONG", body_of(19 * MIB)))
            while not long.done():
                await put(other, "SHORT", b"x")
            assert order.count("SHORT") > 5


async def test_browse_shows_the_beginning_of_a_long_message(tmp_path: Path) -> None:
    async with serve(tmp_path, **LIMITS) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        bodies = [b"short", body_of(6 * MIB), body_of(3 * MIB)]
        for body in bodies:
            await manager.put("Q", body, headers={"size": len(body)})
        found = [message async for message in manager.browse("Q")]
        assert [message.body_bytes for message in found] == [len(body) for body in bodies]
        assert [message.headers["size"] for message in found] == [len(body) for body in bodies]
        short, cut, whole = found
        assert (short.cut_bytes, whole.cut_bytes) == (0, 0)
        assert whole.body == bodies[2]
        assert 200_000 < len(cut.body) < 252_000
        assert bodies[1].startswith(cut.body)
        selected = [x async for x in manager.browse("Q", where=f"size > {4 * MIB}")]
        assert [x.uid for x in selected] == [cut.uid]


async def test_unit_of_work_puts_long_messages(tmp_path: Path) -> None:
    async with serve(tmp_path, **LIMITS) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        async with manager.unit_of_work() as unit:
            await unit.put("Q", body_of(3 * MIB))
            await unit.put("Q", b"short")
        first, second = await manager.get("Q"), await manager.get("Q")
        assert first is not None
        assert second is not None
        assert (first.body, second.body) == (body_of(3 * MIB), b"short")


async def test_message_above_the_limit_is_refused(tmp_path: Path) -> None:
    async with serve(tmp_path, **LIMITS) as address, connect(address) as manager:
        await manager.admin.queue_create("Q", message_max_bytes=2 * MIB)
        with pytest.raises(RequestError, match="exceeds the limit of 2097152 bytes"):
            await manager.put("Q", body_of(3 * MIB))
        await manager.put("Q", body_of(MIB))
        assert (await manager.admin.queue_show("Q"))["depth"] == 1


def test_blocking_client_has_pieces_too(tmp_path: Path, sent: list[int]) -> None:
    server = Server(tmp_path, **LIMITS)
    with server, connect_blocking(server.address) as manager:
        manager.admin.queue_create("Q")
        manager.put("Q", body_of(5 * MIB))
        message = manager.get("Q")
        assert message is not None
        assert message.body == body_of(5 * MIB)
    assert len(sent) == 1
