"""Requests and replies without async; aio_replies says more of each verb."""

from collections.abc import Coroutine
from typing import Any, TypeVar, Unpack

from qmgr_client import aio
from qmgr_client.aio.replies import TIMEOUT_MS
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.outgoing import PutOptions, PutResult

Value = TypeVar("Value")


class Replies:
    """What a queue manager does for those who ask and those who answer."""

    _manager: aio.QueueManager

    def request(
        self,
        queue: str,
        body: bytes,
        timeout_ms: Duration = TIMEOUT_MS,
        **options: Unpack[PutOptions],
    ) -> Message:
        """Put a message and return the reply to it; raises RequestTimeout; see aio."""
        return self._call(self._manager.request(queue, body, timeout_ms, **options))

    def reply(self, message: Message, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Put *body* where the producer of *message* wants its reply; see aio."""
        return self._call(self._manager.reply(message, body, **options))

    def _call(self, call: Coroutine[Any, Any, Value]) -> Value:
        raise NotImplementedError  # The client has it.
