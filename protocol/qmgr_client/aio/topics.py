"""Topics for asyncio: publishing, subscribing, and what operators ask of both.

    await queue_manager.publish("flights/JFK/UA", b"20 minutes late")
    async with queue_manager.subscribe("flights/+/UA", "BILLING:late") as subscription:
        async for message in subscription:
            ...
            await queue_manager.ack(message)

attributes.py has what subscriptions and topics may be given, rows.py what is returned.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, Unpack

from qmgr_client.aio.asker import Asker
from qmgr_client.aio.job import ended
from qmgr_client.aio.session import Session
from qmgr_client.aio.subscription import Subscription, Terms
from qmgr_client.attributes import SubscriptionAttributes, TopicAttributes, encoded, given
from qmgr_client.duration import Duration, in_ms
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, outgoing_of
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
from qmgr_client.selection import GroupOrder, order_of
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, encode_uid
from qmgr_protocol.topic import MARK

PAGE = 1_000
DIGITS_MAX = 19  # of a timestamp


class Topics:
    """What a queue manager does with topics and subscriptions."""

    _session: Session

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
        return await self.put_many(_name_of(topic), items)

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

    async def put_many(
        self, queue: str, items: Iterable[bytes | Outgoing]
    ) -> list[PutResult | RequestError]:
        """Put bodies or whole messages; the client says how."""
        raise NotImplementedError

    async def _submit(self, queue: str, outgoing: Outgoing) -> "asyncio.Future[PutResult]":
        raise NotImplementedError

    async def _ask(self, kind: type[Any], *fields: Any) -> Any:
        raise NotImplementedError


class TopicsAdmin(Asker):
    """What an operator asks about topics and subscriptions."""

    async def subscription_create(
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
        fields = topic, subscription, where, given(attributes), retained
        return await self._row(SubscriptionRow, m.Subscribe, *fields)

    async def subscription_list(self, topic: str = "", limit: int = 0) -> list[SubscriptionRow]:
        """Return the rows of all subscriptions, or of those that *topic* fits; 0 is no limit."""
        return await self._listed("subscriptions", limit, m.SubscriptionList, topic)

    async def subscription_healthy(self, subscription: str) -> SubscriptionHealthy:
        """Say that a subscriber can take messages again; return its row, and the "job" if any.

        A suspended one goes on. What is parked for it is sent where its topic has republish =
        healthy.
        """
        return await self._row(SubscriptionHealthy, m.SubscriptionHealthy, subscription)

    async def topic_set(self, topic: str, **attributes: Unpack[TopicAttributes]) -> TopicRow:
        """Define what holds for a topic and all below it; return its row."""
        return await self._row(TopicRow, m.TopicSet, topic, encoded(attributes))

    async def topic_delete(self, topic: str, *, retained: bool = False) -> None:
        """Delete what is defined for a topic; or, with *retained*, the publication that it kept."""
        await self._ask(m.TopicDelete, topic, retained)

    async def topic_list(self, limit: int = 0) -> list[TopicRow]:
        """Return the rows of the topics that something is defined for, or that kept something."""
        return await self._listed("topics", limit, m.TopicList)

    async def topic_show(self, topic: str) -> TopicShown:
        """Return what holds for a topic, and how many subscriptions it fits."""
        return await self._row(TopicShown, m.TopicShow, topic)

    async def topic_lacks(self, uid: Uid | str) -> TopicLacks:
        """Return which subscriptions have not consumed a publication.

        Args:
            uid: its own, or the text of it that rows have.

        Raises:
            RequestError: PUBLICATION_UNKNOWN: all have, or there was none.
        """
        return await self._row(TopicLacks, m.TopicLacks, _encoded(uid))

    async def republish_list(
        self, *, where: str = "", uid: Uid | str | None = None, subscription: str = ""
    ) -> AsyncGenerator[ParkedRow, None]:
        """Yield what is parked, each publication for each subscriber, in order of publication.

        Args:
            where: a selector; beside the message's facts there are topic, subscription, dead_code,
                dead_reason, dead_text and dead_us.
            uid: of the one publication that is wanted, or the text of it that rows have.
            subscription: of the one subscriber.
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
        if isinstance(subscriptions, str):  # A list of letters, it would seem.
            text = f"subscriptions are a list: write [{subscriptions!r}], not {subscriptions!r}"
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        fields = _encoded(uid), where, list(subscriptions), rate, messages_max
        row = await self._row(JobRow, m.Republish, drop, *fields)
        return await ended(self._ask, row) if wait else row

    async def _listed(self, key: str, limit: int, kind: type[Any], *fields: Any) -> list[Any]:
        """Return rows of all pages, at most *limit* of them; 0 is any number."""
        found: list[Any] = []
        after: str | None = ""
        while after is not None and not len(found) >= limit > 0:
            page = min(PAGE, limit - len(found)) if limit else PAGE
            value = await self._row(dict[str, Any], kind, after, page, *fields)
            found += value[key]
            after = value["next"]
        return found


def _name_of(topic: str) -> str:
    """Returns what a put to *topic* names.

    Raises:
        RequestError: TOPIC_INVALID, it is not text.
    """
    if not isinstance(topic, str):
        raise RequestError(ErrorCode.TOPIC_INVALID, f"a topic is text, not {repr(topic)[:80]}")
    return MARK + topic


def _encoded(uid: Uid | str | None) -> bytes:
    """Return *uid* as requests have it; nothing of none.

    Raises:
        RequestError: VALUE_INVALID.
    """
    if isinstance(uid, str):
        origin, _, timestamp = uid.rpartition(".")
        if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= DIGITS_MAX):
            text = f"{uid[:100]!r} is not a UID: it is not ORIGIN.TIMESTAMP"
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        uid = Uid(origin, int(timestamp))
    return b"" if uid is None else encode_uid(uid)
