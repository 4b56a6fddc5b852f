"""Topics without async; aio_topics says more of each verb."""

from collections.abc import Coroutine, Iterable, Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar, Unpack

from qmgr_client import aio
from qmgr_client.aio import admin as aio_admin
from qmgr_client.attributes import SubscriptionAttributes, TopicAttributes
from qmgr_client.blocking.bridge import Caller, pages
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, each_outgoing
from qmgr_client.rows import (
    JobRow,
    ParkedRow,
    Removed,
    SubscriptionHealthy,
    SubscriptionRow,
    TopicLacks,
    TopicRow,
    TopicShown,
)
from qmgr_client.selection import GroupOrder
from qmgr_protocol.errors import RequestError
from qmgr_protocol.record import Uid

Value = TypeVar("Value")


class Topics:
    """What a queue manager does with topics and subscriptions."""

    _manager: aio.QueueManager

    def publish(
        self, topic: str, body: bytes, *, retained: bool = False, **options: Unpack[PutOptions]
    ) -> PutResult:
        """Publish a message; return when it is on disk, with how many subscriptions it fits."""
        return self._call(self._manager.publish(topic, body, retained=retained, **options))

    def publish_many(
        self, topic: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Publish bodies or whole messages; return what became of each, in their order."""
        return self._call(
            self._manager.publish_many(topic, list(each_outgoing("publish_many", items)))
        )

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
    ) -> "Subscription":
        """Return what is published to the topics of a filter, for ``with`` and ``for``; see aio."""

        async def made() -> aio.Subscription:
            return self._manager.subscribe(
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

        return Subscription(self._call, self._unless_closed, self._call(made()))

    def unsubscribe(self, subscription: str) -> Removed:
        """End a subscription with all that it holds; tells how many messages that were."""
        return self._call(self._manager.unsubscribe(subscription))

    def _call(self, call: Coroutine[Any, Any, Value]) -> Value:
        raise NotImplementedError  # The client has it.

    def _unless_closed(self, call: Coroutine[Any, Any, Value]) -> Value | None:
        raise NotImplementedError


class TopicsAdmin:
    """What an operator asks about topics and subscriptions."""

    _call: Caller
    _admin: aio_admin.Admin

    def subscription_create(
        self,
        topic: str,
        subscription: str,
        *,
        where: str = "",
        retained: bool = True,
        **attributes: Unpack[SubscriptionAttributes],
    ) -> SubscriptionRow:
        """Define a durable subscription, or a proxy; return its row."""
        creating = self._admin.subscription_create(
            topic, subscription, where=where, retained=retained, **attributes
        )
        return self._call(creating)

    def subscription_list(self, topic: str = "", limit: int = 0) -> list[SubscriptionRow]:
        """Return the rows of all subscriptions, or of those that *topic* fits; 0 is no limit."""
        return self._call(self._admin.subscription_list(topic, limit))

    def subscription_healthy(self, subscription: str) -> SubscriptionHealthy:
        """Say that a subscriber can take messages again; see aio."""
        return self._call(self._admin.subscription_healthy(subscription))

    def topic_set(self, topic: str, **attributes: Unpack[TopicAttributes]) -> TopicRow:
        """Define what holds for a topic and all below it; return its row."""
        return self._call(self._admin.topic_set(topic, **attributes))

    def topic_delete(self, topic: str, *, retained: bool = False) -> None:
        """Delete what is defined for a topic; or, with *retained*, the publication it kept."""
        self._call(self._admin.topic_delete(topic, retained=retained))

    def topic_list(self, limit: int = 0) -> list[TopicRow]:
        """Return the rows of the topics that something is defined for, or that kept something."""
        return self._call(self._admin.topic_list(limit))

    def topic_show(self, topic: str) -> TopicShown:
        """Return what holds for a topic, and how many subscriptions it fits."""
        return self._call(self._admin.topic_show(topic))

    def topic_lacks(self, uid: Uid | str) -> TopicLacks:
        """Return which subscriptions have not consumed a publication."""
        return self._call(self._admin.topic_lacks(uid))

    def republish_list(
        self, *, where: str = "", uid: Uid | str | None = None, subscription: str = ""
    ) -> Iterator[ParkedRow]:
        """Yield what is parked, each publication for each subscriber; see aio."""
        found = self._admin.republish_list(where=where, uid=uid, subscription=subscription)
        return pages(self._call, found)

    def republish(
        self,
        *,
        where: str = "",
        uid: Uid | str | None = None,
        subscriptions: Sequence[str] = (),
        rate: int = 0,
        messages_max: int = 0,
        drop: bool = False,
        wait: bool = False,
    ) -> JobRow:
        """Have what is parked be delivered once more, or dropped; return the job's row; see aio."""
        asking = self._admin.republish(
            where=where,
            uid=uid,
            subscriptions=subscriptions,
            rate=rate,
            messages_max=messages_max,
            drop=drop,
            wait=wait,
        )
        return self._call(asking)


class Subscription:
    """Publications as they come, for ``with`` and ``for``."""

    def __init__(self, call: Any, unless_closed: Any, subscription: aio.Subscription) -> None:
        self._call = call
        self._unless_closed = unless_closed
        self._subscription = subscription

    @property
    def name(self) -> str:
        """The name under which the queue manager knows it; empty before it is opened."""
        return self._subscription.name

    def open(self) -> None:
        """Subscribe, unless it has been done; raises as that of aio."""
        self._call(self._subscription.open())

    def __iter__(self) -> "Subscription":
        return self

    def __next__(self) -> Message:
        """Return the next publication; raises as that of aio."""
        found: Message | None = self._unless_closed(self._next())
        if found is None:
            raise StopIteration
        return found

    async def _next(self) -> Message | None:
        return await anext(self._subscription, None)  # No future can carry StopAsyncIteration.

    def __enter__(self) -> "Subscription":
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Consume no more; one that is not durable ends, too."""
        self._unless_closed(self._subscription.cancel())
