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
    SubscriptionRestarted,
    SubscriptionRow,
    TopicRow,
    TopicShown,
    UnacknowledgedPublication,
)
from qmgr_protocol.record import Uid


class TopicsAdmin(Bridge[aio_admin.Admin]):
    """The requests of operators for topics and subscriptions."""

    def subscription_create(
        self,
        topic: str,
        subscription: str,
        *,
        where: str = "",
        retained: bool = True,
        **attributes: Unpack[SubscriptionAttributes],
    ) -> SubscriptionRow:
        """Creates a durable subscription and returns its row.

        Creating the same subscription again changes nothing.

        Args:
            topic: A topic filter, as in :meth:`Client.subscribe`.
            subscription: A name such as ``"BILLING:late"``, or ``":NAME@MANAGER"`` for a proxy. A
                proxy forwards publications to another queue manager.
            where: A selector. Only publications that match it are delivered.
            retained: Whether the subscription starts with the retained publications.
            attributes: The attributes of the subscription.

        Raises:
            RequestError: SUBSCRIPTION_EXISTS if the subscription exists with another topic or other
                attributes. Also NAME_INVALID, TOPIC_INVALID, VALUE_INVALID, SELECTOR_INVALID or
                SUBSCRIPTIONS_EXHAUSTED.
        """
        return self._call(
            self._aio.subscription_create(
                topic, subscription, where=where, retained=retained, **attributes
            )
        )

    def subscription_list(self, topic: str = "", limit: int = 0) -> list[SubscriptionRow]:
        """Returns the rows of subscriptions.

        Args:
            topic: Return only subscriptions that match this topic. ``""`` returns all
                subscriptions.
            limit: The maximum number of rows to return. 0 means unlimited.
        """
        return self._call(self._aio.subscription_list(topic, limit))

    def subscription_healthy(self, subscription: str) -> SubscriptionRestarted:
        """Reports that a subscriber can process messages again.

        A suspended subscription resumes. Parked publications are republished to the subscription if
        the ``republish`` of their topic is ``"healthy"``.

        Returns:
            The row of the subscription. ``job`` is the number of the job that republishes, or None.
        """
        return self._call(self._aio.subscription_healthy(subscription))

    def topic_set(self, topic: str, **attributes: Unpack[TopicAttributes]) -> TopicRow:
        """Sets attributes for a topic and all topics below it, and returns the row of the topic."""
        return self._call(self._aio.topic_set(topic, **attributes))

    def topic_delete(self, topic: str, *, retained: bool = False) -> None:
        """Deletes the attributes or the retained publication of a topic.

        Args:
            topic: The topic.
            retained: Whether to delete the retained publication instead of the attributes.
        """
        self._call(self._aio.topic_delete(topic, retained=retained))

    def topic_list(self, limit: int = 0) -> list[TopicRow]:
        """Returns the rows of topics that have attributes or a retained publication.

        Args:
            limit: The maximum number of rows to return. 0 means unlimited.
        """
        return self._call(self._aio.topic_list(limit))

    def topic_show(self, topic: str) -> TopicShown:
        """Returns the attributes that apply to a topic, and its matching subscriptions."""
        return self._call(self._aio.topic_show(topic))

    def topic_lacks(self, uid: Uid | str) -> UnacknowledgedPublication:
        """Returns the subscriptions that have not acknowledged a publication yet.

        Args:
            uid: The UID of the publication, as a Uid or in the text form of rows.

        Raises:
            RequestError: PUBLICATION_UNKNOWN if all subscriptions have acknowledged the publication
                or if it never existed. VALUE_INVALID if *uid* is not a UID.
        """
        return self._call(self._aio.topic_lacks(uid))

    def republish_list(
        self, *, where: str = "", uid: Uid | str | None = None, subscription: str = ""
    ) -> Iterator[ParkedRow]:
        """Yields parked publications, in the order of publication.

        A publication that is parked for several subscriptions is yielded once for each of them.

        Args:
            where: A selector. In addition to the fields of messages, a selector can use topic,
                subscription, dead_code, dead_reason, dead_text and dead_us.
            uid: Yield only the publication with this UID: a Uid, or its text form.
            subscription: Yield only publications that are parked for this subscription.
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
        """Delivers parked publications again to the subscriptions that they are parked for.

        A job republishes the publications. Without arguments, the job republishes all parked
        publications.

        Args:
            where: The same as in :meth:`republish_list`.
            uid: The same as in :meth:`republish_list`.
            subscriptions: The names of the subscriptions. An empty sequence means all
                subscriptions.
            rate: The maximum number of publications per second. 0 means unlimited.
            messages_max: The maximum number of publications in total. 0 means unlimited.
            drop: Whether to delete the parked publications instead of delivering them.
            wait: Whether to return only when the job has ended. The ``state`` of the job is then
                ``"done"``, ``"failed"``, ``"cancelled"`` or ``"aside"``.

        Returns:
            The row of the job. ``done`` counts publications that were sent to their subscription.
            ``skipped`` counts publications that will be sent once their subscription has a
            consumer. ``stayed`` counts publications that are still parked. ``text`` states why they
            are still parked.

        Raises:
            RequestError: SELECTOR_INVALID, or VALUE_INVALID if *subscriptions* is a single name.
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
