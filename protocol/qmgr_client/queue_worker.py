"""Workers: functions that run for each message of a queue."""

import functools
import inspect
from collections.abc import Callable
from typing import Generic, TypeVar

from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.selection import Selection

Result = TypeVar("Result", covariant=True)


class Worker(Generic[Result]):
    """A function of one message, and the queue whose messages it processes."""

    def __init__(
        self,
        function: Callable[[Message], Result],
        queue: str,
        concurrency: int,
        lease_ms: Duration,
        selection: Selection,
    ) -> None:
        """Initializes a worker that processes up to *concurrency* messages at a time.

        Raises:
            ValueError: *concurrency* is below 1.
            TypeError: *function* does not take exactly one message.
        """
        if type(concurrency) is not int or concurrency < 1:
            raise ValueError(f"concurrency is {concurrency!r}: the minimum is 1")
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            text = f"a worker must accept one message as its only argument; {function!r}: {error}"
            raise TypeError(text) from None
        functools.update_wrapper(self, function)
        self.function = function
        self.queue = queue
        self.concurrency = concurrency
        self.lease_ms = lease_ms
        self.selection = selection

    def __call__(self, message: Message) -> Result:
        """Calls the function directly, for example in a test."""
        return self.function(message)
