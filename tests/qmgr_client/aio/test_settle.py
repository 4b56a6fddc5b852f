"""Tests of settling leased messages, and of the errors for mistakes of the caller."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import QueueManager, connect
from qmgr_protocol.errors import ErrorCode, RequestError
from tests.qmgr_client.served import serve

MISTAKES: list[tuple[Callable[[QueueManager], Awaitable[Any]], str]] = [
    (lambda q: q.ack(None), "ack requires a message, not NoneType: get returns None if"),  # type: ignore[arg-type]
    (lambda q: q.ack_soon("x"), "ack_soon requires a message, not str"),  # type: ignore[arg-type]
    (lambda q: q.release(b"x"), "release requires a message, not bytes"),  # type: ignore[arg-type]
    (lambda q: q.reject(7), "reject requires a message, not int"),  # type: ignore[arg-type]
    (lambda q: q.renew([]), "renew requires a message, not list"),  # type: ignore[arg-type]
    (lambda q: q.ack_many(None), "ack_many requires a list of messages, not NoneType"),  # type: ignore[arg-type]
    (lambda q: q.ack_many([None]), "ack_many requires a message, not NoneType"),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("mistake", "why"), MISTAKES)
async def test_value_that_is_not_a_message_is_refused(
    tmp_path: Path, mistake: Callable[[QueueManager], Awaitable[Any]], why: str
) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        with pytest.raises(RequestError, match=why) as caught:
            await mistake(manager)
        assert caught.value.code is ErrorCode.VALUE_INVALID


async def test_one_message_is_no_list(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put("Q", b"x")
        message = await manager.get("Q")
        assert message is not None
        with pytest.raises(RequestError, match=r"not Message: write \[message\]"):
            await manager.ack_many(message)  # type: ignore[arg-type]
        async with manager.unit_of_work() as unit:
            with pytest.raises(RequestError, match="ack requires a message"):
                await unit.ack(None)  # type: ignore[arg-type]
            assert await unit.ack_many([message]) == [None]
        assert (await manager.admin.queue_show("Q"))["depth"] == 0


async def test_message_goes_back_and_ends(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put("Q", b"x")
        for again in range(2):
            message = await manager.get("Q")
            assert message is not None
            assert message.failed == again
            await manager.release(message)
        message = await manager.get("Q")
        assert message is not None
        with pytest.raises(RequestError, match="delay_ms and retry_at are both set"):
            await manager.release(message, 5, retry_at=datetime.now(UTC) + timedelta(hours=1))
        await manager.renew(message, timedelta(minutes=1))
        assert await manager.ack_many([message]) == [None]
        await (await manager.ack_soon(message))
