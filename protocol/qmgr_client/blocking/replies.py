# Generated from qmgr_client/aio/replies.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Requests and replies, without asyncio: a message that is answered with another message.

    asking    request ──put, reply_to=/replies/4f2a..., correlation id──▶ queue
                 ▲                                                          │ consume
                 └──────── subscription to /replies/4f2a... ◀── publish ── reply

1. The reply address is a random topic, with a subscription that is not durable. A client creates
   it at its first request, and uses it for all requests.
2. A reply is matched to its request by the correlation id. Late and repeated replies are dropped.
3. If the connection is lost, the client subscribes again. Replies in between are lost.
"""

from typing import Unpack

from qmgr_client.aio.replies import TIMEOUT_MS
from qmgr_client.blocking.topics import Topics
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.outgoing import PutOptions, PutResult


class Replies(Topics):
    """Sends requests and waits for replies."""

    def request(
        self,
        queue: str,
        body: bytes,
        timeout_ms: Duration = TIMEOUT_MS,
        **options: Unpack[PutOptions],
    ) -> Message:
        """Sends a request and returns its reply, which is acknowledged already.

        Args:
            queue: The name of a local queue, or a topic with a leading ``/``.
            body: The content of the request.
            timeout_ms: How long to wait for the reply, at least 1. The request expires after the
                same time, unless *options* has another ``expiry_ms``.
            options: As in :meth:`put`, except ``reply_to`` and ``correlation_id``.

        Raises:
            RequestTimeout: No reply arrived in time. The request may have been processed.
            RequestError: The put was refused; SUBSCRIPTIONS_EXHAUSTED, there is no room for the
                reply address; VALUE_INVALID, *queue* is behind a link, or an argument is invalid.
        """
        return self._call(self._aio.request(queue, body, timeout_ms, **options))

    def reply(self, message: Message, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Replies to a request and returns once the reply is on disk.

        The reply has the correlation id of *message*. Acknowledge *message* yourself.

        Args:
            message: The request.
            body: The content of the reply.
            options: As in :meth:`put`.

        Returns:
            The result of the put. ``subscriptions`` is 0 if the :meth:`request` no longer waits.

        Raises:
            RequestError: VALUE_INVALID, *message* has no ``reply_to``; or as in :meth:`put`.
        """
        return self._call(self._aio.reply(message, body, **options))
