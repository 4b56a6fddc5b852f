# Generated from qmgr_client/aio/replies.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Requests and replies, without asyncio: the reply to a message is another message.

    asking    request ──put, reply_to=/replies/4f2a..., correlation id──▶ queue
                 ▲                                                          │ consume
                 └──────── subscription to /replies/4f2a... ◀── publish ── reply

1. The reply address is a random topic with a subscription that is not durable. A client creates
   the subscription at its first request and uses it for all requests.
2. The correlation id assigns a reply to its request. Late and repeated replies are dropped.
3. If the connection is lost, the client subscribes again. Replies that are sent in the meantime are
   lost.
"""

from typing import Unpack

from qmgr_client.aio.replies import TIMEOUT_MS
from qmgr_client.blocking.topics import Topics
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.outgoing import PutOptions, PutResult


class Replies(Topics):
    """The methods that send requests and replies."""

    def request(
        self,
        queue: str,
        body: bytes,
        timeout_ms: Duration = TIMEOUT_MS,
        **options: Unpack[PutOptions],
    ) -> Message:
        """Sends a request and returns its reply. The client has already acknowledged the reply.

        Args:
            queue: The name of a local queue, or a topic with a leading ``/``.
            body: The content of the request.
            timeout_ms: The maximum time to wait for the reply, at least 1 ms. The request expires
                after the same time, unless *options* has another ``expiry_ms``.
            options: The options of :meth:`put`, except ``reply_to`` and ``correlation_id``.

        Raises:
            RequestTimeout: No reply arrived in time. A consumer may have processed the request.
            RequestError: The put was refused. SUBSCRIPTIONS_EXHAUSTED if the queue manager cannot
                create the subscription for replies. VALUE_INVALID if *queue* is behind a link or an
                argument is invalid.
        """
        return self._call(self._aio.request(queue, body, timeout_ms, **options))

    def reply(self, message: Message, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Sends the reply to a request and returns once the reply is on disk.

        The reply has the correlation id of *message*. You must acknowledge *message* yourself.

        Args:
            message: The request.
            body: The content of the reply.
            options: The options of :meth:`put`.

        Returns:
            The result of the put. ``subscriptions`` is 0 if the :meth:`request` call no longer
            waits.

        Raises:
            RequestError: VALUE_INVALID if *message* has no ``reply_to``. Also the errors of
                :meth:`put`.
        """
        return self._call(self._aio.reply(message, body, **options))
