# Generated from qmgr_client/aio/consumer.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A consumer for asyncio: an iterator over messages under lease."""

from types import TracebackType

from qmgr_client.aio import consumer as aio_consumer
from qmgr_client.blocking.bridge import Bridge, next_of
from qmgr_client.message import Message


class Consumer(Bridge[aio_consumer.Consumer]):
    """Messages of a queue as they come, for ``for``; ends with ``with`` or cancel.

    Left without either, it ends when Python drops it. Several tasks may share one.
    """

    def __iter__(self) -> "Consumer":
        return self

    def __next__(self) -> Message:
        """Return the next message.

        Raises:
            StopIteration: it was cancelled.
            MessageDamaged: this one cannot be read; the next one may be asked for.
            RequestError: the queue manager ended it.
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
        """End it: what was not handed out goes back. What was may still be settled."""
        self._thread.call_unless_closed(self._aio.cancel())
