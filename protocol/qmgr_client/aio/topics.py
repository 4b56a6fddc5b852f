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
from qmgr_client.aio.subscription import Subscription, Terms
from qmgr_client.attributes import SubscriptionAttributes, given
from qmgr_client.duration import Duration, in_ms
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, each_outgoing, outgoing_of
from qmgr_client.rows import Removed
from qmgr_client.selection import GroupOrder, order_of
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.topic import MARK


class Topics(Messaging):
    """Publishes messages, and subscribes to topics."""

    async def publish(
        self, topic: str, body: bytes, *, retained: bool = False, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Publish a message; return when it is on disk.

        Args:
            topic: as "flights/JFK/UA".
            body: what is published.
            retained: whether the topic keeps it, instead of what it kept before, for those who
                subscribe later; with an empty body it keeps nothing.
            options: as of :meth:`QueueManager.submit`.

        Returns:
            ``subscriptions`` says how many it fits; None where the answer that said it was lost.

        Raises:
            RequestError: TOPIC_INVALID, PUT_INHIBITED, or as of a put.
        """
        outgoing = outgoing_of("publish", body, options)._replace(retained=retained)
        return await (await self._submit(_name_of(topic), outgoing))

    async def publish_many(
        self, topic: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Publish bodies or whole messages; return what became of each, in their order."""
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
        """Return what is published to the topics of a filter, for ``async with`` and ``async for``.

        Args:
            topic: a filter: in "flights/+/UA" + is any level, in "flights/#" # is all that follow.
            subscription: the name of a durable one, "CLIENT:NAME", which is made if it is not
                there, and stays. Several may consume from it, each publication goes to one of
                them. Empty: one that lives and dies with this client's connection; where that is
                lost a new one begins, and what was published meanwhile is missed.
            where: a selector of publications.
            attributes: of the subscription, as of a queue; redelivery_limit says how often what
                fails comes again before it is parked.
            retained: whether a new one begins with the last retained publication of each topic.
            prefetch, lease_ms, groups, all_available: as of :meth:`QueueManager.consume`.
        """
        terms = Terms(
            topic,
            subscription,
            where,
            given(attributes or {}),
            retained,
            prefetch,
            in_ms("lease_ms", lease_ms),
            (order_of(groups, pinned=True), all_available),
        )
        return Subscription(self._session, self._ask, terms)

    async def unsubscribe(self, subscription: str) -> Removed:
        """End a subscription with all that it holds; "messages" says how many, if that is known.

        Raises:
            RequestError: SUBSCRIPTION_UNKNOWN.
        """
        row: Removed = await self._ask(m.Unsubscribe, subscription)
        return row


def _name_of(topic: str) -> str:
    """Returns what a put to *topic* names.

    Raises:
        RequestError: TOPIC_INVALID, it is not text.
    """
    if not isinstance(topic, str):
        raise RequestError(ErrorCode.TOPIC_INVALID, f"a topic is text, not {repr(topic)[:80]}")
    return MARK + topic
