"""Tests of long messages over a socket, with a scripted queue manager that accepts pieces."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from qmgr_client.aio import QueueManager, connect
from qmgr_protocol import messages as m
from qmgr_protocol.pieces import PIECE_BYTES
from tests.qmgr_client.keeper import Keeper
from tests.qmgr_client.listener import Listener, kept, listening

MIB = 1024 * 1024
BODY = bytes(range(256)) * (12 * MIB // 256)


@asynccontextmanager
async def keeping(directory: Path) -> AsyncIterator[tuple[QueueManager, Keeper, Listener]]:
    """Connects to a keeper that accepts pieces and messages of 100 MiB."""
    keeper = Keeper()
    keeper.pieces = True
    welcome = {"piece_max_bytes": PIECE_BYTES, "message_max_bytes": 100 * MIB}
    async with (
        listening(directory, **welcome) as listener,
        kept(listener, keeper),
        connect(listener.address) as manager,
    ):
        yield manager, keeper, listener


async def test_long_message_is_put_and_got(tmp_path: Path) -> None:
    async with keeping(tmp_path) as (manager, keeper, _):
        result = await manager.put("Q", BODY)
        message = await manager.get("Q")
    assert message is not None
    assert (message.body, message.uid, message.damage) == (BODY, result.uid, "")
    assert max(keeper.longest_frames) == PIECE_BYTES


async def test_short_puts_are_answered_while_a_long_one_is_sent(tmp_path: Path) -> None:
    async with keeping(tmp_path) as (manager, keeper, _):
        long = asyncio.create_task(manager.put("LONG", BODY))
        while not keeper.longest_frames:
            await asyncio.sleep(0)
        for number in range(5):
            await manager.put("SHORT", b"%d" % number)
        assert not long.done()
        await long
    assert (keeper.ready["SHORT"], keeper.ready["LONG"]) == ([b"0", b"1", b"2", b"3", b"4"], [BODY])


async def test_progress_of_a_long_put_grows_to_its_size(tmp_path: Path) -> None:
    async with keeping(tmp_path) as (manager, _, _):
        assert manager.long_bytes == (0, 0)
        put = asyncio.create_task(manager.put("Q", BODY))
        seen = [(0, 0)]
        while not put.done():
            seen.append(manager.long_bytes)
            await asyncio.sleep(0)
        assert manager.long_bytes == (0, 0)
    (total,) = {total for _, total in seen if total}
    done = [done for done, total in seen if total]
    assert done == sorted(done)
    assert MIB < max(done) <= total
    assert total > len(BODY)


@pytest.mark.parametrize("pieces", [1, 3, 20])
async def test_long_put_is_repeated_after_a_lost_connection(tmp_path: Path, pieces: int) -> None:
    async with keeping(tmp_path) as (manager, keeper, listener):
        await manager.put("Q", b"first")
        put = asyncio.create_task(manager.put("Q", BODY))
        while len(keeper.longest_frames) < pieces + 1:
            await asyncio.sleep(0)
        listener.cut_at = m.Piece, False
        await put
    assert keeper.ready["Q"] == [b"first", BODY]


async def test_long_put_whose_answer_was_lost_is_stored_once(tmp_path: Path) -> None:
    async with keeping(tmp_path) as (manager, keeper, listener):
        await manager.put("Q", b"first")
        listener.cut_at = m.Put, True
        result = await manager.put("Q", BODY)
    assert result.resent
    assert keeper.ready["Q"] == [b"first", BODY]


async def test_long_messages_are_put_and_got_in_a_unit(tmp_path: Path) -> None:
    async with keeping(tmp_path) as (manager, keeper, _):
        async with manager.unit_of_work() as unit:
            await unit.put_many("Q", [b"1", BODY, b"2"])
        assert keeper.ready["Q"] == [b"1", BODY, b"2"]
        async with manager.unit_of_work() as unit:
            got = [found.body for found in await unit.get_many("Q", 10)]
        assert got == [b"1", BODY, b"2"]
    assert (keeper.ready["Q"], keeper.leased) == ([], {})


async def test_other_tasks_run_while_a_long_message_is_written(tmp_path: Path) -> None:
    """A socket that accepts all bytes must not occupy the event loop until the end."""
    async with keeping(tmp_path) as (manager, _, _):
        turns = 0
        put = asyncio.create_task(manager.put("Q", BODY))
        while not put.done():
            turns += 1
            await asyncio.sleep(0)
    assert turns > len(BODY) // MIB
