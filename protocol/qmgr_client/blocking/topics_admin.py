# Generated from qmgr_client/aio/topics_admin.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Administration of topics and subscriptions, without asyncio."""

from collections.abc import Iterator, Sequence
from typing import Unpack

from qmgr_client.aio import admin as aio_admin
from qmgr_client.attributes import SubscriptionAttributes, TopicAttributes
from qmgr_client.blocking.bridge import Bridge, pages
from qmgr_client.rows import (
    JobRow,
    ParkedRow,
    SubscriptionHealthy,
    SubscriptionRow,
    TopicLacks,
    TopicRow,
    TopicShown,
)
from qmgr_protocol.record import Uid


class TopicsAdmin(Bridge[aio_admin.Admin]):
    """What an operator asks about topics and subscriptions."""

    def subscription_create(
        self,
        topic: str,
        subscription: str,
        *,
        where: str = "",
        retained: bool = True,
        **attributes: Unpack[SubscriptionAttributes],
    ) -> SubscriptionRow:
        """Define a durable subscription, or a proxy (":NAME@MANAGER"); return its row.

        The same again changes nothing.

        Raises:
            RequestError: SUBSCRIPTION_EXISTS, with another topic or other attributes; NAME_INVALID,
                TOPIC_INVALID, VALUE_INVALID, SELECTOR_INVALID, SUBSCRIPTIONS_EXHAUSTED.
        """
        return self._call(
            self._aio.subscription_create(
                topic, subscription, where=where, retained=retained, **attributes
            )
        )

    def subscription_list(self, topic: str = "", limit: int = 0) -> list[SubscriptionRow]:
        """Return the rows of all subscriptions, or of those that *topic* fits; 0 is no limit."""
        return self._call(self._aio.subscription_list(topic, limit))

    def subscription_healthy(self, subscription: str) -> SubscriptionHealthy:
        """Say that a subscriber can take messages again; return its row, and the "job" if any.

        A suspended one goes on. What is parked for it is sent where its topic has republish =
        healthy.
        """
        return self._call(self._aio.subscription_healthy(subscription))

    def topic_set(self, topic: str, **attributes: Unpack[TopicAttributes]) -> TopicRow:
        """Define what holds for a topic and all below it; return its row."""
        return self._call(self._aio.topic_set(topic, **attributes))

    def topic_delete(self, topic: str, *, retained: bool = False) -> None:
        """Delete what is defined for a topic; or, with *retained*, the publication that it kept."""
        self._call(self._aio.topic_delete(topic, retained=retained))

    def topic_list(self, limit: int = 0) -> list[TopicRow]:
        """Return the rows of the topics that something is defined for, or that kept something."""
        return self._call(self._aio.topic_list(limit))

    def topic_show(self, topic: str) -> TopicShown:
        """Return what holds for a topic, and how many subscriptions it fits."""
        return self._call(self._aio.topic_show(topic))

    def topic_lacks(self, uid: Uid | str) -> TopicLacks:
        """Return which subscriptions have not consumed a publication.

        Args:
            uid: its own, or the text of it that rows have.

        Raises:
            RequestError: PUBLICATION_UNKNOWN: all have, or there was none.
        """
        return self._call(self._aio.topic_lacks(uid))

    def republish_list(
        self, *, where: str = "", uid: Uid | str | None = None, subscription: str = ""
    ) -> Iterator[ParkedRow]:
        """Yield what is parked, each publication for each subscriber, in order of publication.

        Args:
            where: a selector; beside the message's facts there are topic, subscription, dead_code,
                dead_reason, dead_text and dead_us.
            uid: of the one publication that is wanted, or the text of it that rows have.
            subscription: of the one subscriber.
        """
        return pages(
            self._call, self._aio.republish_list(where=where, uid=uid, subscription=subscription)
        )

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
        """Have what is parked be delivered once more, to those alone for whom it is parked.

        Returns the row of the job that does it; without arguments for all that is parked now.

        Args:
            where, uid: as of :meth:`republish_list`.
            subscriptions: the subscribers that are meant.
            rate, messages_max: how many in a second, and in all; 0 is any number.
            drop: whether it is to be forgotten instead.
            wait: whether to return only when the job is over. Its row says what became of what is
                parked: "done" went to its subscriber; "skipped" goes as soon as its subscriber
                consumes again; "stayed" is still parked, and "text" says why. "state" is "done",
                or "failed", "cancelled", "aside".
        """
        return self._call(
            self._aio.republish(
                where=where,
                uid=uid,
                subscriptions=subscriptions,
                rate=rate,
                messages_max=messages_max,
                drop=drop,
                wait=wait,
            )
        )
