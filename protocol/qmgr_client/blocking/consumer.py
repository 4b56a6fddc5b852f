# Generated from qmgr_client/aio/consumer.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A consumer, without asyncio: an iterator over leased messages."""

from types import TracebackType

from qmgr_client.aio import consumer as aio_consumer
from qmgr_client.blocking.bridge import Bridge, next_of
from qmgr_client.message import Message


class Consumer(Bridge[aio_consumer.Consumer]):
    """An iterator over the messages of a queue, for ``for``.

    A consumer ends with its ``with`` block or with :meth:`cancel`. If you use neither, the consumer
    ends when Python deletes the object. Several threads may share a consumer.
    """

    def __iter__(self) -> "Consumer":
        return self

    def __next__(self) -> Message:
        """Waits for the next message, leases it and returns it.

        Raises:
            StopIteration: The consumer was cancelled or the client was closed.
            MessageDamaged: The record of the message cannot be read. You may continue with the next
                message.
            RequestError: The queue manager ended the consumer.
        """
        return next_of(self._thread, self._aio)

    def __enter__(self) -> "Consumer":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Ends the consumer. Prefetched messages return to the queue.

        You may still settle the messages that you have received.
        """
        self._thread.call_unless_closed(self._aio.cancel())
