"""Administration of topics and subscriptions, for asyncio."""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Unpack

from qmgr_client.aio.asker import Asker
from qmgr_client.aio.job import ended
from qmgr_client.attributes import SubscriptionAttributes, TopicAttributes, encoded, given
from qmgr_client.rows import (
    JobRow,
    ParkedRow,
    SubscriptionHealthy,
    SubscriptionRow,
    TopicLacks,
    TopicRow,
    TopicShown,
)
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid, encode_uid

PAGE = 1_000
DIGITS_MAX = 19  # of a timestamp


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
