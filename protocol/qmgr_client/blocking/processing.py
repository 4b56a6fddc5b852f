# Generated from qmgr_client/aio/processing.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Processing one message, without asyncio. The end of the block settles the message.

end of the block                               message
without an exception                           acknowledged
with an Exception                              released as failed, with the type as its reason
cancellation, KeyboardInterrupt, SystemExit    returned, without counting a failure
after the block has settled the message        not changed
"""

from types import TracebackType

from qmgr_client.aio import processing as aio_processing
from qmgr_client.blocking.bridge import Bridge
from qmgr_client.message import Message


class Processing(Bridge[aio_processing.Processing]):
    """The processing of a message, for ``with``. The end of the block settles the message.

    Invariant: while the block runs and has not settled the message, ``session.processing`` has the
    lease.
    """

    def __enter__(self) -> Message:
        return self._call(self._aio.__aenter__())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave(self._aio.__aexit__(kind, error, traceback), error)
