"""Creates and ends subscriptions, and starts the jobs that republish parked messages.

Parked publications are sent again in three cases: when a subscriber that a job found away returns;
when the subscriber reports that it is healthy; and periodically, if the topics are configured to do
so.
"""

from typing import Any

from qmgr_protocol import topic as topics
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Kind
from qmgrd.core.catalogue import attributes, route
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.republish_intervals import SCHEDULED
from qmgrd.core.catalogue.subscription import Subscription
from qmgrd.core.catalogue.system import PUBLICATIONS
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.job import Job
from qmgrd.core.jobs.jobs import RUNNING_MAX, Jobs
from qmgrd.core.jobs.republish import HEALTHY, RETURNED, selector_of
from qmgrd.core.jobs.retained import prefix_of
from qmgrd.core.layout import keys
from qmgrd.core.limits.timers import Timer
from qmgrd.core.queue.queue import Queue
from qmgrd.core.selector.selector import check_subscription
from qmgrd.core.sessions.delivery import Delivery
from qmgrd.core.sessions.removal import Removal
from qmgrd.core.sessions.session import Session

SCHEDULE_MS = 1_000  # time between two checks of the due intervals
END_ROWS = 10  # the approximate number of rows needed to end one subscription
# Number of jobs above which subscriptions do not end with their connections yet.
ENDING_MAX = RUNNING_MAX // 2
LATER_MS = 1_000  # time before the next attempt if too many jobs are running


