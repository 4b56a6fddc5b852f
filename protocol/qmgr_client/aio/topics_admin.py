"""Administration of topics and subscriptions, for asyncio."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Unpack

from qmgr_client.aio.asker import Asker
from qmgr_client.aio.job import ended
from qmgr_client.attributes import SubscriptionAttributes, TopicAttributes, encoded, without_none
from qmgr_client.rows import (
    JobRow,
    ParkedRow,
    SubscriptionRestarted,
    SubscriptionRow,
    TopicRow,
    TopicShown,
    UnacknowledgedPublication,
)
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, encode_uid

PAGE = 1_000
DIGITS_MAX = 19  # maximum number of digits of a timestamp


class TopicsAdmin(Asker):
    """The requests of operators for topics and subscriptions."""

    async def subscription_create(
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
            topic: A topic filter, as in :meth:`QueueManager.subscribe`.
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
        fields = topic, subscription, where, without_none(attributes), retained
        return await self._row(SubscriptionRow, m.Subscribe, *fields)

    async def subscription_list(self, topic: str = "", limit: int = 0) -> list[SubscriptionRow]:
        """Returns the rows of subscriptions.

        Args:
            topic: Return only subscriptions that match this topic. ``""`` returns all
                subscriptions.
            limit: The maximum number of rows to return. 0 means unlimited.
        """
        return await self._listed("subscriptions", limit, m.SubscriptionList, topic)

    async def subscription_healthy(self, subscription: str) -> SubscriptionRestarted:
        """Reports that a subscriber can process messages again.

        A suspended subscription resumes. Parked publications are republished to the subscription if
        the ``republish`` of their topic is ``"healthy"``.

        Returns:
            The row of the subscription. ``job`` is the number of the job that republishes, or None.
        """
        return await self._row(SubscriptionRestarted, m.SubscriptionHealthy, subscription)

    async def topic_set(self, topic: str, **attributes: Unpack[TopicAttributes]) -> TopicRow:
        """Sets attributes for a topic and all topics below it, and returns the row of the topic."""
        return await self._row(TopicRow, m.TopicSet, topic, encoded(attributes))

    async def topic_delete(self, topic: str, *, retained: bool = False) -> None:
        """Deletes the attributes or the retained publication of a topic.

        Args:
            topic: The topic.
            retained: Whether to delete the retained publication instead of the attributes.
        """
        await self._ask(m.TopicDelete, topic, retained)

    async def topic_list(self, limit: int = 0) -> list[TopicRow]:
        """Returns the rows of topics that have attributes or a retained publication.

        Args:
            limit: The maximum number of rows to return. 0 means unlimited.
        """
        return await self._listed("topics", limit, m.TopicList)

    async def topic_show(self, topic: str) -> TopicShown:
        """Returns the attributes that apply to a topic, and its matching subscriptions."""
        return await self._row(TopicShown, m.TopicShow, topic)

    async def topic_lacks(self, uid: Uid | str) -> UnacknowledgedPublication:
        """Returns the subscriptions that have not acknowledged a publication yet.

        Args:
            uid: The UID of the publication, as a Uid or in the text form of rows.

        Raises:
            RequestError: PUBLICATION_UNKNOWN if all subscriptions have acknowledged the publication
                or if it never existed. VALUE_INVALID if *uid* is not a UID.
        """
        return await self._row(UnacknowledgedPublication, m.TopicLacks, _encoded(uid))

    async def republish_list(
        self, *, where: str = "", uid: Uid | str | None = None, subscription: str = ""
    ) -> AsyncGenerator[ParkedRow, None]:
        """Yields parked publications, in the order of publication.

        A publication that is parked for several subscriptions is yielded once for each of them.

        Args:
            where: A selector. In addition to the fields of messages, a selector can use topic,
                subscription, dead_code, dead_reason, dead_text and dead_us.
            uid: Yield only the publication with this UID: a Uid, or its text form.
            subscription: Yield only publications that are parked for this subscription.
        """
        wanted = where, _encoded(uid), subscription
        after: list[int] | None = None
        while True:
            value = await self._row(dict[str, Any], m.RepublishList, after, PAGE, *wanted)
            for row in value["parked"]:
                yield row
            if (after := value["next"]) is None:
                return

    async def republish(
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
        if isinstance(subscriptions, str):  # A str would be read as a list of letters.
            text = f"subscriptions must be a list: write [{subscriptions!r}]"
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        fields = _encoded(uid), where, list(subscriptions), rate, messages_max
        row = await self._row(JobRow, m.Republish, drop, *fields)
        return await ended(self._ask, row) if wait else row

    async def _listed(
        self, key: str, limit: int, kind: type[m.RequestWithId], *fields: Any
    ) -> list[Any]:
        """Returns at most *limit* rows from all pages. 0 means unlimited."""
        found: list[Any] = []
        after: str | None = ""
        while after is not None and not len(found) >= limit > 0:
            page = min(PAGE, limit - len(found)) if limit else PAGE
            value = await self._row(dict[str, Any], kind, after, page, *fields)
            found += value[key]
            after = value["next"]
        return found


def _encoded(uid: Uid | str | None) -> bytes:
    """Returns *uid* in the form of a request, or b"" if *uid* is None.

    Raises:
        RequestError: VALUE_INVALID if *uid* is not a UID.
    """
    if isinstance(uid, str):
        origin, _, timestamp = uid.rpartition(".")
        if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= DIGITS_MAX):
            text = f"{uid[:100]!r} is not a UID: the form is ORIGIN.TIMESTAMP"
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        uid = Uid(origin, int(timestamp))
    return b"" if uid is None else encode_uid(uid)
