"""Tests of a client's session whose socket is full, silent, late or closed."""

import asyncio
import time
from pathlib import Path

import pytest

from qmgr_client.aio import ConnectionEnded, PutResult, RequestError, connect
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.listener import Talk, listening


async def store_all(talk: Talk, count: int) -> None:
    """Answers *count* puts."""
    opening = await talk.hear(m.ProducerOpen)
    talk.say(m.Ok(opening.request_id, [1, 0, [], []]))
    done = 0
    while done < count:
        put = await talk.hear(m.Put)
        done += len(put.records)
        talk.say(m.Committed(1, done, [], [[put.first_id, 1_000 + done, len(put.records)]]))


async def test_puts_of_one_turn_of_the_loop_share_a_frame(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            putting = [asyncio.create_task(manager.put("Q", b"x")) for _ in range(20)]
            opening = await talk.hear(m.ProducerOpen)
            talk.say(m.Ok(opening.request_id, [1, 0, [], []]))
            assert len((await talk.hear(m.Put)).records) == 20
            talk.say(m.Committed(1, 20, [], [[1, 500, 20]]))
            results = await asyncio.gather(*putting)
            assert [result.uid.timestamp for result in results if result.uid] == [*range(500, 520)]


async def test_full_socket_holds_puts_back_and_loses_none(tmp_path: Path) -> None:
    async with listening(tmp_path, put_window_bytes=64 * 1024 * 1024) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            body = b"." * 100_000
            futures = [await manager.submit("Q", body) for _ in range(200)]
            await store_all(talk, 200)
            assert [type(await future) for future in futures] == [PutResult] * 200


async def test_silent_queue_manager_is_left_and_dialled_again(tmp_path: Path) -> None:
    async with listening(tmp_path, heartbeat_ms=100, liveness_ms=1_000) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            silent = await greeting
            asking = asyncio.create_task(manager.admin.status())
            await silent.hear(m.Ping)
            await silent.left()
            talk = await listener.greet(heartbeat_ms=10_000, liveness_ms=30_000)
            request = await talk.hear(m.Status)
            talk.say(m.Ok(request.request_id, {"name": "QM1"}))
            assert (await asking)["name"] == "QM1"


async def test_loop_that_was_held_up_reads_before_it_judges(tmp_path: Path) -> None:
    async with listening(tmp_path, heartbeat_ms=100, liveness_ms=800) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            asking = asyncio.create_task(manager.admin.status())
            request = await talk.hear(m.Status)
            talk.say(m.Ok(request.request_id, {}))
            time.sleep(1.0)  # The answer is waiting in the socket.
            assert not await asking
            talk.say(m.Pong())
            asking = asyncio.create_task(manager.admin.status())
            request = await talk.hear(m.Status)  # This request is sent on the same connection.
            talk.say(m.Ok(request.request_id, {}))
            assert not await asking


async def test_goodbye_with_a_wait_is_heeded(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            asking = asyncio.create_task(manager.admin.status())
            await talk.hear(m.Status)
            began = time.monotonic()
            talk.say(m.Goaway(ErrorCode.SHUTTING_DOWN, "stops", 300))
            talk = await listener.greet()
            assert time.monotonic() - began > 0.25, "the pause before the reconnect is missing"
            request = await talk.hear(m.Status)
            talk.say(m.Ok(request.request_id, {}))
            assert not await asking


async def test_lost_producer_goes_on_under_another_id(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            sent = await manager.submit("Q", b"sent")
            first = await talk.hear(m.ProducerOpen)
            talk.say(m.Ok(first.request_id, [1, 0, [], []]))
            await talk.hear(m.Put)
            talk.close()
            talk = await listener.greet()
            request = await talk.hear(m.ProducerOpen)
            assert request.resume
            talk.say(m.Error(request.request_id, ErrorCode.PRODUCER_UNKNOWN, 2, 0, "not known"))
            with pytest.raises(RequestError, match="not known"):
                await sent
            again = await manager.submit("Q", b"again")
            second = await talk.hear(m.ProducerOpen)
            assert second.producer_id != first.producer_id
            talk.say(m.Ok(second.request_id, [2, 0, [], []]))
            await talk.hear(m.Put)
            talk.say(m.Committed(2, 1, [], [[1, 7, 1]]))
            assert (await again).uid is not None


async def test_refusal_for_good_wakes_those_who_wait_for_room(tmp_path: Path) -> None:
    async with listening(tmp_path, put_window_messages=1) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            putting = [asyncio.create_task(manager.put("Q", b"x")) for _ in range(5)]
            await talk.hear(m.ProducerOpen)
            talk.say(m.Goaway(ErrorCode.NOT_AUTHORIZED, "not you"))
            results = await asyncio.gather(*putting, return_exceptions=True)
            assert [type(result) for result in results] == [ConnectionEnded] * 5


async def test_put_that_is_given_up_harms_nobody(tmp_path: Path) -> None:
    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            given_up = asyncio.create_task(manager.put("Q", b"x"))
            kept = asyncio.create_task(manager.put("Q", b"y"))
            storing = asyncio.create_task(store_all(talk, 2))
            await asyncio.sleep(0)
            given_up.cancel()
            await storing
            assert (await kept).uid is not None
            assert given_up.cancelled()
