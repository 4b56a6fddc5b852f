"""Workers, for asyncio: functions that run for each message of a queue.

    @worker("ORDERS", concurrency=3)
    async def bill(message):
        await queue_manager.put("BILLS", bill_of(message.body))

    async with connect("127.0.0.1:7470") as queue_manager:
        await queue_manager.work(bill)  # until SIGTERM, SIGINT or stop_work()

The end of the function settles the message, like the end of a ``processing`` block. If the
connection is lost while a function runs, its message may be delivered again to the same client. In
this case, the function does not run again for this message. The end of the running function settles
the new lease.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from contextlib import nullcontext, suppress
from typing import Any, TypeAlias, Unpack

from qmgr_client.aio.consumer import Consumer
from qmgr_client.aio.messaging import Messaging
from qmgr_client.aio.processing import Processing
from qmgr_client.aio.session import Session
from qmgr_client.duration import Duration
from qmgr_client.errors import MessageDamaged
from qmgr_client.failure_reason import failure_reason
from qmgr_client.message import Message
from qmgr_client.queue_worker import Worker
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.settles import SettleTerms
from qmgr_client.selection import Selection
from qmgr_client.stop_signals import first_signal
from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import Uid

Running: TypeAlias = Coroutine[Any, Any, object]
PREFETCH_OF_EACH = 2  # messages for each concurrent run: the current one and the next one
logger = logging.getLogger("qmgr_client")


def worker(
    queue: str, concurrency: int = 1, *, lease_ms: Duration = 0, **selection: Unpack[Selection]
) -> Callable[[Callable[[Message], Running]], Worker[Running]]:
    """Turns an async function of one message into a worker for :meth:`QueueManager.work`.

    Args:
        queue: The name of the queue or durable subscription.
        concurrency: The maximum number of messages that the worker processes at the same time.
        lease_ms: The length of each lease. 0 uses the queue's ``lease_ms``. The client renews the
            lease while the function runs.
        selection: At most one of ``where``, ``correlation_id`` and ``group_id``.

    Raises:
        TypeError: The function is not async, or does not accept exactly one message.
        ValueError: *concurrency* is below 1.
    """

    def decorated(function: Callable[[Message], Running]) -> Worker[Running]:
        if not inspect.iscoroutinefunction(function):
            text = f"{function!r} is not async: use the worker of qmgr_client.blocking"
            raise TypeError(text)
        return Worker(function, queue, concurrency, lease_ms, selection)

    return decorated


class Work(Messaging):
    """The methods that run and stop workers."""

    def __init__(self, core: ClientCore) -> None:
        super().__init__(core)
        self._stops: set[asyncio.Event] = set()

    async def work(self, *workers: Worker[Running], signals: bool = True) -> None:
        """Runs each worker for the messages of its queue until the workers are stopped.

        The end of the function settles the message, like the end of a :meth:`processing` block. An
        exception releases the message as failed and is logged as a warning of the logger
        ``qmgr_client``. The client renews the lease of a message while a function works on it.

        SIGTERM, SIGINT and :meth:`stop_work` stop the workers gracefully. The workers finish their
        current messages, and prefetched messages return to their queues. Then this method returns.
        :meth:`QueueManager.close` also stops the workers, but does not wait for them. A second
        signal has its usual effect. For example, SIGINT cancels the workers, and their messages
        return to the queues.

        Args:
            workers: Functions decorated with :func:`worker`.
            signals: Whether signals stop the workers. Signals are handled only in the main thread.

        Raises:
            RequestError: The queue manager ended a consumer, for example with QUEUE_UNKNOWN. The
                workers have finished their current messages.
        """
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        watching = first_signal(lambda: loop.call_soon_threadsafe(stop.set))
        with watching if signals else nullcontext():
            await self.work_until(stop, *workers)

    async def work_until(self, stop: asyncio.Event, *workers: Worker[Running]) -> None:
        """Runs *workers* like :meth:`work` until *stop* is set, but does not handle signals."""
        shifts = [_RunningWorker(self._session, self._consumer(each), each) for each in workers]
        tasks = [asyncio.create_task(run) for shift in shifts for run in shift.runs()]
        waiting = asyncio.create_task(stop.wait())
        self._stops.add(stop)
        try:
            await asyncio.wait([waiting, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for shift in shifts:
                await shift.consumer.cancel()
            if tasks:
                await asyncio.wait(tasks)
        finally:
            self._stops.discard(stop)
            await _cancelled([waiting, *tasks])
            for shift in shifts:
                await shift.consumer.cancel()
        for error in filter(None, [task.exception() for task in tasks]):
            raise error

    def stop_work(self) -> None:
        """Stops :meth:`work` gracefully, like SIGTERM. Call this method on the event loop."""
        for stop in self._stops:
            stop.set()

    def _consumer(self, each: Worker[Running]) -> Consumer:
        prefetch = PREFETCH_OF_EACH * each.concurrency
        return self.consume(each.queue, prefetch, each.lease_ms, auto_renew=True, **each.selection)


class _RunningWorker:
    """A running worker. ``_in_hand`` has its current messages. The key is the UID."""

    def __init__(self, session: Session, consumer: Consumer, worker: Worker[Running]) -> None:
        self.consumer = consumer
        self._session = session
        self._worker = worker
        self._in_hand: dict[Uid | None, Processing] = {}

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Returns the coroutines to run concurrently. Each one processes messages in sequence."""
        return [self._run() for _ in range(self._worker.concurrency)]

    async def _run(self) -> None:
        while True:
            try:
                message = await anext(self.consumer, None)
            except MessageDamaged as damaged:
                await self._reject(damaged)
                continue
            if message is None:
                return
            held = self._in_hand.get(message.uid)
            if held is None or not held.take_over(message):
                await self._work_on(message)

    async def _work_on(self, message: Message) -> None:
        processing = self._in_hand[message.uid] = Processing(self._session, message)
        try:
            async with processing:
                await self._worker.function(message)
        except Exception as error:  # The function failed, or the ack was refused.
            self._log(message, error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._log(message, error)  # A task that the function awaited was cancelled.
        finally:
            if self._in_hand.get(message.uid) is processing:
                del self._in_hand[message.uid]

    async def _reject(self, damaged: MessageDamaged) -> None:
        """Rejects a message that cannot be read, because it would fail again."""
        self._log(damaged.message, damaged)
        reason, text = failure_reason(damaged)
        with suppress(RequestError):  # The message is delivered again.
            await self._session.settle(
                damaged.message, m.REJECT, SettleTerms(reason=reason, text=text)
            )

    def _log(self, message: Message, error: BaseException) -> None:
        logger.warning(
            "%s: message %s: %s: %s",
            message.queue,
            message.uid,
            type(error).__name__,
            error,
            exc_info=error,
        )


async def _cancelled(tasks: "list[asyncio.Task[Any]]") -> None:
    """Cancels *tasks* and returns when all of them have ended."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
