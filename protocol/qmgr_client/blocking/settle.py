# Generated from qmgr_client/aio/settle.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Settling leased messages, without asyncio."""

from collections.abc import Iterable
from concurrent.futures import Future
from datetime import datetime

from qmgr_client.aio import queue_manager as aio_queue_manager
from qmgr_client.blocking.bridge import Bridge, collected, handed_over
from qmgr_client.blocking.processing import Processing
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_protocol.errors import RequestError


class Settling(Bridge[aio_queue_manager.QueueManager]):
    """The methods that acknowledge, release and reject messages and renew their leases."""

    def ack_soon(self, message: Message) -> Future[None]:
        """Acknowledges a message. Returns a future that is done when the ack is on disk.

        The callbacks of the future run on the client's thread. They must not call the client.

        The call does not wait, so many acknowledgements can be in flight.

        Returns:
            A future with None or with the RequestError of a refusal.
        """
        return self._call(handed_over(self._aio.ack_soon(message)))

    def ack(self, message: Message) -> None:
        """Acknowledges and deletes a message. Returns once the deletion is on disk.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
        """
        self._call(self._aio.ack(message))

    def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Acknowledges and deletes several messages.

        Returns:
            For each message, None or the RequestError with the reason why the message was not
            deleted.
        """
        return self._call(self._aio.ack_many(collected(messages)))

    def release(
        self,
        message: Message,
        delay_ms: Duration | None = None,
        *,
        failed: bool = True,
        retry_at: datetime | None = None,
        reason: str = "",
        text: str = "",
    ) -> None:
        """Releases a message and returns it to its original position in the queue.

        Args:
            message: A leased message.
            delay_ms: The time before the next delivery, at most ten years. 0 makes the message
                available immediately. None uses the retry delay of the queue.
            failed: Whether the release counts as a failure. When the failures reach the limit of
                the queue, the message becomes a dead letter.
            retry_at: The time of the next delivery, with a time zone, instead of *delay_ms*.
            reason: The reason for the failure, a word of at most 64 characters. The note of the
                message shows this word to operators.
            text: A description of the failure, at most 1,000 characters.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
            RequestError: VALUE_INVALID if *delay_ms* and *retry_at* are both set, or if one of them
                is out of range.
        """
        self._call(
            self._aio.release(
                message, delay_ms, failed=failed, retry_at=retry_at, reason=reason, text=text
            )
        )

    def reject(self, message: Message, reason: str = "", text: str = "") -> None:
        """Rejects a message that would fail again. The message becomes a dead letter immediately.

        Args:
            message: A leased message.
            reason: The reason, a word of at most 64 characters.
            text: A description, at most 1,000 characters.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
        """
        self._call(self._aio.reject(message, reason, text))

    def renew(self, message: Message, lease_ms: Duration = 0) -> None:
        """Renews the lease of a message. The lease then ends *lease_ms* from now.

        Args:
            message: A leased message.
            lease_ms: The length of the lease, at most one day. 0 uses the previous length.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
        """
        self._call(self._aio.renew(message, lease_ms))

    def processing(self, message: Message) -> Processing:
        """Returns a context manager that settles *message*, for ``with``.

        The end of the block acknowledges the message. An Exception releases the message as failed,
        with the exception's type and text as the reason, and is raised to the caller. A
        cancellation, KeyboardInterrupt or SystemExit returns the message immediately without
        counting a failure. If the block itself settles the message or acknowledges it in a unit of
        work, the end of the block does nothing.

        Raises:
            LeaseLost: The lease ended before the end of the block. Another consumer may have the
                message and process it again.
        """
        return Processing(self._thread, self._aio.processing(message))
