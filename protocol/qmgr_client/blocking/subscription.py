# Generated from qmgr_client/aio/subscription.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A subscription that is consumed from, without asyncio."""

from types import TracebackType

from qmgr_client.aio import subscription as aio_subscription
from qmgr_client.blocking.bridge import Bridge, next_of
from qmgr_client.message import Message


class Subscription(Bridge[aio_subscription.Subscription]):
    """Publications as they come, for ``with`` and ``for``. Several tasks may share one.

    Left without ``with`` or cancel, one that is not durable goes on holding what is published
    until its connection ends.

    Invariant: ``name`` is that under which it is known to the queue manager, empty before it is
    opened. One that is not durable has another one after each loss of the connection.
    """

    @property
    def name(self) -> str:
        """The name that the queue manager knows the subscription by; empty before it is opened.

        A subscription that is not durable gets a new name after each loss of the connection.
        """
        return self._aio.name

    def open(self) -> None:
        """Subscribe, unless it has been done.

        Raises:
            RequestError: TOPIC_INVALID, NAME_INVALID, VALUE_INVALID, SELECTOR_INVALID,
                SUBSCRIPTION_EXISTS, SUBSCRIPTIONS_EXHAUSTED.
        """
        self._call(self._aio.open())

    def __iter__(self) -> "Subscription":
        return self

    def __next__(self) -> Message:
        """Return the next publication; raises as that of a consumer."""
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
        """Consume no more; one that is not durable ends, too, with what is not acknowledged."""
        self._thread.call_unless_closed(self._aio.cancel())
