"""The verbs for asyncio, against a real daemon."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from qmgr_client.aio import (
    ConnectFailed,
    ConnectionEnded,
    Outgoing,
    PutResult,
    QueueManager,
    RequestError,
    Uid,
    connect,
)
from qmgr_protocol.errors import ErrorClass, ErrorCode
from tests.qmgr_client.served import address_of, serve


async def bodies(manager: QueueManager, queue: str = "Q") -> list[bytes]:
    return [message.body async for message in manager.browse(queue)]


async def test_message_goes_there_and_back(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        assert manager.name == "QM1"
        await manager.admin.queue_create("Q")
        result = await manager.put(
            "Q",
            b"apples",
            priority=7,
            correlation_id=b"c",
            headers={"customer": "ann", "kg": 3},
            reply_to="R",
            content_type="text/plain",
        )
        message = await manager.get("Q")
        assert message is not None
        assert (message.body, message.uid, message.queue) == (b"apples", result.uid, "Q")
        assert (message.priority, message.correlation_id) == (7, b"c")
        assert message.headers == {"customer": "ann", "kg": 3}
        assert (message.reply_to, message.content_type) == ("R", "text/plain")
        assert (message.redelivered, message.delivered, message.failed) == ("no", 0, 0)
        assert await manager.get("Q") is None
        await manager.ack(message)
        assert (await manager.admin.queue_show("Q"))["depth"] == 0


async def test_tcp_serves_as_well(tmp_path: Path) -> None:
    async with serve(tmp_path, tcp=True) as address, connect(address) as manager:
        assert address.startswith("127.0.0.1:")
        await manager.admin.queue_create("Q")
        assert (await manager.put("Q", b"x")).uid is not None


async def test_released_message_comes_again(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put("Q", b"x")
        first = await manager.get("Q")
        assert first is not None
        await manager.release(first)
        second = await manager.get("Q")
        assert second is not None
        assert (second.uid, second.redelivered, second.failed) == (first.uid, "yes", 1)


async def test_refusal_has_its_code(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        for asking in (
            manager.put("NONE", b"x"),
            manager.get("NONE"),
            manager.admin.queue_show("NONE"),
        ):
            with pytest.raises(RequestError, match="does not exist") as caught:
                await asking
            assert caught.value.code == ErrorCode.QUEUE_UNKNOWN
            assert caught.value.error_class is ErrorClass.NEVER


async def test_what_the_protocol_does_not_allow_is_refused_here(tmp_path: Path) -> None:
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
        assert (await manager.admin.status())["name"] == "QM1", "the connection is unharmed"


async def test_client_that_is_not_open_says_so() -> None:
    manager = connect("127.0.0.1:1")
    await manager.close()
    for asking in (manager.put("Q", b"x"), manager.get("Q"), manager.admin.status()):
        with pytest.raises(ConnectionEnded, match="the client is not open: use it in"):
            await asking
    with pytest.raises(ConnectionEnded, match="not open"):
        manager.consume("Q")


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
    with pytest.raises(ValueError, match=r"is not 16 bytes|is negative|is no text|at most 255"):
        connect("127.0.0.1:1", **wrong)


async def test_put_many_tells_of_each(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q", depth_max=3)
        uid = Uid("ELSEWHERE", 5)
        results = await manager.put_many(
            "Q", [b"a", Outgoing(b"b", uid=uid), Outgoing(b"?", priority=11), b"c", b"d"]
        )
        assert isinstance(results[0], PutResult)
        assert results[1] == PutResult(uid, resent=False)
        codes = [result.code for result in results if isinstance(result, RequestError)]
        assert codes == [ErrorCode.VALUE_INVALID, ErrorCode.QUEUE_FULL]
        assert await bodies(manager) == [b"a", b"b", b"c"]


async def test_uids_of_a_large_batch_are_in_order_and_each_its_own(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        results = await manager.put_many("Q", [b"%d" % i for i in range(3_000)])
        stamps = [r.uid.timestamp for r in results if isinstance(r, PutResult) and r.uid]
        assert len(set(stamps)) == 3_000
        assert stamps == sorted(stamps)
        found = [message async for message in manager.browse("Q", 250)]
        assert [message.uid.timestamp for message in found if message.uid] == stamps[:250]


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
        assert sum(not future.done() for future in futures) <= 9, "two windows, and the one let in"
        assert len({(await future).uid for future in futures}) == 100


async def test_consumer_hands_out_what_comes(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        seen: list[bytes] = []

        async def take() -> None:
            async for message in manager.consume("Q", prefetch=8):
                seen.append(message.body)
                await manager.ack(message)
                if len(seen) == 100:
                    return

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(take())
            for number in range(100):
                await manager.put("Q", b"%d" % number)
        assert seen == [b"%d" % number for number in range(100)]
        assert (await manager.admin.queue_show("Q"))["depth"] == 0


async def test_cancelled_consumer_gives_back_what_was_not_handed_out(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put_many("Q", [b"a", b"b", b"c"])
        async with manager.consume("Q") as consumer:
            first = await anext(consumer)
        with pytest.raises(StopAsyncIteration):
            await anext(consumer)
        await manager.ack(first)
        assert await manager.get_many("Q", 10, wait_ms=5_000) != []
        assert (await manager.admin.queue_show("Q"))["consumers"] == 0


async def test_consumer_that_is_dropped_ends(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put("Q", b"x")
        async for message in manager.consume("Q"):
            await manager.ack(message)
            break
        while (await manager.admin.queue_show("Q"))["consumers"]:
            await asyncio.sleep(0)


async def test_consumer_of_a_deleted_queue_raises(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        consumer = manager.consume("Q")
        waiting = asyncio.create_task(anext(consumer))
        while not (await manager.admin.queue_show("Q"))["consumers"]:
            await asyncio.sleep(0)
        await manager.admin.queue_delete("Q")
        with pytest.raises(RequestError, match="was deleted"):
            await waiting


async def test_tasks_share_a_consumer(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        seen: set[bytes] = set()
        async with manager.consume("Q", prefetch=4) as consumer:

            async def take() -> None:
                async for message in consumer:
                    seen.add(message.body)
                    await manager.ack_soon(message)

            async with asyncio.TaskGroup() as tasks:
                for _ in range(3):
                    tasks.create_task(take())
                await manager.put_many("Q", [b"%d" % i for i in range(50)])
                while len(seen) < 50:
                    await asyncio.sleep(0)
                await consumer.cancel()


async def test_acks_tell_of_each(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        await manager.put_many("Q", [b"a", b"b"])
        old = await manager.get_many("Q", 2)
        assert len(old) == 2
        await manager.release(old[1])
        assert await manager.get("Q") is not None
        errors = await manager.ack_many(old)
        assert errors[0] is None
        assert errors[1] is not None
        assert errors[1].code == ErrorCode.LEASE_LOST


async def test_get_waits_and_is_given_up(tmp_path: Path) -> None:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q")
        getting = asyncio.create_task(manager.get("Q", wait_ms=60_000))
        await manager.admin.status()
        getting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await getting
        await manager.put("Q", b"x")
        message = await manager.get("Q", wait_ms=5_000)
        assert message is not None
        assert message.body == b"x"


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


async def test_refused_connection_says_what_where_and_what_to_try(tmp_path: Path) -> None:
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
            assert await bodies(second) == [b"1", b"2"]


def test_what_names_nothing_is_refused() -> None:
    with pytest.raises(ConnectFailed, match="is not host:port"):
        connect("nowhere")
    with pytest.raises(ValueError, match="is not 16 bytes"):
        connect("unix:/x", producer_id=b"abc")


async def test_no_put_is_taken_while_the_client_closes(tmp_path: Path) -> None:
    """Else those who go on putting keep it open."""
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
