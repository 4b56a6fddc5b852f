# Generated from qmgr_client/aio/replies.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Requests and replies for asyncio: a message that is answered with another one.

    asking    request ──put, reply_to=/replies/4f2a..., correlation id──▶ queue
                 ▲                                                          │ consume
                 └──────── subscription to /replies/4f2a... ◀── publish ── reply

1. The reply address is a topic that nobody else knows, with a subscription that is not durable. A
   client has one, made at its first request and shared by all.
2. A reply finds its request by the correlation id. One that comes late, or twice, is dropped.
3. If the connection is lost, the subscription is made again; a reply in between is lost.
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
        """Put a message and return the reply to it, which is acknowledged already.

        Args:
            queue: a queue of this queue manager, or a topic with its "/".
            body: what is asked.
            timeout_ms: how long to wait, from 1 on. The request expires then, too, unless
                *options* has another ``expiry_ms``.
            options: as of :meth:`Client.put`, but for reply_to and correlation_id.

        Raises:
            RequestTimeout: no reply in time; whether the request was worked on is unknown.
            RequestError: the put is refused; SUBSCRIPTIONS_EXHAUSTED, there is no room for the
                reply address; VALUE_INVALID, *queue* is behind a link.
        """
        return self._call(self._aio.request(queue, body, timeout_ms, **options))

    def reply(self, message: Message, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Put *body* where the producer of *message* wants its reply; return when it is on disk.

        It has the correlation id of *message*, and *message* is still to be acknowledged. Of the
        result, ``subscriptions`` is 0 where a :meth:`request` waits no more.

        Raises:
            RequestError: VALUE_INVALID, *message* has no ``reply_to``; or as of a put.
        """
        return self._call(self._aio.reply(message, body, **options))
