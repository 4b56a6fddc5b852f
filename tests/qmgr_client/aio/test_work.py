"""Tests of workers on the event loop: their messages, stops and lost connections."""

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from qmgr_client.aio import Message, QueueManager, RequestError, connect, worker
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgr_client.listener import listening
from tests.qmgr_client.scripted import delivery
from tests.qmgr_client.served import serve


@pytest.fixture
async def manager(tmp_path: Path) -> AsyncIterator[QueueManager]:
    async with serve(tmp_path) as address, connect(address) as manager:
        await manager.admin.queue_create("Q", backout_threshold=2, backout_queue="DEAD")
        await manager.admin.queue_create("DEAD")
        yield manager


class Hands:
    """The function of a worker. It waits for the test, and records the messages it works on."""

    def __init__(self) -> None:
        self.begun: list[bytes] = []
        self.done: list[bytes] = []
        self.cancelled: list[bytes] = []
        self.may_end = asyncio.Event()
        self._changed = asyncio.Condition()

    async def __call__(self, message: Message) -> None:
        self.begun.append(message.body)
        await self._tell()
        try:
            await self.may_end.wait()
        except asyncio.CancelledError:
            self.cancelled.append(message.body)
            raise
        self.done.append(message.body)
        await self._tell()

    async def have(self, begun: int = 0, done: int = 0) -> None:
        """Waits until the function has begun and finished the given numbers of messages."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: len(self.begun) >= begun and len(self.done) >= done
            )

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


async def counted(manager: QueueManager, queue: str = "Q") -> tuple[int, int]:
    """Returns the number of messages on a queue and the number of leased messages."""
    row = await manager.admin.queue_show(queue)
    return row["depth"], row["leased"]


async def test_worker_processes_as_many_at_a_time_as_its_concurrency(manager: QueueManager) -> None:
    hands = Hands()

    @worker("Q", concurrency=3)
    async def bill(message: Message) -> None:
        await hands(message)

    await manager.put_many("Q", [b"%d" % number for number in range(10)])
    working = asyncio.create_task(manager.work(bill))
    await hands.have(begun=3)
    assert hands.begun == [b"0", b"1", b"2"]
    hands.may_end.set()
    await hands.have(done=10)
    manager.stop_work()
    await working
    assert sorted(hands.done) == [b"%d" % number for number in range(10)]
    assert await counted(manager) == (0, 0)


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT, None])
async def test_stop_finishes_what_is_worked_on_and_gives_the_rest_back(
    manager: QueueManager, stop: signal.Signals | None
) -> None:
    hands = Hands()

    @worker("Q", concurrency=2)
    async def bill(message: Message) -> None:
        await hands(message)

    await manager.put_many("Q", [b"%d" % number for number in range(6)])
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    working = asyncio.create_task(manager.work(bill))
    await hands.have(begun=2)
    if stop is None:
        manager.stop_work()
    else:
        os.kill(os.getpid(), stop)
    while (await counted(manager))[1] > 2:  # Prefetched messages return to the queue immediately.
        assert not working.done()
    hands.may_end.set()
    await working
    assert hands.done == hands.begun == [b"0", b"1"]
    assert await counted(manager) == (4, 0)
    assert before == (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT))
    message = await manager.get("Q")
    assert message is not None
    assert (message.body, message.redelivered, message.failed) == (b"2", "no", 0)


async def test_signals_are_left_alone_if_the_program_has_its_own_way(manager: QueueManager) -> None:
    hands = Hands()

    @worker("Q")
    async def bill(message: Message) -> None:
        await hands(message)

    await manager.put("Q", b"x")
    before = signal.getsignal(signal.SIGTERM)
    working = asyncio.create_task(manager.work(bill, signals=False))
    await hands.have(begun=1)
    assert signal.getsignal(signal.SIGTERM) == before
    hands.may_end.set()
    manager.stop_work()
    await working


async def test_cancelled_work_is_given_back_and_is_no_failure(manager: QueueManager) -> None:
    hands = Hands()

    @worker("Q", concurrency=2)
    async def bill(message: Message) -> None:
        await hands(message)

    await manager.put_many("Q", [b"%d" % number for number in range(6)])
    working = asyncio.create_task(manager.work(bill))
    await hands.have(begun=2)
    working.cancel()
    with pytest.raises(asyncio.CancelledError):
        await working
    assert sorted(hands.cancelled) == [b"0", b"1"]
    messages = await manager.get_many("Q", 6)
    assert [message.failed for message in messages] == [0] * 6
    assert [message.redelivered for message in messages] == ["yes", "yes", *["no"] * 4]


async def test_failure_is_logged_and_leads_to_a_dead_letter(
    manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    @worker("Q")
    async def bill(message: Message) -> None:
        raise LookupError("no such customer")

    bad = await manager.put("Q", b"bad")
    with caplog.at_level(logging.WARNING, "qmgr_client"):
        working = asyncio.create_task(manager.work(bill))
        dead = await manager.get("DEAD", wait_ms=5_000)
        manager.stop_work()
        await working
    assert dead is not None
    assert dead.dead is not None
    assert (dead.dead.reason, dead.dead.text) == ("LookupError", "no such customer")
    assert [record.getMessage() for record in caplog.records] == [
        f"Q: message {bad.uid}: LookupError: no such customer"
    ] * 2
    assert await counted(manager) == (0, 0)


async def test_consumer_that_is_refused_stops_all_in_good_order(manager: QueueManager) -> None:
    hands = Hands()

    @worker("Q")
    async def bill(message: Message) -> None:
        await hands(message)

    @worker("LATER")
    async def later(message: Message) -> None: ...

    await manager.admin.queue_create("LATER")
    await manager.put("Q", b"x")
    working = asyncio.create_task(manager.work(bill, later))
    await hands.have(begun=1)
    await manager.admin.queue_delete("LATER")
    hands.may_end.set()
    with pytest.raises(RequestError) as caught:
        await working
    assert caught.value.code == ErrorCode.QUEUE_DELETED
    assert (hands.done, hands.cancelled) == ([b"x"], [])
    assert await counted(manager) == (0, 0)


async def test_close_ends_the_work(tmp_path: Path) -> None:
    async with serve(tmp_path) as address:
        async with connect(address) as manager:
            await manager.admin.queue_create("Q")

            @worker("Q", concurrency=2)
            async def bill(message: Message) -> None: ...

            working = asyncio.create_task(manager.work(bill))
            await manager.admin.queue_show("Q")
        await working


@pytest.mark.parametrize("concurrency", [1, 2])
async def test_work_that_is_cut_off_is_not_begun_twice(
    manager: QueueManager, concurrency: int
) -> None:
    """The message is redelivered to the same client, which settles the new lease."""
    hands = Hands()

    @worker("Q", concurrency=concurrency)
    async def bill(message: Message) -> None:
        await hands(message)

    await manager.put("Q", b"cut")
    working = asyncio.create_task(manager.work(bill))
    await hands.have(begun=1)
    manager._session.drop()
    while (await counted(manager))[1] < 1:
        pass  # The test waits for the redelivery.
    await manager.put("Q", b"next")
    await hands.have(begun=concurrency)
    hands.may_end.set()
    await hands.have(done=2)
    assert hands.begun == [b"cut", b"next"]
    manager.stop_work()
    await working
    assert await counted(manager) == (0, 0)


async def test_message_that_was_released_inside_is_worked_on_again(manager: QueueManager) -> None:
    """A message can be processed again while the function that released it is still running."""
    begun: list[int] = []
    again = asyncio.Event()

    @worker("Q", concurrency=2)
    async def bill(message: Message) -> None:
        begun.append(message.delivered)
        if len(begun) == 1:
            await manager.release(message, failed=False)
            await again.wait()
        else:
            again.set()
            manager.stop_work()

    await manager.put("Q", b"x")
    await manager.work(bill)
    assert begun == [0, 1]
    assert await counted(manager) == (0, 0)


async def test_message_that_cannot_be_read_becomes_a_dead_letter(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @worker("Q")
    async def bill(message: Message) -> None:
        raise AssertionError(message)

    async with listening(tmp_path) as listener:
        greeting = asyncio.create_task(listener.greet())
        async with connect(listener.address) as manager:
            talk = await greeting
            working = asyncio.create_task(manager.work(bill))
            consume = await talk.hear(m.Consume)
            damaged = delivery(b"bad", 1, 1)[:-1] + b"?"
            talk.say(m.Ok(consume.request_id, [3, 30_000]))
            talk.say(m.Deliver(consume.request_id, 3, [damaged]))
            assert (await talk.hear(m.Settle)).action == m.RENEW
            settle = await talk.hear(m.Settle)
            assert (settle.action, settle.reason) == (m.REJECT, "MessageDamaged")
            talk.say(m.Settled(settle.settle_id))
            manager.stop_work()
            cancel = await talk.hear(m.Cancel)
            talk.say(m.Ended(cancel.request_id, ErrorCode.CANCELLED))
            await working
    assert "MessageDamaged" in caplog.text


async def test_lease_is_kept_for_as_long_as_the_work_takes(manager: QueueManager) -> None:
    """No other consumer receives a message while its lease is renewed."""
    hands = Hands()

    @worker("Q", lease_ms=1_200)
    async def bill(message: Message) -> None:
        await hands(message)

    await manager.put("Q", b"x")
    working = asyncio.create_task(manager.work(bill))
    await hands.have(begun=1)
    assert await manager.get("Q", wait_ms=2_600) is None
    hands.may_end.set()
    manager.stop_work()
    await working
    assert await counted(manager) == (0, 0)


async def test_task_that_a_function_waits_for_and_that_is_cancelled_ends_no_worker(
    manager: QueueManager, caplog: pytest.LogCaptureFixture
) -> None:
    begun: list[bytes] = []
    done = asyncio.Event()

    @worker("Q")
    async def bill(message: Message) -> None:
        begun.append(message.body)
        if begun == [b"1"]:
            waiting = asyncio.create_task(asyncio.sleep(60))
            waiting.cancel()
            await waiting
        if len(begun) == 3:
            done.set()

    await manager.put_many("Q", [b"1", b"2"])
    working = asyncio.create_task(manager.work(bill))
    await done.wait()
    manager.stop_work()
    await working
    assert sorted(begun) == [b"1", b"1", b"2"]
    assert "CancelledError" in caplog.text
