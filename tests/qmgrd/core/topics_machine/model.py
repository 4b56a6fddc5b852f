"""A model of publish and subscribe, written with plain lists.

Each subscription has its own copies, which are ready, leased, delayed or parked. Each topic has its
own retained publication. The model does not depend on the stored format.
"""

from typing import Any

from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.topics_machine.things import (
    DEFAULT_LIMIT,
    NEVER_MS,
    Consumer,
    Copy,
    Lease,
    Publication,
    Subscription,
    Wish,
    above,
    has,
)

SCHEDULE_MS = 1_000
# grace period after a start, for subscriptions whose limit is at least this long
RETURN_MS = 3_600_000


class Model:
    """All subscriptions and publications. The caller sets ``now_ms`` and ``wall_us``."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.wall_us = 0
        self.subscriptions: dict[str, Subscription] = {}
        self.publications: list[Publication] = []  # all publications that were ever made
        self.retained: dict[str, Publication] = {}
        self.topics: dict[str, dict[str, Any]] = {}
        self.names: set[str] = set()  # names of all non-durable subscriptions that were ever made
        # seat and request of each consumer that ended in this step
        self.ended: set[tuple[int, int]] = set()
        self._made = 0
        self.next_look_ms: int | None = None  # time at which the schedule is checked next
        self.sent_ms: dict[int, int] = {}  # time of the last republish, by interval
        self.started()

    # # -- values in force

    def topic_value(self, topic: str, attribute: str, default: Any) -> Any:
        """Returns the value that the nearest topic sets."""
        for name in above(topic):
            if attribute in self.topics.get(name, {}):
                return self.topics[name][attribute]
        return default

    def limit_of(self, found: Subscription, topic: str) -> int:
        """Returns the limit of redeliveries of a publication to *topic*."""
        own: int = found.value("redelivery_limit")
        if own >= 0:
            return own
        limit: int = self.topic_value(topic, "redelivery_limit", DEFAULT_LIMIT)
        return limit

    def fitting(self, topic: str) -> list[Subscription]:
        """Returns the subscriptions that match *topic*."""
        return [x for x in self.subscriptions.values() if has(x.filter, topic)]

    def is_held(self, publication: Publication) -> bool:
        """Returns whether a subscription or its topic holds the publication."""
        return publication in self.retained.values() or any(
            x.copy_of(publication) is not None for x in self.subscriptions.values()
        )

    def held(self) -> list[Publication]:
        """Returns all held publications."""
        return [x for x in self.publications if self.is_held(x)]

    def parked(self) -> list[tuple[Subscription, Copy]]:
        """Returns the parked copies, ordered by publication and by age of the subscription."""
        found = [(x, copy) for x in self.subscriptions.values() for copy in x.those("parked")]
        return sorted(found, key=lambda pair: (pair[1].publication.number, pair[0].number))

    # -- subscriptions

    def subscribe(
        self,
        name: str,
        filter_: str,
        colour: str,
        given: dict[str, Any],
        owner: int | None,
        *,
        retained: bool,
    ) -> Subscription:
        """Creates a subscription, which begins with retained publications if requested."""
        self._made += 1
        found = Subscription(self._made, name, filter_, colour, dict(given), owner, self.now_ms)
        self.subscriptions[name] = found
        if owner is not None:
            assert name not in self.names, f"{name} was used before"
            self.names.add(name)
        for topic in sorted(self.retained) if retained else ():
            if not has(filter_, topic):
                continue
            if self.retained[topic].expires_ms <= self.now_ms:
                # The retained publication is removed at the moment when a subscriber might receive
                # it.
                del self.retained[topic]
            else:
                self._give(found, self.retained[topic])
        return found

    def end(self, found: Subscription) -> int:
        """Ends a subscription; returns the number of its copies."""
        del self.subscriptions[found.name]
        if found.consumer is not None:
            self.ended.add((found.consumer.seat, found.consumer.request_id))
        return len(found.copies)

    # -- publishing

    def publish(self, wish: Wish, body: bytes) -> Publication | None:
        """Publishes. Returns the publication, or None if its UID is already held."""
        if wish.uid is not None and any(x.uid == wish.uid for x in self.held()):
            return None
        expires_ms = self.now_ms + wish.expiry_ms if wish.expiry_ms else NEVER_MS
        number = len(self.publications) + 1
        ready_ms = self.now_ms + wish.delay_ms
        made = Publication(
            number, wish, body, self.wall_us, expires_ms, ready_ms, wish.uid or ("", 0)
        )
        self.publications.append(made)
        for found in sorted(self.fitting(wish.topic), key=lambda x: x.number):
            self._give(found, made)
        if wish.is_retained and wish.is_empty:
            self.retained.pop(wish.topic, None)
        elif wish.is_retained:
            self.retained[wish.topic] = made
        return made

    def _give(self, found: Subscription, publication: Publication) -> None:
        wish = publication.wish
        if found.colour and found.colour != wish.colour:
            return
        if found.is_suspended:
            found.missed += 1
            return
        if found.depth >= found.value("depth_max") and not self._make_room(found):
            found.missed += 1
            found.is_suspended = found.value("overflow") == "suspend"
            return
        priority = found.value("priority_default") if wish.priority is None else wish.priority
        cap_ms = found.value("expiry_max_ms")
        expires_ms = min(publication.expires_ms, self.now_ms + cap_ms if cap_ms else NEVER_MS)
        copy = Copy(publication, priority, expires_ms, is_volatile=wish.is_volatile)
        if publication.ready_ms > self.now_ms:
            copy.state, copy.ready_ms = "delayed", publication.ready_ms
        found.copies.append(copy)
        found.puts += 1

    def _make_room(self, found: Subscription) -> bool:
        """Evicts old copies of the lowest priority until one more fits; returns whether it fits."""
        if found.value("overflow") != "discard-oldest":
            return False
        while found.depth >= found.value("depth_max"):
            least = sorted(
                found.those("ready", "delayed"),
                key=lambda x: (x.state == "delayed", x.priority, x.publication.number),
            )
            if not least:
                return False
            found.copies.remove(least[0])
            found.purged += 1
        return True

    # -- delivery

    def open(self, found: Subscription, consumer: Consumer | None) -> None:
        """Records that a consumer exists. Copies that wait for one are sent now."""
        if consumer is not None:
            found.consumer = consumer
        self._send(found, [x for x in found.those("parked") if x.awaits])

    def altered(self, found: Subscription) -> None:
        """Records that attributes have changed. Copies that wait for space may now fit."""
        if found.consumer is None:
            found.used_ms = self.now_ms
        else:
            self.open(found, None)

    def close(self, found: Subscription) -> None:
        """Records that no consumer is left."""
        found.consumer = None
        found.used_ms = self.now_ms

    def lease(self, copies: list[Copy], seat: int, lease_ms: int) -> None:
        """Leases *copies*."""
        for copy in copies:
            copy.state = "leased"
            copy.lease = Lease(seat, self.now_ms + lease_ms)

    def consume(self, found: Subscription, copy: Copy) -> None:
        """Removes a copy for good."""
        found.copies.remove(copy)
        found.acked += 1

    def give_back(
        self,
        found: Subscription,
        copy: Copy,
        *,
        delivered: bool = True,
        failed: bool = False,
        rejected: bool = False,
        delay_ms: int = 0,
        why: tuple[int, str, str] = (0, "", ""),
        client: str = "",
    ) -> None:
        """Returns a copy to its queue, or parks the copy if its subscriber failed too often."""
        copy.lease, copy.state = None, "ready"
        copy.delivered += delivered
        if failed:
            copy.failed += 1
            copy.note_attempt(*why, client)
        if copy.is_expired(self.now_ms):
            return
        limit = self.limit_of(found, copy.publication.wish.topic)
        if rejected or (failed and copy.failed > limit):
            code = ErrorCode.REDELIVERY_LIMIT_EXCEEDED
            if rejected:
                code = ErrorCode.MESSAGE_REJECTED
            copy.state, copy.why = "parked", (int(code), *why[1:])
            copy.is_volatile = False
        elif delay_ms:
            copy.state, copy.ready_ms = "delayed", self.now_ms + delay_ms

    # -- republishing

    def republish(
        self, meant: list[tuple[Subscription, Copy]], *, is_healthy: bool = False
    ) -> tuple[int, int, int]:
        """Republishes copies; returns how many are sent, lack a consumer, or lack space.

        Args: is_healthy: Whether the subscriber reports itself as healthy, and so counts as
        present.
        """
        counts = [0, 0, 0]
        for found, copy in meant:
            if found.consumer is None and not is_healthy:
                copy.awaits = True
                counts[1] += 1
            else:
                counts[0 if self._send(found, [copy]) else 2] += 1
        return counts[0], counts[1], counts[2]

    def _send(self, found: Subscription, copies: list[Copy]) -> int:
        """Makes parked copies ready again while space is left; returns their number."""
        sent = 0
        for copy in sorted(copies, key=lambda x: x.publication.number):
            if found.depth >= found.value("depth_max"):
                continue
            copy.state, copy.awaits, copy.republished = "ready", False, True
            copy.delivered = copy.failed = 0
            copy.retries += 1
            sent += 1
        return sent

    def drop(self, meant: list[tuple[Subscription, Copy]]) -> int:
        """Drops the copies in *meant*."""
        for found, copy in meant:
            found.copies.remove(copy)
            found.purged += 1
        return len(meant)

    def of_policy(self, policy: str) -> list[tuple[Subscription, Copy]]:
        """Returns the parked copies of topics with that policy."""
        return [
            (x, copy)
            for x, copy in self.parked()
            if self.topic_value(copy.publication.wish.topic, "republish", "manual") == policy
        ]

    # -- time, and ends

    def expire_volatile(self) -> None:
        """Expires non-persistent copies at a clean stop. These copies do not count as lost."""
        for found in self.subscriptions.values():
            kept = [x for x in found.copies if not (x.is_volatile and x.is_expired(self.now_ms))]
            found.expired += len(found.copies) - len(kept)
            found.copies = kept

    def lose_volatile(self) -> None:
        """Removes non-persistent copies, except parked ones."""
        for found in self.subscriptions.values():
            kept = [x for x in found.copies if not x.is_volatile]
            found.lost += len(found.copies) - len(kept)
            found.copies = kept

    def started(self) -> None:
        """Starts the grace period that subscriptions have after a start."""
        self.sent_ms, self.next_look_ms = {}, None
        self.look_after_schedule()
        for found in self.subscriptions.values():
            long_ms = found.value("unused_expiry_ms") - RETURN_MS
            found.used_ms = max(found.used_ms, self.now_ms - max(long_ms, 0))

    def due_until(self, end_ms: int) -> list[int]:
        """Yields the due times before *end_ms*, in order."""
        known = {self.next_look_ms or self.now_ms}
        for found in self.subscriptions.values():
            if found.value("unused_expiry_ms"):
                known.add(found.used_ms + found.value("unused_expiry_ms"))
            for copy in found.copies:
                known |= {copy.expires_ms, copy.ready_ms}
                known |= {copy.lease.deadline_ms} if copy.lease is not None else set()
        return sorted(x for x in known if self.now_ms < x < end_ms)

    def time_passes(self) -> None:
        """Performs due work. Checks of the schedule come before the ends of leases."""
        look_ms = self.next_look_ms
        is_too_early = look_ms is not None and look_ms < self.now_ms and not self.parked()
        for found in list(self.subscriptions.values()):
            for copy in found.copies:
                if copy.lease is not None and copy.lease.deadline_ms <= self.now_ms:
                    why, client = (int(ErrorCode.LEASE_LOST), "", ""), f"c{copy.lease.seat}"
                    self.give_back(found, copy, failed=True, why=why, client=client)
                if copy.state == "delayed" and copy.ready_ms <= self.now_ms:
                    copy.state = "ready"
            unused_ms = found.value("unused_expiry_ms")
            is_used = found.owner is not None or found.consumer is not None
            if unused_ms and not is_used and found.used_ms + unused_ms <= self.now_ms:
                self.end(found)
        if look_ms is not None and look_ms <= self.now_ms:
            self._look_at_schedule(is_too_early=is_too_early)

    def look_after_schedule(self) -> None:
        """Republishes the parked copies of topics that have a schedule."""
        intervals = {
            self.topic_value(x, "republish_interval_ms", 3_600_000)
            for x in self.topics
            if self.topic_value(x, "republish", "manual") == "schedule"
        }
        self.sent_ms = {x: self.sent_ms.get(x, self.now_ms) for x in intervals}
        if self.next_look_ms is None and intervals:
            self.next_look_ms = self.now_ms + SCHEDULE_MS

    def _look_at_schedule(self, *, is_too_early: bool) -> None:
        self.next_look_ms = None
        for interval_ms, sent_ms in sorted(self.sent_ms.items()):
            if self.now_ms >= sent_ms + interval_ms:
                self.sent_ms[interval_ms] = self.now_ms
                found = [] if is_too_early else self.of_policy("schedule")
                self.republish(
                    [
                        (x, copy)
                        for x, copy in found
                        if self.topic_value(
                            copy.publication.wish.topic, "republish_interval_ms", 3_600_000
                        )
                        == interval_ms
                    ]
                )
        self.look_after_schedule()

    def hang_up(self, seat: int) -> None:
        """Closes a connection. Its leased copies return, and its subscriptions end."""
        for found in list(self.subscriptions.values()):
            if found.consumer is not None and found.consumer.seat == seat:
                self.close(found)
            for copy in found.copies:
                if copy.lease is not None and copy.lease.seat == seat:
                    self.give_back(found, copy)
            if found.owner == seat:
                self.end(found)

    def crash(self) -> None:
        """Clears the memory. Afterwards, leases and deliveries are unknown."""
        for found in list(self.subscriptions.values()):
            if found.owner is not None:
                self.end(found)
                continue
            if found.consumer is not None:
                self.close(found)
            for copy in found.copies:
                copy.maybe = True
                if copy.lease is not None:
                    copy.lease, copy.state = None, "ready"
        self.ended.clear()
