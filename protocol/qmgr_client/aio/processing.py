"""The work on one message, for asyncio: how its block ends decides what becomes of the message.

block ends                                     message
without an exception                           acknowledged
by an Exception                                released as failed: the type is its reason
cancelled, or by KeyboardInterrupt and so on   returned: that counts as no failure
after it was settled inside                    left as that settled it
"""

from contextlib import suppress
from types import TracebackType

from qmgr_client.aio.session import Session
from qmgr_client.failure_reason import failure_reason
from qmgr_client.message import Message
from qmgr_client.sansio.settles import Terms
from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError

AT_ONCE = Terms(delay_ms=0)


class Processing:
    """The work on a message, for ``async with``, which settles it.

    Invariant: while its block runs and nothing inside has settled the message, its lease is in
    ``session.processing``.
    """

    def __init__(self, session: Session, message: Message) -> None:
        self._session = session
        self._message = message

    async def __aenter__(self) -> Message:
        self._session.processing.add(self._message.lease_key)
        return self._message

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        lease, processing = self._message.lease_key, self._session.processing
        if lease not in processing:
            return
        processing.discard(lease)
        if error is None:
            await self._session.settle(self._message, m.ACK)
        elif isinstance(error, Exception):
            await self._release(error)
        else:
            # It does not wait for the answer: a cancelled task must end promptly.
            with suppress(RequestError):
                self._session.settle(self._message, m.RETURN, AT_ONCE)

    async def _release(self, error: Exception) -> None:
        terms = Terms(m.DELAY_OF_QUEUE, 0, *failure_reason(error))
        try:
            await self._session.settle(self._message, m.RELEASE, terms)
        except RequestError as refused:  # The caller's own error matters more.
            error.add_note(f"the message could not be released: {refused}")

    def take_over(self, message: Message) -> bool:
        """Settle *message* in the end: the same one, delivered again while it is worked on.

        Returns False where it was settled inside: then it is to be worked on once more.
        """
        lease, processing = self._message.lease_key, self._session.processing
        if lease not in processing:
            return False
        processing.discard(lease)
        processing.add(message.lease_key)
        self._message = message
        return True
