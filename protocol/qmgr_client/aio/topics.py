"""Publishing and subscribing, for asyncio.

await queue_manager.publish("flights/JFK/UA", b"20 minutes late")
async with queue_manager.subscribe("flights/+/UA", "BILLING:late") as subscription:
    async for message in subscription:
        ...
        await queue_manager.ack(message)
"""

from collections.abc import Iterable
from typing import Unpack

from qmgr_client.aio.messaging import Messaging
from qmgr_client.aio.subscription import Subscription, SubscriptionTerms
from qmgr_client.attributes import SubscriptionAttributes, without_none
from qmgr_client.duration import Duration, in_ms
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, each_outgoing, outgoing_of
from qmgr_client.rows import Removed
from qmgr_client.selection import GroupOrder, order_of
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.topic import MARK


class Topics(Messaging):
    """The methods that publish messages and subscribe to topics."""

    async def publish(
        self, topic: str, body: bytes, *, retained: bool = False, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Publishes a message and returns once it is on disk.

        Args:
            topic: A topic such as ``"flights/JFK/UA"``.
            body: The content of the message.
            retained: Whether the topic retains the message for later subscribers. The message
                replaces the previous retained message. An empty body removes that message instead.
            options: The options of :meth:`put`.

        Returns:
            The result of the put. ``subscriptions`` is the number of matching subscriptions, or
            None if the answer was lost with a connection.

        Raises:
            RequestError: TOPIC_INVALID, PUT_INHIBITED or an error of :meth:`put`.
        """
        outgoing = outgoing_of("publish", body, options)._replace(retained=retained)
        return await (await self._submit(_name_of(topic), outgoing))

    async def publish_many(
        self, topic: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Publishes several messages and returns once each message is on disk or refused.

        Args:
            topic: A topic such as ``"flights/JFK/UA"``.
            items: Bodies, or :class:`Outgoing` messages with options.

        Returns:
            A PutResult or a RequestError for each item, in the order of *items*.
        """
        return await self._put_each(_name_of(topic), each_outgoing("publish_many", items))

    def subscribe(
        self,
        topic: str,
        subscription: str = "",
        *,
        where: str = "",
        attributes: SubscriptionAttributes | None = None,
        retained: bool = True,
        prefetch: int = 256,
        lease_ms: Duration = 0,
        groups: GroupOrder = "physical",
        all_available: bool = False,
    ) -> Subscription:
        """Returns an iterator over the publications that match a topic filter.

        Use the iterator with ``async with`` and ``async for``.

        Args:
            topic: A topic filter. ``+`` matches one level, as in ``"flights/+/UA"``. ``#`` matches
                all further levels, as in ``"flights/#"``.
            subscription: The name of a durable subscription, such as ``"BILLING:late"``. The queue
                manager creates the subscription if it does not exist, and keeps it. If several
                consumers share a subscription, each publication is delivered to one of them. ``""``
                creates a subscription that ends with the connection of this client. If the
                connection is lost, the client creates a new subscription. Publications in the
                meantime are missed.
            where: A selector. Only publications that match it are delivered.
            attributes: The attributes of the subscription. ``redelivery_limit`` is the maximum
                number of redeliveries of a failed publication before it is parked.
            retained: Whether a new subscription starts with the retained publications.
            prefetch: The same as in :meth:`consume`.
            lease_ms: The same as in :meth:`consume`.
            groups: The same as in :meth:`consume`.
            all_available: The same as in :meth:`consume`.

        Raises:
            RequestError: VALUE_INVALID. Other errors are raised when the subscription is opened.
        """
        terms = SubscriptionTerms(
            topic,
            subscription,
            where,
            without_none(attributes or {}),
            retained,
            prefetch,
            in_ms("lease_ms", lease_ms),
            (order_of(groups, pinned=True), all_available),
        )
        return Subscription(self._session, self._ask, terms)

    async def unsubscribe(self, subscription: str) -> Removed:
        """Deletes a subscription with all of its messages.

        Returns:
            The number of deleted messages, in ``messages``. The number is None if the answer was
            lost with a connection.

        Raises:
            RequestError: SUBSCRIPTION_UNKNOWN if the subscription does not exist.
        """
        row: Removed = await self._ask(m.Unsubscribe, subscription)
        return row


def _name_of(topic: str) -> str:
    """Returns the destination of a put for *topic*.

    Raises:
        RequestError: TOPIC_INVALID if *topic* is not a str.
    """
    if not isinstance(topic, str):
        text = f"a topic must be a str, not {repr(topic)[:80]}"
        raise RequestError(ErrorCode.TOPIC_INVALID, text)
    return MARK + topic
