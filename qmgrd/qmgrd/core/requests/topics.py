"""Handles requests about topics and subscriptions: subscribes, lists, shows, republishes."""

from collections.abc import Iterator, Mapping
from heapq import nsmallest
from itertools import islice
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol import topic as topics
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Kind
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.missing import unknown_subscription_error
from qmgrd.core.catalogue.subscription import Subscription
from qmgrd.core.catalogue.system import PUBLICATIONS
from qmgrd.core.catalogue.topics import retain, retained
from qmgrd.core.context.context import Context
from qmgrd.core.jobs import republish
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.queue import notes
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns import parked
from qmgrd.core.returns.parked import Parked
from qmgrd.core.sessions.page import page, shown
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.subscriptions import Subscriptions

LOOKED_AT_MAX = 5_000  # the number of parked publications examined per page
FIRST_SHOWN = 20  # the maximum number of a topic's subscriptions that are shown
_LANES = {
    keys.LANE_READY: "ready",
    keys.LANE_GROUPED: "ready",
    keys.LANE_DELAYED: "delayed",
    keys.LANE_PARKED: "parked",
}


class TopicAdmin:
    """Handles requests about topics, subscriptions and parked publications. Holds no state."""

    def __init__(
        self, context: Context, catalogue: Catalogue, jobs: Jobs, subscriptions: Subscriptions
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._topics = catalogue.topics
        self._jobs = jobs
        self._subscriptions = subscriptions

    def subscribe(self, session: Session, message: m.Subscribe) -> None:
        """Subscribes to the topics of a filter."""
        found = self._subscriptions.subscribe(
            session,
            message.topic,
            message.subscription,
            message.where,
            message.attributes,
            retained=message.retained,
        )
        self._context.reply(session.connection, message.request_id, self._row(found))

    def unsubscribe(self, session: Session, message: m.Unsubscribe) -> None:
        """Ends a subscription."""
        count = self._subscriptions.unsubscribe(message.subscription)
        session.subscriptions.pop(message.subscription, None)
        self._context.reply(session.connection, message.request_id, {"messages": count})

    def subscription_list(self, session: Session, message: m.SubscriptionList) -> None:
        """Lists a page of subscriptions in the order of their names."""
        found: Mapping[str, Subscription] = self._topics.subscriptions
        order = self._topics.subscriptions.order
        if message.topic:
            matched = self._topics.match(message.topic)
            self._context.count_read(len(matched) // 10, 0)
            found = {one.name: one for one in matched}
            order = sorted(found)
        is_shown = session.shown(Kind.SUBSCRIPTION)
        names, further = page(order, message.after, message.limit, is_shown)
        rows, further = shown(
            names, further, lambda name: self._row(found[name]), self._context.budget
        )
        self._context.count_read(2 * len(rows), 0)
        self._context.reply(
            session.connection, message.request_id, {"subscriptions": rows, "next": further}
        )

    def subscription_healthy(self, session: Session, message: m.SubscriptionHealthy) -> None:
        """Resumes a subscription whose subscriber can receive again."""
        found = self._subscriptions.find(message.subscription)
        job = self._subscriptions.healthy(found, session.name)
        row = self._row(found) | {"job": None if job is None else job.id}
        self._context.reply(session.connection, message.request_id, row)

    def _row(self, found: Subscription) -> dict[str, Any]:
        """Returns the row of a subscription, with the age of its oldest publication."""
        row = self._catalogue.show_queue(found.name)
        row["subscription"] = row.pop("queue")
        row |= {"durable": found.is_durable, "suspended": found.is_suspended}
        row |= {"manager": found.manager, "where": found.row.get("where", "")}
        row["oldest_us"] = None if found.queue is None else self._oldest_us(found.queue)
        return row

    def _oldest_us(self, queue: Queue) -> int | None:
        """Returns the put time of the oldest pending publication of a subscription, or None."""
        firsts = []
        for lane in (keys.LANE_READY, keys.LANE_GROUPED):
            for priority in range(keys.PRIORITY_TOP + 1) if queue.counters.depth else ():
                prefix = keys.entry_prefix(queue.id, priority, lane)
                row = next(self._context.tx.scan(prefix, keys.after(prefix)), None)
                if row is not None:
                    firsts.append(entries.decode(row[1]).put_us)
        return min(firsts, default=None)

    def topic_set(self, session: Session, message: m.TopicSet) -> None:
        """Defines the attributes of a topic."""
        changed = self._topics.define(message.topic, message.attributes)
        self._subscriptions.look_after_schedule(changed)
        self._context.reply(
            session.connection, message.request_id, self._topics.show(message.topic)
        )

    def topic_delete(self, session: Session, message: m.TopicDelete) -> None:
        """Deletes the definition of a topic, or its retained publication."""
        topics.levels_of(message.topic)
        if not message.retained:
            changed = self._topics.undefine(message.topic)
            self._subscriptions.look_after_schedule(changed)
        else:
            arrival = retained(self._context.tx, message.topic)
            if arrival is None:
                raise RequestError(
                    ErrorCode.TOPIC_UNKNOWN, f"topic {message.topic} has no retained publication"
                )
            self._catalogue.references.remove(arrival)
            retain(self._context.tx, message.topic, 0)
            self._context.wrote = True
        self._context.reply(session.connection, message.request_id, None)

    def topic_list(self, session: Session, message: m.TopicList) -> None:
        """Lists a page of topics that have a definition or a retained publication."""
        is_shown, count = session.shown(Kind.TOPIC), message.limit + 1
        names = set(page(self._topics.rows.order, message.after, count, is_shown)[0])
        start = keys.SPACE_RETAINED + message.after.encode() + b"\0" * bool(message.after)
        scanned = self._context.tx.scan(start, keys.after(keys.SPACE_RETAINED))
        kept = (key[keys.REST].decode(errors="replace") for key, _ in scanned)
        names.update(islice(kept if is_shown is None else filter(is_shown, kept), count))
        found = sorted(names)[: message.limit]
        further = found[-1] if len(names) > len(found) else None
        rows, further = shown(found, further, self._topics.show, self._context.budget)
        self._context.count_read(2 * len(rows), 0)
        self._context.reply(
            session.connection, message.request_id, {"topics": rows, "next": further}
        )

    def topic_show(self, session: Session, message: m.TopicShow) -> None:
        """Shows the attributes in force for a topic, and its subscriptions."""
        matched = self._topics.match(message.topic)
        self._context.count_read(len(matched) // 10, 0)
        visible = [one.name for one in matched if session.shows(Kind.SUBSCRIPTION, one.name)]
        row = self._topics.show(message.topic)
        row |= {"subscriptions": len(visible)}
        row["first_subscriptions"] = nsmallest(FIRST_SHOWN, visible)
        self._context.reply(session.connection, message.request_id, row)

    def topic_lacks(self, session: Session, message: m.TopicLacks) -> None:
        """Lists the subscriptions that have not consumed a publication, each with its state."""
        context, arrival, topic = self._context, *self._publication(message.uid)
        rows: list[dict[str, Any]] = []
        found = self._topics.match(topic)
        context.count_read(4 * len(found), 0)
        for subscription in sorted(found, key=lambda one: one.name):
            queue = subscription.queue
            place = None if queue is None else self._place(queue, arrival)
            if queue is None or place is None:
                continue
            key, value = place
            entry, lane = entries.decode(value), key[keys.POSITION_AT]
            state = "leased" if arrival in queue.leases else _LANES.get(lane, "damaged")
            rows.append(
                {
                    "subscription": subscription.name,
                    "state": state,
                    "delivered": entry.delivered,
                    "failed": entry.failed,
                }
            )
        rows = [row for row in rows if session.shows(Kind.SUBSCRIPTION, row["subscription"])]
        if not rows and not session.shows(Kind.TOPIC, topic):
            raise no_publication(message.uid)
        value_ = {"uid": _uid(message.uid), "topic": topic, "subscriptions": rows}
        self._context.reply(session.connection, message.request_id, value_)

    def _publication(self, uid: bytes) -> tuple[int, str]:
        """Returns the number and topic of the publication with the encoded UID *uid*.

        Raises:
            RequestError: PUBLICATION_UNKNOWN.
        """
        queue = self._catalogue.system(PUBLICATIONS)
        position = queue.origins.place(self._context.tx, uid) if len(uid) > 8 else None
        if position is not None:
            arrival = keys.arrival_of(position)
            value = self._context.tx.get(keys.publication(arrival))
            if value is not None:
                return arrival, entries.decode(value).target
        raise no_publication(uid)

    def _place(self, queue: Queue, arrival: int) -> tuple[bytes, bytes] | None:
        """Returns the key and entry of a publication on *queue*, or None if it was consumed."""
        value = self._context.tx.get(keys.publication(arrival))
        front = b"" if value is None else entries.front(self._context.tx, entries.decode(value))
        # The default priority at the time of the put is unknown.
        priorities = range(keys.PRIORITY_TOP + 1)
        own = records.own_priority(front) if front else None
        if own is not None:
            priorities = range(own, own + 1)
        counters = queue.counters
        count = {
            keys.LANE_DELAYED: counters.delayed,
            keys.LANE_PARKED: counters.parked,
            keys.LANE_DAMAGED: counters.damaged,
        }
        for lane in (*_LANES, keys.LANE_DAMAGED):
            for priority in priorities if count.get(lane, counters.depth) else ():
                key = keys.message(queue.id, lane, min(priority, keys.PRIORITY_TOP), arrival)
                if (held := self._context.tx.get(key)) is not None:
                    return key, held
        return None

    def republish_list(self, session: Session, message: m.RepublishList) -> None:
        """Lists a page of parked publications."""
        selector = republish.selector_of(message.where)
        name = message.subscription
        if name and not session.shows(Kind.SUBSCRIPTION, name):
            raise unknown_subscription_error(name, ())
        rows: list[dict[str, Any]] = []
        further: list[int] | None = None
        for looked_at, found in enumerate(self._behind(message)):
            self._context.count_read(1, 0)
            if len(rows) == message.limit or looked_at == LOOKED_AT_MAX:
                break
            further = [found.arrival, found.queue_id]
            row = self._parked(message, found, selector)
            if row is not None and session.shows(Kind.SUBSCRIPTION, row["subscription"]):
                rows.append(row)
        else:
            further = None
        self._context.reply(
            session.connection, message.request_id, {"parked": rows, "next": further}
        )

    def _behind(self, message: m.RepublishList) -> Iterator[Parked]:
        """Yields the parked publications after the position in *message* that may match it."""
        tx, after = self._context.tx, message.after
        if message.subscription and not message.uid:
            queue = self._subscriptions.find(message.subscription).queue
            first = 0 if after is None else after[0] + 1
            return iter(()) if queue is None else parked.of_subscription(tx, queue.id, first)
        arrival = self._publication(message.uid)[0] if message.uid else 0
        start, stop = republish.bounds_of(arrival)
        if after is not None:
            start = max(start, keys.parked(*after[:2]) + b"\0")
        return parked.index(tx, start, stop)

    def _parked(
        self, message: m.RepublishList, found: Parked, selector: Any
    ) -> dict[str, Any] | None:
        """Returns the row of a parked publication, or None if it does not match *message*."""
        context, queue = self._context, self._catalogue.by_id.get(found.queue_id)
        if queue is None or message.subscription not in ("", queue.name):
            return None
        value = context.tx.get(found.key)
        if value is None:
            return None
        entry, note = entries.decode(value), notes.read(context.tx, queue.id, found.arrival)
        facts = republish.facts_of(context, queue, found, entry, note)
        if selector is not None and not selector.matches(facts.value_of):
            return None
        known = notes.facts_of(note)
        return {
            "uid": _uid(entries.uid_trailer(entry)),
            "topic": entries.publication(context.tx, entry).target,
            "subscription": queue.name,
            "bytes": facts.head().body_length,
            "put_us": entry.put_us,
            "parked_us": known["dead_us"],
            "failed": entry.failed,
            "delivered": entry.delivered,
            "code": known["dead_code"],
            "reason": known["dead_reason"],
            "text": known["dead_text"],
            "republished": known["dead_retries"],
            "attempts": note.get("attempts", []),
            "awaits_return": bool(entry.flags & entries.AWAITED),
        }

    def republish(self, session: Session, message: m.Republish) -> None:
        """Starts a job that republishes parked publications, or drops them."""
        republish.selector_of(message.where)
        arrival = self._publication(message.uid)[0] if message.uid else 0
        for name in message.subscriptions:
            self._subscriptions.find(name)
        self._jobs.check_room(session.owner)
        names = set(message.subscriptions) or self._topics.subscriptions
        asked = (self._topics.subscriptions[name].queue for name in names)
        total = sum(queue.counters.parked for queue in asked if queue is not None)
        job = self._jobs.start(
            "republish-drop" if message.drop else "republish",
            user=session.owner,
            where=message.where,
            arrival=arrival,
            subscriptions=message.subscriptions,
            rate=message.rate,
            messages_max=message.messages_max,
            by=session.name,
            total=total,
        )
        self._context.note(
            "info", "republish asked for", job=job.id, by=session.name, drop=message.drop
        )
        self._context.reply(session.connection, message.request_id, job.describe())


def _uid(trailer: bytes) -> str:
    if len(trailer) < 9:
        return trailer.hex()
    return str(records.decode_uid(trailer))


def no_publication(uid: bytes) -> RequestError:
    """Returns the error for a publication that no subscription holds."""
    return RequestError(
        ErrorCode.PUBLICATION_UNKNOWN,
        f"no subscription holds publication {_uid(uid)}: every subscriber has consumed it, "
        "or it does not exist",
    )
