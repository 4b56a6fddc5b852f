"""Tests of the requests that gets, settles and browses send to the queue manager."""

import asyncio
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import MessageDamaged, QueueManager, RequestError, Uid, connect
from qmgr_client.message import Home, Message, decode
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import encode_uid
from tests.qmgr_client.listener import Talk, listening
from tests.qmgr_client.scripted import STORE, delivery

UID = Uid("QM1", 7)
MESSAGE: Message = decode(delivery(b"x"), "Q", 3, Home(STORE, 1))


async def heard_of(directory: Path, kind: type[Any], verb: Any, answer: Any = None) -> Any:
    """Returns the message of *kind* that *verb* sends. The message is answered with *answer*."""
    async with listening(directory) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            asked: Coroutine[Any, Any, Any] = verb(manager)
            task = asyncio.create_task(asked)
            message = await talk.hear(kind)
            answers(talk, message, answer)
            await task
            return message


def answers(talk: Talk, message: Any, answer: Any) -> None:
    if type(message) is m.Settle:
        talk.say(m.Settled(message.settle_id))
    else:
        talk.say(m.Ok(message.request_id, answer))


@pytest.mark.parametrize(
    ("selection", "field", "value"),
    [
        ({"where": "a = 1"}, "where", "a = 1"),
        ({"correlation_id": b"c"}, "correlation_id", b"c"),
        ({"group_id": b"g" * 24}, "group_id", b"g" * 24),
        ({"uid": UID}, "uid", encode_uid(UID)),
    ],
)
async def test_get_sends_its_arguments(
    tmp_path: Path, selection: Any, field: str, value: Any
) -> None:
    get = await heard_of(tmp_path, m.Get, lambda manager: manager.get("Q", **selection))
    assert get == m.Get(get.request_id, "Q", **{field: value})


async def browsed(manager: QueueManager, **options: Any) -> list[bytes]:
    return [message.body async for message in manager.browse("Q", **options)]


async def test_browse_sends_its_arguments(tmp_path: Path) -> None:
    browse = await heard_of(
        tmp_path,
        m.Browse,
        lambda manager: browsed(manager, where="a = 1", delayed=True),
        {"items": [], "next": None},
    )
    assert browse == m.Browse(browse.request_id, "Q", where="a = 1", delayed=True)


async def test_browse_goes_on_behind_a_page_that_is_empty(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            task = asyncio.create_task(browsed(manager, where="a = 1", limit=5))
            for items, place in (([], [4, 17]), ([delivery(b"x")], [4, 30]), ([], None)):
                page = await talk.hear(m.Browse)
                talk.say(m.Ok(page.request_id, {"items": items, "next": place}))
            assert await task == [b"x"]
            assert (page.after, page.messages_max) == ([4, 30], 4)


async def test_consumer_sends_its_arguments(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            consumer = manager.consume("Q", correlation_id=b"c")
            assert (await talk.hear(m.Consume)).correlation_id == b"c"
            consumer.__del__()


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (lambda x: x.release(MESSAGE), (m.RELEASE, -1, 0, "", "")),
        (lambda x: x.release(MESSAGE, 500), (m.RELEASE, 500, 0, "", "")),
        (lambda x: x.release(MESSAGE, 0, failed=False), (m.RETURN, 0, 0, "", "")),
        (
            lambda x: x.release(MESSAGE, reason="BUSY", text="the printer is off"),
            (m.RELEASE, -1, 0, "BUSY", "the printer is off"),
        ),
        (lambda x: x.reject(MESSAGE, "BAD", "no carrier"), (m.REJECT, -1, 0, "BAD", "no carrier")),
        (lambda x: x.renew(MESSAGE), (m.RENEW, -1, 0, "", "")),
        (lambda x: x.renew(MESSAGE, 60_000), (m.RENEW, -1, 60_000, "", "")),
    ],
)
async def test_end_of_a_lease_sends_its_terms(
    tmp_path: Path, verb: Any, expected: tuple[Any]
) -> None:
    settle = await heard_of(tmp_path, m.Settle, verb)
    assert (settle.action, *settle[5:]) == expected
    assert settle.handles == MESSAGE.handle


async def test_time_to_try_again_becomes_a_delay(tmp_path: Path) -> None:
    retry_at = datetime.now(UTC) + timedelta(hours=1)
    verb = heard_of(tmp_path, m.Settle, lambda x: x.release(MESSAGE, retry_at=retry_at))
    assert 3_500_000 < (await verb).delay_ms <= 3_600_000


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"delay_ms": 1, "retry_at": datetime.now(UTC)}, "both set"),
        ({"retry_at": datetime(2026, 1, 1)}, "no time zone"),
        ({"delay_ms": -2}, "delay_ms"),
        ({"reason": "x" * 65}, "reason"),
    ],
)
async def test_release_that_means_nothing_is_refused(
    tmp_path: Path, options: Any, why: str
) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            await greeting
            with pytest.raises(RequestError, match=why) as caught:
                await manager.release(MESSAGE, **options)
            assert caught.value.code == ErrorCode.VALUE_INVALID


async def test_others_go_back_unread_where_one_is_damaged(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            task = asyncio.create_task(manager.get_many("Q", 10))
            get = await talk.hear(m.Get)
            damaged = delivery(b"x", 2)[:-1] + b"?"
            talk.say(m.Deliver(get.request_id, 3, [delivery(b"x", 1), damaged]))
            with pytest.raises(MessageDamaged):
                await task
            settle = await talk.hear(m.Settle)
            assert (settle.action, settle.handles) == (m.UNREAD, delivery(b"x", 1)[:17])
            talk.say(m.Settled(settle.settle_id))


async def test_put_at_a_time_of_day_is_put_with_a_delay(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            deliver_at = datetime.now(UTC) + timedelta(hours=1)
            task = asyncio.create_task(manager.put("Q", b"x", deliver_at=deliver_at))
            opening = await talk.hear(m.ProducerOpen)
            talk.say(m.Ok(opening.request_id, [7, 0, [], []]))
            put = await talk.hear(m.Put)
            talk.say(m.Committed(7, 1, [], [[1, 5, 1]]))
            await task
            found = decode(delivery()[:30] + put.records[0], "Q", 3)
            assert 3_500_000 < found.delay_ms <= 3_600_000
