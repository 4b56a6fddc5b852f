# Generated from qmgr_client/aio/subscription.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A subscription, without asyncio: an iterator over publications."""

from types import TracebackType

from qmgr_client.aio import subscription as aio_subscription
from qmgr_client.blocking.bridge import Bridge, next_of
from qmgr_client.message import Message


class Subscription(Bridge[aio_subscription.Subscription]):
    """An iterator over publications, for ``with`` and ``for``.

    A subscription ends with its ``with`` block or with :meth:`cancel`. If you use neither, a
    subscription that is not durable collects publications until its connection ends. Several
    threads may share a subscription.
    """

    @property
    def name(self) -> str:
        """The name of the subscription at the queue manager, or ``""`` before :meth:`open`.

        A subscription that is not durable receives a new name after each loss of the connection.
        """
        return self._aio.name

    def open(self) -> None:
        """Subscribes, unless the subscription is already open.

        Raises:
            RequestError: TOPIC_INVALID, NAME_INVALID, VALUE_INVALID, SELECTOR_INVALID,
                SUBSCRIPTION_EXISTS or SUBSCRIPTIONS_EXHAUSTED.
        """
        self._call(self._aio.open())

    def __iter__(self) -> "Subscription":
        return self

    def __next__(self) -> Message:
        """Waits for the next publication, leases it and returns it.

        Raises:
            StopIteration: The subscription was cancelled or the client was closed.
            MessageDamaged: The record of the publication cannot be read. You may continue with the
                next publication.
            RequestError: The queue manager ended the subscription or refused to open it.
        """
        return next_of(self._thread, self._aio)

    def __enter__(self) -> "Subscription":
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Ends the iterator. A subscription that is not durable is deleted with its messages."""
        self._thread.call_unless_closed(self._aio.cancel())
