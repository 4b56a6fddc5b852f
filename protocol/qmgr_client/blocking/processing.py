"""The work on one message without async; aio_processing says more."""

from types import TracebackType

from qmgr_client import aio
from qmgr_client.aio.processing import Processing as AioProcessing
from qmgr_client.blocking.bridge import Caller
from qmgr_client.message import Message


class Processing:
    """The work on a message, for ``with``, which settles it."""

    def __init__(self, call: Caller, manager: aio.QueueManager, message: Message) -> None:
        self._call = call
        self._manager = manager
        self._message = message
        self._processing: AioProcessing | None = None

    def __enter__(self) -> Message:
        async def begun() -> AioProcessing:
            processing = self._manager.processing(self._message)
            await processing.__aenter__()
            return processing

        self._processing = self._call(begun())
        return self._message

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._processing is not None
        ending = self._processing.__aexit__(kind, error, traceback)
        if error is None:
            self._call(ending)
            return
        try:
            self._call(ending)
        except aio.RequestError as refused:  # What left the block matters more.
            error.add_note(f"the message could not be given back: {refused}")
