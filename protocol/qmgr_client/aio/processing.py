"""Processing one message, for asyncio. The end of the block settles the message.

end of the block                               message
without an exception                           acknowledged
with an Exception                              released as failed, with the type as its reason
cancellation, KeyboardInterrupt, SystemExit    returned, without counting a failure
after the block has settled the message        not changed
"""

from contextlib import suppress
from types import TracebackType

from qmgr_client.aio.session import Session
from qmgr_client.failure_reason import failure_reason
from qmgr_client.message import Message
from qmgr_client.sansio.settles import SettleTerms
from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError

AT_ONCE = SettleTerms(delay_ms=0)


class Processing:
    """The processing of a message, for ``async with``. The end of the block settles the message.

    Invariant: while the block runs and has not settled the message, ``session.processing`` has the
    lease.
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
            # Do not wait for the answer: a cancelled task must end promptly.
            with suppress(RequestError):
                self._session.settle(self._message, m.RETURN, AT_ONCE)

    async def _release(self, error: Exception) -> None:
        terms = SettleTerms(m.DELAY_OF_QUEUE, 0, *failure_reason(error))
        try:
            await self._session.settle(self._message, m.RELEASE, terms)
        except RequestError as refused:  # The error of the block takes precedence.
            error.add_note(f"the message could not be released: {refused}")

    def take_over(self, message: Message) -> bool:
        """Takes over *message*, a redelivery of the message that the block works on.

        The end of the block then settles *message*. Returns False if the block has already settled
        its message. In this case, *message* must be processed.
        """
        lease, processing = self._message.lease_key, self._session.processing
        if lease not in processing:
            return False
        processing.discard(lease)
        processing.add(message.lease_key)
        self._message = message
        return True
