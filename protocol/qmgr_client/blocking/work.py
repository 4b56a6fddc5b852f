"""Workers without async: functions that are run in threads for each message of a queue.

    @worker("ORDERS", concurrency=3)
    def bill(message):
        queue_manager.put("BILLS", bill_of(message.body))

    with connect("127.0.0.1:7470") as queue_manager:
        queue_manager.work(bill)  # until SIGTERM, SIGINT or stop_work()

aio_work says more of each verb.
"""

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from typing import Any, TypeVar, Unpack

from qmgr_client import aio
from qmgr_client.aio.work import Running
from qmgr_client.blocking.processing import Processing
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.queue_worker import Worker
from qmgr_client.selection import Selection
from qmgr_client.stop_signals import first_signal

Value = TypeVar("Value")


def worker(
    queue: str, concurrency: int = 1, *, lease_ms: Duration = 0, **selection: Unpack[Selection]
) -> Callable[[Callable[[Message], object]], Worker[object]]:
    """Make a function of one message a worker of *queue*, for :meth:`Work.work`.

    Arguments and errors are those of :func:`qmgr_client.aio.worker`. It is called by *concurrency*
    threads at a time.
    """

    def decorated(function: Callable[[Message], object]) -> Worker[object]:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function!r} is async: use the worker of qmgr_client.aio")
        return Worker(function, queue, concurrency, lease_ms, selection)

    return decorated


class Work:
    """What a client does with messages for its application: their processing, and workers."""

    _manager: aio.QueueManager
    _loop: asyncio.AbstractEventLoop | None

    def processing(self, message: Message) -> Processing:
        """Return the work on *message*, for ``with``, whose end settles it; see aio."""
        return Processing(self._call, self._manager, message)

    def work(self, *workers: Worker[object], signals: bool = True) -> None:
        """Run each worker for the messages of its queue, in threads, until it is to stop.

        As that of aio. A second SIGINT raises KeyboardInterrupt: messages that are worked on are
        returned, and this waits for their threads.
        """
        stop = asyncio.Event()
        watching = first_signal(lambda: self._soon(stop.set))
        with (
            ThreadPoolExecutor(_threads(workers), "qmgr-worker") as pool,
            watching if signals else nullcontext(),
        ):
            running = [_in_threads(each, pool) for each in workers]
            self._unless_closed(self._manager.work_until(stop, *running))

    def stop_work(self) -> None:
        """Have :meth:`work` stop in good order, as SIGTERM does. From any thread."""
        self._soon(self._manager.stop_work)

    def _soon(self, call: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # It is closed, and nothing works any more.
                loop.call_soon_threadsafe(call)

    def _call(self, call: Coroutine[Any, Any, Value]) -> Value:
        raise NotImplementedError  # The client has it.

    def _unless_closed(self, call: Coroutine[Any, Any, Value]) -> Value | None:
        raise NotImplementedError


def _threads(workers: tuple[Worker[object], ...]) -> int:
    return max(sum(each.concurrency for each in workers), 1)


def _in_threads(worker: Worker[object], pool: ThreadPoolExecutor) -> Worker[Running]:
    """Return *worker* as one of aio, which has *pool* call its function."""

    def called(message: Message) -> None:
        try:
            worker.function(message)
        except Exception as error:
            if not isinstance(error, StopIteration):  # No future can carry that.
                raise
            raise RuntimeError("the worker raised StopIteration") from error
        except BaseException as error:  # SystemExit, say: it would end the client's own thread.
            raise RuntimeError(f"the worker raised {type(error).__name__}: {error}") from error

    async def running(message: Message) -> None:
        await asyncio.get_running_loop().run_in_executor(pool, called, message)

    return Worker(running, worker.queue, worker.concurrency, worker.lease_ms, worker.selection)
