# Generated from qmgr_client/aio/topics.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Publishing and subscribing, without asyncio.

queue_manager.publish("flights/JFK/UA", b"20 minutes late")
with queue_manager.subscribe("flights/+/UA", "BILLING:late") as subscription:
    for message in subscription:
        ...
        queue_manager.ack(message)
"""

from collections.abc import Iterable
from typing import Unpack

from qmgr_client.attributes import SubscriptionAttributes
from qmgr_client.blocking.bridge import collected
from qmgr_client.blocking.messaging import Messaging
from qmgr_client.blocking.subscription import Subscription
from qmgr_client.duration import Duration
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult
from qmgr_client.rows import Removed
from qmgr_client.selection import GroupOrder
from qmgr_protocol.errors import RequestError


class Topics(Messaging):
    """Publishes messages, and subscribes to topics."""

    def publish(
        self, topic: str, body: bytes, *, retained: bool = False, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Publish a message; return when it is on disk.

        Args:
            topic: as "flights/JFK/UA".
            body: what is published.
            retained: whether the topic keeps it, instead of what it kept before, for those who
                subscribe later; with an empty body it keeps nothing.
            options: as of :meth:`Client.submit`.

        Returns:
            ``subscriptions`` says how many it fits; None where the answer that said it was lost.

        Raises:
            RequestError: TOPIC_INVALID, PUT_INHIBITED, or as of a put.
        """
        return self._call(self._aio.publish(topic, body, retained=retained, **options))

    def publish_many(
        self, topic: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Publish bodies or whole messages; return what became of each, in their order."""
        return self._call(self._aio.publish_many(topic, collected(items)))

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
        """Return what is published to the topics of a filter, for ``with`` and ``for``.

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
            prefetch, lease_ms, groups, all_available: as of :meth:`Client.consume`.
        """
        return Subscription(
            self._thread,
            self._thread.make(
                lambda: self._aio.subscribe(
                    topic,
                    subscription,
                    where=where,
                    attributes=attributes,
                    retained=retained,
                    prefetch=prefetch,
                    lease_ms=lease_ms,
                    groups=groups,
                    all_available=all_available,
                )
            ),
        )

    def unsubscribe(self, subscription: str) -> Removed:
        """End a subscription with all that it holds; "messages" says how many, if that is known.

        Raises:
            RequestError: SUBSCRIPTION_UNKNOWN.
        """
        return self._call(self._aio.unsubscribe(subscription))
