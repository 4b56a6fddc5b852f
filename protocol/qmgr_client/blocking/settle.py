# Generated from qmgr_client/aio/settle.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""How a message that was got ends: acknowledged, released, rejected; or it is kept for longer."""

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
        """Have a message removed for good; return a future that is done when that is on disk.

        Waits for nothing: what is leased bounds it.
        """
        return self._call(handed_over(self._aio.ack_soon(message)))

    def ack(self, message: Message) -> None:
        """Remove a message for good.

        Raises:
            RequestError: LEASE_LOST, another may have it by now.
        """
        self._call(self._aio.ack(message))

    def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Remove messages for good; return why not for each that was not."""
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
        """Give a message back: it can be had again.

        Args:
            delay_ms: not before so long, at most ten years; None is as the queue has it for what
                failed, 0 at once.
            failed: whether that counts as a failure: after as many as its queue allows it becomes
                a dead letter.
            retry_at: the same as *delay_ms* as a time of day, with its time zone.
            reason, text: why, in a word of at most 64 characters, and for people in at most 1,000;
                its note has them.

        Raises:
            RequestError: LEASE_LOST, another may have it by now.
        """
        self._call(
            self._aio.release(
                message, delay_ms, failed=failed, retry_at=retry_at, reason=reason, text=text
            )
        )

    def reject(self, message: Message, reason: str = "", text: str = "") -> None:
        """Have a message be a dead letter at once: it would fail again. Otherwise as a release."""
        self._call(self._aio.reject(message, reason, text))

    def renew(self, message: Message, lease_ms: Duration = 0) -> None:
        """Keep a message for *lease_ms* from now on, at most a day; 0: as long as it was.

        Raises:
            RequestError: LEASE_LOST, another may have it by now.
        """
        self._call(self._aio.renew(message, lease_ms))

    def processing(self, message: Message) -> Processing:
        """Return the work on *message*, for ``with``, whose end settles it.

        Its end acknowledges the message. An Exception releases it as failed, with its type as the
        reason and its text, and goes on to the caller. Being cancelled, KeyboardInterrupt and
        SystemExit return it at once, which counts as no failure. What the block settles itself, by
        ack, release, reject or in a unit of work, stays as it is.

        Raises:
            RequestError: LEASE_LOST, at the end of the block: another may have the message by now,
                so what was done may be done twice.
        """
        return Processing(self._thread, self._aio.processing(message))