class Subscriptions:
    """Creates, ends, suspends and resumes subscriptions."""

    def __init__(
        self, context: Context, catalogue: Catalogue, jobs: Jobs, delivery: Delivery
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._topics = catalogue.topics
        self._jobs = jobs
        self._delivery = delivery
        self._removal = Removal(catalogue, delivery, jobs)
        self._count = 0  # the number of names created since the start
        # The time at which parked messages were last sent, by interval.
        self._sent_ms: dict[int, int] = {}
        self._schedule: Timer | None = None
        self._leaving: dict[str, Subscription] = {}  # subscriptions whose connections are closed
        delivery.on_use.append(self.used)

    def load(self) -> None:
        """Ends subscriptions whose connections ended with the last stop. Resumes the others."""
        for found in list(self._topics.subscriptions.values()):
            if not found.is_durable:
                self._leaving[found.name] = found
            elif found.queue is not None and found.queue.counters.parked:
                self._topics.awaited.add(found.queue.id)
        self.look_after_schedule(set(self._topics.intervals.in_force))

    def find(self, name: str) -> Subscription:
        """Returns the subscription *name*.

        Raises:
            RequestError: SUBSCRIPTION_UNKNOWN, or another code if *name* is not a subscription.
        """
        found = self._topics.subscriptions.get(name)
        if found is None:
            self._catalogue.named(name)
            raise RequestError(
                ErrorCode.SUBSCRIPTION_UNKNOWN, f"{name} is a queue, not a subscription"
            )
        return found

    def subscribe(
        self,
        session: Session,
        topic: str,
        name: str,
        where: str,
        given: dict[str, Any],
        *,
        retained: bool,
    ) -> Subscription:
        """Returns the subscription *name*. Creates it if it does not exist; "" means a new name.

        Raises:
            RequestError: TOPIC_INVALID, NAME_INVALID, VALUE_INVALID, SELECTOR_INVALID,
                SUBSCRIPTION_EXISTS, SUBSCRIPTIONS_EXHAUSTED, USER_SUBSCRIPTIONS_EXHAUSTED,
                FILTERS_EXHAUSTED or LINK_UNKNOWN.
        """
        topics.filter_of(topic)
        selector = selector_of(where)
        if name:
            topics.check_subscription(name)
        manager = name.partition("@")[2]
        kind = "proxy" if manager else "subscription"
        attributes.queue_attributes(name or "of this connection", given, kind)
        known = self._topics.subscriptions.get(name)
        if known is not None:
            is_shown = known.owner == session.owner or session.shows(Kind.SUBSCRIPTION, name)
            self._check_same(known, topic, where, given, is_shown=is_shown)
            return known
        if selector is not None:
            check_subscription(selector)
        if manager:
            route.link_to(self._catalogue, manager)
        self._check_room()
        if session.access is not None:
            owned = self._topics.owned.get(session.access.owner, {})
            session.access.check_use("subscriptions_max", len(owned))
        code = ErrorCode.SUBSCRIPTIONS_EXHAUSTED
        self._context.selectors.check(session.owner, where, code)
        self._topics.check_filter(topics.filter_of(topic), session.owner)
        found = self._make(session, topic, name, where, given)
        if retained and found.queue is not None and self._is_retained(found):
            self._jobs.start("retained", queue=found.name, queue_id=found.queue.id, target=topic)
        return found

    def _is_retained(self, found: Subscription) -> bool:
        """Returns whether a retained publication for *found* exists or is being stored."""
        tx, prefix = self._context.tx, prefix_of(found.filter)
        is_going_out = tx.get(keys.FAN_OUT) is not None
        # Publications put in this turn.
        is_going_out |= keys.PUBLICATIONS_ID in self._context.dirty_queues
        return is_going_out or next(tx.scan(prefix, keys.after(prefix)), None) is not None

    def _make(
        self, session: Session, topic: str, name: str, where: str, given: dict[str, Any]
    ) -> Subscription:
        """Defines a new subscription."""
        catalogue, context = self._catalogue, self._context
        publications = catalogue.system(PUBLICATIONS)
        is_proxy = "@" in name
        if not name:
            self._count += 1
            # The boot number and the life differ at each start, even after the store was restored.
            name = f"{topics.DYNAMIC}{context.boot:x}-{context.life[:6].hex()}.{self._count}"
            session.subscriptions[name] = None
        row = attributes.stored(given) | {
            "kind": "proxy" if is_proxy else "subscription",
            "queue_id": 0 if is_proxy else catalogue.next_queue_id(),
            "topic": topic,
            "where": where,
            "first": publications.counters.next_arrival,
            "used_ms": context.now.ms,
        }
        if session.owner:
            row["owner"] = session.owner
        catalogue.store_queue(name, row)
        found = self._topics.subscriptions[name]
        if found.queue is not None:
            found.queue.counters.skip_arrivals(row["first"])
            context.mark_changed(found.queue)
            self._delivery.used(found.queue)
        return found

    def _check_room(self) -> None:
        limit = self._context.config.limits.subscriptions_max
        count = len(self._topics.subscriptions)
        if count >= limit:
            raise RequestError(
                ErrorCode.SUBSCRIPTIONS_EXHAUSTED,
                f"{count} subscriptions exist (the limit is {limit}): end some, or raise "
                "limits.subscriptions_max",
            )

    def _check_same(
        self, known: Subscription, topic: str, where: str, given: dict[str, Any], *, is_shown: bool
    ) -> None:
        is_same = (known.topic, known.row.get("where", "")) == (topic, where)
        if is_same and (not given or attributes.is_same(known.row, given)):
            return
        if not is_shown:
            raise RequestError(
                ErrorCode.SUBSCRIPTION_EXISTS,
                f"subscription {known.name} already exists with another filter, selector or "
                "attributes: use another name",
            )
        what = f" where {known.row['where']}" if known.row.get("where") else ""
        own = ", ".join(f"{key} {said}" for key, said in attributes.own_of(known.row).items())
        other = "alter the subscription to change its limits"
        if not is_same:
            other = "its filter and selector cannot change: use the same ones, or delete it"
        raise RequestError(
            ErrorCode.SUBSCRIPTION_EXISTS,
            f"subscription {known.name} already exists on topic {known.topic}{what}"
            + (f", with {own}" if own else "")
            + f"; {other}",
        )

    def unsubscribe(self, name: str) -> int:
        """Ends a subscription and deletes its messages. Returns the number of deleted messages.

        Raises:
            RequestError: SUBSCRIPTION_UNKNOWN or JOBS_EXHAUSTED.
        """
        found = self.find(name)
        self._jobs.check_deletions()
        return self._removal.remove(found.name)

    def close(self, session: Session) -> None:
        """Ends the non-durable subscriptions of a closed connection."""
        for name in session.subscriptions:
            if (found := self._topics.subscriptions.get(name)) is not None:
                self._leaving[name] = found

    @property
    def can_go_on(self) -> bool:
        """Whether subscriptions of closed connections wait to end and their jobs have room."""
        return bool(self._leaving) and len(self._jobs.running) < ENDING_MAX

    def end_leaving(self) -> None:
        """Ends as many subscriptions of closed connections as this turn has rows for."""
        context, is_over = self._context, False
        while self.can_go_on and context.rows < context.turn_rows and not is_over:
            name, found = self._leaving.popitem()
            is_there = self._topics.subscriptions.get(name) is found
            if is_there and self._context.begin_work("subscription", name):
                self._removal.remove(found.name)
            context.count_read(END_ROWS, 0)
            is_over = context.budget.is_over

    def suspend(self, found: Subscription, *, suspended: bool) -> None:
        """Suspends or resumes deliveries to a subscription."""
        if found.is_suspended != suspended:
            row = {key: value for key, value in found.row.items() if key != "suspended"}
            self._catalogue.store_row(found.name, row | ({"suspended": True} if suspended else {}))
            event = "subscription suspended" if suspended else "subscription resumed"
            self._context.event(event, subscription=found.name)

    def healthy(self, found: Subscription, by: str) -> Job | None:
        """Resumes a subscription, and sends its parked messages if its topics are configured to do
        so.
        """
        self.suspend(found, suspended=False)
        return self._send_parked(found, HEALTHY, by)

    def used(self, queue: Queue) -> None:
        """Sends the messages that awaited the subscriber's return, if *queue* is a subscription's
        queue.
        """
        found = self._topics.subscriptions.get(queue.name)
        if found is not None and queue.waiting:
            self._send_awaited(found, queue)

    def _send_awaited(self, found: Subscription, queue: Queue) -> None:
        """Sends the messages that awaited a subscriber's return, or does so later if many jobs are
        running.
        """
        awaited, context = self._topics.awaited, self._context
        if queue.id not in awaited:
            return
        if len(self._jobs.running) >= ENDING_MAX:
            context.timers.at(context.now.ms + LATER_MS, lambda: self.used(queue))
        elif self._send_parked(found, RETURNED, "") is not None:
            awaited.discard(queue.id)

    def _send_parked(self, found: Subscription, why: str, by: str) -> Job | None:
        queue = found.queue
        if queue is None or not queue.counters.parked:
            return None
        running = self._jobs.running.values() if why != RETURNED else ()
        if any(x.row["target"] == why and x.row["queue_id"] == queue.id for x in running):
            return None  # The job for the subscriber's return covers the same messages.
        return self._jobs.start(
            "republish",
            queue=found.name,
            queue_id=queue.id,
            target=why,
            by=by,
            subscriptions=[found.name],
            total=queue.counters.parked,
        )

    def look_after_schedule(self, changed: set[int]) -> None:
        """Starts or stops the timer for topics that republish parked messages periodically.

        Args:
            changed: The intervals that topics may have started or stopped using.
        """
        now_ms, in_force = self._context.now.ms, self._topics.intervals.in_force
        for interval in changed:
            if interval in in_force:
                self._sent_ms.setdefault(interval, now_ms)
            else:
                self._sent_ms.pop(interval, None)
        if self._schedule is None and self._sent_ms:
            self._schedule = self._context.timers.at(now_ms + SCHEDULE_MS, self._look_at_schedule)

    def _look_at_schedule(self) -> None:
        """Starts sending the parked messages of the topics whose interval is due."""
        context, self._schedule = self._context, None
        running = {job.row.get("interval") for job in self._jobs.running.values()}
        parked = context.tx.scan(keys.SPACE_PARKED, keys.after(keys.SPACE_PARKED))
        is_parked = next(parked, None) is not None
        context.count_read((len(running) + len(self._sent_ms)) // 10, 0)
        for interval in sorted(self._sent_ms.keys() - running):
            if context.now.ms < self._sent_ms[interval] + interval:
                continue
            if is_parked and len(self._jobs.running) >= ENDING_MAX:
                break  # The timer checks the other intervals again.
            self._sent_ms[interval] = context.now.ms
            if is_parked:
                self._jobs.start("republish", target=SCHEDULED, interval=interval)
        self.look_after_schedule(set())
