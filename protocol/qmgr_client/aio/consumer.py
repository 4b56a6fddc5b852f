"""A consumer for asyncio: an iterator over messages under lease."""

import asyncio
from types import TracebackType

from qmgr_client.aio.session import Session, Stream
from qmgr_client.errors import MessageDamaged
from qmgr_client.message import Message


class Consumer:
    """Messages of a queue as they come, for ``async for``; ends with ``async with`` or cancel.

    Left without either, it ends when Python drops it. Several tasks may share one.
    """

    def __init__(self, session: Session, ticket: int, stream: Stream) -> None:
        self._session = session
        self._ticket = ticket
        self._stream = stream

    def __aiter__(self) -> "Consumer":
        return self

    async def __anext__(self) -> Message:
        """Return the next message.

        Raises:
            StopAsyncIteration: it was cancelled.
            MessageDamaged: this one cannot be read; the next one may be asked for.
            RequestError: the queue manager ended it.
        """
        stream = self._stream
        while True:
            if self._session.start_next(self._ticket):
                # If the application dies of this message at once, that has to have left.
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
        """End it: what was not handed out goes back. What was may still be settled."""
        self._session.cancel(self._ticket)
        while not self._stream.has_ended:
            self._stream.changed.clear()
            await self._stream.changed.wait()

    def __del__(self) -> None:
        self._session.forget_soon(self._ticket)
