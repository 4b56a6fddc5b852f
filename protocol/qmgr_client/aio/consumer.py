"""A consumer, for asyncio: an iterator over leased messages."""

import asyncio
from types import TracebackType

from qmgr_client.aio.session import Session, Stream
from qmgr_client.errors import MessageDamaged
from qmgr_client.message import Message


class Consumer:
    """An iterator over the messages of a queue, for ``async for``.

    A consumer ends with its ``async with`` block or with :meth:`cancel`. If you use neither, the
    consumer ends when Python deletes the object. Several tasks may share a consumer.
    """

    def __init__(self, session: Session, ticket: int, stream: Stream) -> None:
        self._session = session
        self._ticket = ticket
        self._stream = stream

    def __aiter__(self) -> "Consumer":
        return self

    async def __anext__(self) -> Message:
        """Waits for the next message, leases it and returns it.

        Raises:
            StopAsyncIteration: The consumer was cancelled or the client was closed.
            MessageDamaged: The record of the message cannot be read. You may continue with the next
                message.
            RequestError: The queue manager ended the consumer.
        """
        stream = self._stream
        while True:
            if self._session.start_next(self._ticket):
                # The start of the lease must be sent before the message can crash the application.
                await asyncio.sleep(0)
            message = self._session.next_message(self._ticket)
            if message is not None:
                if message.damage:
                    raise MessageDamaged(message)
                return message
            if stream.has_ended:
                if stream.error is not None:
                    raise stream.error
                raise StopAsyncIteration
            stream.changed.clear()
            await stream.changed.wait()

    async def __aenter__(self) -> "Consumer":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.cancel()

    async def cancel(self) -> None:
        """Ends the consumer. Prefetched messages return to the queue.

        You may still settle the messages that you have received.
        """
        self._session.cancel(self._ticket)
        while not self._stream.has_ended:
            self._stream.changed.clear()
            await self._stream.changed.wait()

    def __del__(self) -> None:
        self._session.forget_soon(self._ticket)
