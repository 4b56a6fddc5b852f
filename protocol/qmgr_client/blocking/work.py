"""Workers without asyncio: functions that threads run for each message of a queue.

@worker("ORDERS", concurrency=3)
def bill(message):
    queue_manager.put("BILLS", bill_of(message.body))

with connect("127.0.0.1:7470") as queue_manager:
    queue_manager.work(bill)  # until SIGTERM, SIGINT or stop_work()
"""

import asyncio
import inspect
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Unpack

from qmgr_client.aio.work import Running
from qmgr_client.blocking.messaging import Messaging
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.queue_worker import Worker
from qmgr_client.selection import Selection
from qmgr_client.stop_signals import first_signal


def worker(
    queue: str, concurrency: int = 1, *, lease_ms: Duration = 0, **selection: Unpack[Selection]
) -> Callable[[Callable[[Message], object]], Worker[object]]:
    """Turns a function of one message into a worker for :meth:`Client.work`.

    Args:
        queue: The name of the queue or durable subscription.
        concurrency: The number of threads that run the function.
        lease_ms: The length of each lease. 0 uses the queue's ``lease_ms``. The client renews
            the lease while the function runs.
        selection: At most one of ``where``, ``correlation_id`` and ``group_id``.

    Raises:
        TypeError: The function is async, or does not accept exactly one message.
        ValueError: *concurrency* is below 1.
    """

    def decorated(function: Callable[[Message], object]) -> Worker[object]:
        if inspect.iscoroutinefunction(function):
            raise TypeError(f"{function!r} is async: use the worker of qmgr_client.aio")
        return Worker(function, queue, concurrency, lease_ms, selection)

    return decorated


class Work(Messaging):
    """The methods that run and stop workers."""

    def work(self, *workers: Worker[object], signals: bool = True) -> None:
        """Runs each worker in threads for the messages of its queue until the workers are stopped.

        The end of the function settles the message, like the end of a :meth:`processing` block. An
        exception releases the message as failed and is logged as a warning of the logger
        ``qmgr_client``. The client renews the lease of a message while a function works on it.

        SIGTERM, SIGINT and :meth:`stop_work` stop the workers gracefully: they finish their current
        messages, prefetched messages return to their queues, and this method returns.
        :meth:`close` also stops the workers, but does not wait for them. A second signal has its
        usual effect. For example, SIGINT raises KeyboardInterrupt, and the messages return to their
        queues once the threads have finished.

        Args:
            workers: Functions decorated with :func:`worker`.
            signals: Whether signals stop the workers. Signals are handled only in the main thread.

        Raises:
            RequestError: The queue manager ended a consumer, for example with QUEUE_UNKNOWN. The
                workers have finished their current messages.
        """
        stop = asyncio.Event()
        watching = first_signal(lambda: self._thread.call_soon(stop.set))
        with (
            ThreadPoolExecutor(_threads(workers), "qmgr-worker") as pool,
            watching if signals else nullcontext(),
        ):
            running = [_in_threads(each, pool) for each in workers]
            self._thread.call_unless_closed(self._aio.work_until(stop, *running))

    def stop_work(self) -> None:
        """Stops :meth:`work` gracefully, like SIGTERM. Any thread may call this method."""
        self._thread.call_soon(self._aio.stop_work)


def _threads(workers: tuple[Worker[object], ...]) -> int:
    return max(sum(each.concurrency for each in workers), 1)


def _in_threads(worker: Worker[object], pool: ThreadPoolExecutor) -> Worker[Running]:
    """Returns an asyncio worker that runs the function of *worker* in a thread of *pool*."""

    def called(message: Message) -> None:
        try:
            worker.function(message)
        except Exception as error:
            if not isinstance(error, StopIteration):  # A future cannot carry StopIteration.
                raise
            raise RuntimeError("the worker raised StopIteration") from error
        except BaseException as error:  # A SystemExit would end the client's thread.
            raise RuntimeError(f"the worker raised {type(error).__name__}: {error}") from error

    async def running(message: Message) -> None:
        await asyncio.get_running_loop().run_in_executor(pool, called, message)

    return Worker(running, worker.queue, worker.concurrency, worker.lease_ms, worker.selection)
