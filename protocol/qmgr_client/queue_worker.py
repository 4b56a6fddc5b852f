"""A worker: a function that is run for each message of a queue, and how."""

import functools
import inspect
from collections.abc import Callable
from typing import Generic, TypeVar

from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.selection import Selection

Result = TypeVar("Result", covariant=True)


class Worker(Generic[Result]):
    """A function of one message, and of which queue. It can still be called by itself."""

    def __init__(
        self,
        function: Callable[[Message], Result],
        queue: str,
        concurrency: int,
        lease_ms: Duration,
        selection: Selection,
    ) -> None:
        """Make one that works on up to *concurrency* messages at a time.

        Raises:
            ValueError: *concurrency* is below 1.
            TypeError: *function* does not take one message and nothing else.
        """
        if type(concurrency) is not int or concurrency < 1:
            raise ValueError(f"a concurrency of {concurrency!r}: at least 1")
        try:
            inspect.signature(function).bind(None)
        except TypeError as error:
            text = f"a worker is called with one message, which {function!r} does not take: {error}"
            raise TypeError(text) from None
        functools.update_wrapper(self, function)
        self.function = function
        self.queue = queue
        self.concurrency = concurrency
        self.lease_ms = lease_ms
        self.selection = selection

    def __call__(self, message: Message) -> Result:
        """Call the function, as for a test of it."""
        return self.function(message)
