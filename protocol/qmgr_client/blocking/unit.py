# Generated from qmgr_client/aio/unit.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A unit of work, without asyncio: puts and acknowledgements that take effect together.

    with queue_manager.unit_of_work() as unit:
        order = unit.get("ORDERS", wait_ms=1_000)
        unit.put("INVOICES", invoice_of(order))

The end of the block commits the unit. An exception that leaves the block backs it out.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Unpack

from qmgr_client.aio import unit as aio_unit
from qmgr_client.blocking.bridge import Bridge, collected
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult
from qmgr_client.selection import SelectionOrUid
from qmgr_protocol.errors import RequestError


class UnitOfWork(Bridge[aio_unit.UnitOfWork]):
    """A unit of work for ``with``: puts and acknowledgements that are committed together.

    A unit belongs to one connection. If the connection is lost before the commit is sent, the unit
    is backed out, and each further step raises UNIT_BACKED_OUT. Once the commit is sent, the unit
    has exactly one result, even if the connection is lost. Steps may run concurrently. If you
    cancel a step, back out the unit, because the step may already be part of it.
    """

    def __enter__(self) -> "UnitOfWork":
        self._call(self._aio.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave(self._aio.__aexit__(kind, error, traceback), error)

    @property
    def has_ended(self) -> bool:
        """Whether the caller committed or backed out the unit. False if the unit was lost."""
        return self._aio.has_ended

    @property
    def is_lost(self) -> bool:
        """Whether the connection was lost before the end of the unit."""
        return self._aio.is_lost

    def put(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Puts a message in the unit. Consumers can receive the message after the commit.

        Args:
            queue: The name of a queue or topic, as in :meth:`Client.put`.
            body: The content of the message.
            options: The options of :meth:`Client.put`.

        Raises:
            RequestError: UNIT_BACKED_OUT or UNIT_UNKNOWN if the unit has ended. After any other
                refusal, the message is not part of the unit, and the unit continues.
        """
        return self._call(self._aio.put(queue, body, **options))

    def put_many(self, queue: str, items: Iterable[bytes | Outgoing]) -> list[PutResult]:
        """Puts several messages in the unit and returns their results in order.

        Args:
            queue: The name of a queue or topic, as in :meth:`Client.put`.
            items: Bodies, or :class:`Outgoing` messages with options.

        Raises:
            RequestError: The first refusal. Other items may be part of the unit. An error that
                leaves the block backs them out. If you catch the error and continue, they are
                committed. UNIT_BACKED_OUT or UNIT_UNKNOWN if the unit has ended.
        """
        return self._call(self._aio.put_many(queue, collected(items)))

    def get(
        self, queue: str, wait_ms: Duration = 0, **selection: Unpack[SelectionOrUid]
    ) -> Message | None:
        """Gets the next message. The commit deletes it.

        Args:
            queue: The name of a queue or durable subscription.
            wait_ms: The maximum time to wait for a message, at most 7 days. 0 does not wait.
            selection: At most one of ``where``, ``correlation_id``, ``group_id`` and ``uid``.

        Returns:
            The message, or None if no message arrives within *wait_ms*.

        Raises:
            MessageDamaged: The record of the message cannot be read. The message is leased, but not
                part of the unit.
            RequestError: UNIT_TOO_LARGE or LEASE_LOST if the message cannot become part of the
                unit. Also, for example, QUEUE_UNKNOWN.
        """
        return self._call(self._aio.get(queue, wait_ms, **selection))

    def get_many(
        self,
        queue: str,
        messages_max: int,
        wait_ms: Duration = 0,
        **selection: Unpack[SelectionOrUid],
    ) -> list[Message]:
        """Gets up to *messages_max* messages as soon as one is available. The commit deletes them.

        Args:
            queue: The name of a queue or durable subscription.
            messages_max: The maximum number of messages to return, at most 256.
            wait_ms: The maximum time to wait for a message, at most 7 days. 0 does not wait.
            selection: At most one of ``where``, ``correlation_id``, ``group_id`` and ``uid``.

        Returns:
            The messages, or an empty list if no message arrives within *wait_ms*.

        Raises:
            MessageDamaged: The record of one message cannot be read. That message is leased, and no
                message is part of the unit.
            RequestError: UNIT_TOO_LARGE or LEASE_LOST if no message can become part of the unit.
                Also, for example, QUEUE_UNKNOWN.
        """
        return self._call(self._aio.get_many(queue, messages_max, wait_ms, **selection))

    def ack(self, message: Message) -> None:
        """Acknowledges a leased message in the unit. The commit deletes it.

        Use this method for messages that were not received in the unit, for example messages of a
        consumer.

        Raises:
            LeaseLost: The lease has ended, and another consumer may have the message. The message
                is not part of the unit.
        """
        self._call(self._aio.ack(message))

    def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Acknowledges several leased messages in the unit. The commit deletes them.

        Returns:
            For each message, None or the RequestError with the reason why the message is not part
            of the unit.
        """
        return self._call(self._aio.ack_many(collected(messages)))

    def commit(self) -> None:
        """Commits the unit and returns once it is on disk.

        Raises:
            RequestError: UNIT_BACKED_OUT if none of its steps took effect. After STORE_FULL, you
                may commit again.
            UnknownOutcome: The connection was lost, and the queue manager no longer knows the
                result.
        """
        self._call(self._aio.commit())

    def backout(self, reason: str = "", text: str = "") -> None:
        """Backs out the unit: its messages return to their queues, and its puts are dropped.

        Does nothing if the unit was lost with its connection.

        Args:
            reason: The reason, a word of at most 64 characters. The notes of the returned messages
                show this word to operators.
            text: A description of at most 1,000 characters.
        """
        self._call(self._aio.backout(reason, text))
