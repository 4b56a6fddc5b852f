"""Workers for asyncio: functions that are run for each message of a queue.

    @worker("ORDERS", concurrency=3)
    async def bill(message):
        await queue_manager.put("BILLS", bill_of(message.body))

    async with connect("127.0.0.1:7470") as queue_manager:
        await queue_manager.work(bill)  # until SIGTERM, SIGINT or stop_work()

Each message is settled as by :meth:`Work.processing`. If the connection is lost while a message is
worked on, it is delivered again to the same client: the function is not run a second time for it,
but settles it under its new lease.
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
from qmgr_client.sansio.settles import Terms
from qmgr_client.selection import Selection
from qmgr_client.stop_signals import first_signal
from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import Uid

Running: TypeAlias = Coroutine[Any, Any, object]
PREFETCH_OF_EACH = 2  # messages for each that may be worked on: one there, one that comes next
logger = logging.getLogger("qmgr_client")


def worker(
    queue: str, concurrency: int = 1, *, lease_ms: Duration = 0, **selection: Unpack[Selection]
) -> Callable[[Callable[[Message], Running]], Worker[Running]]:
    """Make an async function of one message a worker of *queue*, for :meth:`Work.work`.

    Args:
        queue: whose messages it works on; a subscription, too.
        concurrency: how many at a time.
        lease_ms: as of consume.
        selection: as of consume.

    Raises:
        TypeError: the function is not async, or does not take one message.
        ValueError: *concurrency* is below 1.
    """

    def decorated(function: Callable[[Message], Running]) -> Worker[Running]:
        if not inspect.iscoroutinefunction(function):
            text = f"{function!r} is not async: use the worker of qmgr_client.blocking"
            raise TypeError(text)
        return Worker(function, queue, concurrency, lease_ms, selection)

    return decorated


class Work(Messaging):
    """Runs workers."""

    def __init__(self, core: ClientCore) -> None:
        super().__init__(core)
        self._stops: set[asyncio.Event] = set()

    async def work(self, *workers: Worker[Running], signals: bool = True) -> None:
        """Run each worker for the messages of its queue, until it is to stop.

        The leases of messages that are worked on are renewed, however long that takes.

        SIGTERM, SIGINT or :meth:`stop_work` stop it in good order: no message is taken any more,
        those that are worked on are finished, the others go back, and this returns. So does
        :meth:`QueueManager.close`, which waits for nothing that is worked on. A second signal does
        as without this: SIGINT cancels, and what is worked on is returned.

        An exception of a worker releases its message as failed, and is logged as a warning of
        "qmgr_client", as is an ack that is refused.

        Args:
            workers: functions with :func:`worker`.
            signals: False leaves signals alone, for a program that has its own way to stop. They
                are left alone, too, where this does not run in the main thread.

        Raises:
            RequestError: the queue manager ended a consumer; QUEUE_UNKNOWN, say. What is worked on
                was finished.
        """
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        watching = first_signal(lambda: loop.call_soon_threadsafe(stop.set))
        with watching if signals else nullcontext():
            await self.work_until(stop, *workers)

    async def work_until(self, stop: asyncio.Event, *workers: Worker[Running]) -> None:
        """Run *workers* as :meth:`work` does, until *stop* is set, whatever signals come."""
        shifts = [_Shift(self._session, self._consumer(each), each) for each in workers]
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
        """Have :meth:`work` stop in good order, as SIGTERM does. From the loop's own thread."""
        for stop in self._stops:
            stop.set()

    def _consumer(self, each: Worker[Running]) -> Consumer:
        prefetch = PREFETCH_OF_EACH * each.concurrency
        return self.consume(each.queue, prefetch, each.lease_ms, auto_renew=True, **each.selection)


class _Shift:
    """A worker at work. ``_in_hand`` has what it works on; a UID is there once."""

    def __init__(self, session: Session, consumer: Consumer, worker: Worker[Running]) -> None:
        self.consumer = consumer
        self._session = session
        self._worker = worker
        self._in_hand: dict[Uid | None, Processing] = {}

    def runs(self) -> list[Coroutine[Any, Any, None]]:
        """Return what is to run at the same time: each works on one message after the other."""
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
        except Exception as error:  # The function's, or an ack that was refused.
            self._log(message, error)
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            self._log(message, error)  # Of something that the function waited for.
        finally:
            if self._in_hand.get(message.uid) is processing:
                del self._in_hand[message.uid]

    async def _reject(self, damaged: MessageDamaged) -> None:
        """Have a message that cannot be read be a dead letter: it would fail again."""
        self._log(damaged.message, damaged)
        reason, text = failure_reason(damaged)
        with suppress(RequestError):  # It comes again.
            await self._session.settle(damaged.message, m.REJECT, Terms(reason=reason, text=text))

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
    """Cancel those of *tasks* that are not over, and return when all of them are."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
