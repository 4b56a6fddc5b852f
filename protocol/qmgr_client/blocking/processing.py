# Generated from qmgr_client/aio/processing.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""The work on one message, without asyncio: how its block ends decides what becomes of the message.

block ends                                     message
without an exception                           acknowledged
by an Exception                                released as failed: the type is its reason
cancelled, or by KeyboardInterrupt and so on   returned: that counts as no failure
after it was settled inside                    left as that settled it
"""

from types import TracebackType

from qmgr_client.aio import processing as aio_processing
from qmgr_client.blocking.bridge import Bridge
from qmgr_client.message import Message


class Processing(Bridge[aio_processing.Processing]):
    """The work on a message, for ``with``, which settles it.

    Invariant: while its block runs and nothing inside has settled the message, its lease is in
    ``session.processing``.
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
