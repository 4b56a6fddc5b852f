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
    """Settles leased messages: acknowledges, releases, rejects them, or renews their leases."""

    def ack_soon(self, message: Message) -> Future[None]:
        """Acknowledges a message, and returns a future that is done when that is on disk.

        The callbacks of the future run on the client's thread. They must not call the client.

        The call does not wait, so many acknowledgements can be in flight.

        Returns:
            A future with None, or with the RequestError of a refusal.
        """
        return self._call(handed_over(self._aio.ack_soon(message)))

    def ack(self, message: Message) -> None:
        """Acknowledges a message, which deletes it. Returns once that is on disk.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
        """
        self._call(self._aio.ack(message))

    def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Acknowledges several messages, which deletes them.

        Returns:
            For each message None, or the RequestError with the reason why it was not deleted.
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
        """Releases a message: it returns to its original position in the queue.

        Args:
            message: A leased message.
            delay_ms: How long the message is not delivered, at most ten years. 0 makes it available
                at once. None uses the retry delay of the queue.
            failed: Whether the release counts as a failure. After as many failures as the queue
                allows, the message becomes a dead letter.
            retry_at: The time of the next delivery, with a time zone, instead of *delay_ms*.
            reason: The reason of the failure, a word of at most 64 characters. Operators see it in
                the note of the message.
            text: A description of the failure, at most 1,000 characters.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
            RequestError: VALUE_INVALID, *delay_ms* and *retry_at* are both set, or out of range.
        """
        self._call(
            self._aio.release(
                message, delay_ms, failed=failed, retry_at=retry_at, reason=reason, text=text
            )
        )

    def reject(self, message: Message, reason: str = "", text: str = "") -> None:
        """Rejects a message, which would fail again: it becomes a dead letter at once.

        Args:
            message: A leased message.
            reason: The reason, a word of at most 64 characters.
            text: A description, at most 1,000 characters.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
        """
        self._call(self._aio.reject(message, reason, text))

    def renew(self, message: Message, lease_ms: Duration = 0) -> None:
        """Renews the lease of a message: it ends *lease_ms* from now.

        Args:
            message: A leased message.
            lease_ms: The length of the lease, at most one day. 0 is its previous length.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message.
        """
        self._call(self._aio.renew(message, lease_ms))

    def processing(self, message: Message) -> Processing:
        """Returns a context manager that settles *message*, for ``with``.

        The end of the block acknowledges the message. An Exception releases it as failed, with the
        exception's type and text as the reason, and is raised to the caller. A KeyboardInterrupt or
        SystemExit returns the message at once, without counting a failure. If the block itself
        settles the message, or acknowledges it in a unit of work, its end does nothing.

        Raises:
            LeaseLost: At the end of the block. Another consumer may have the message, so its work
                may be done twice.
        """
        return Processing(self._thread, self._aio.processing(message))
