"""What publish and subscribe is to do, in plain words: lists, looked through from end to end.

Each subscription has copies of its own, ready, leased, delayed or parked; a topic has what it
retained. Nothing here knows how any of it is stored.
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
RETURN_MS = 3_600_000  # what a start gives to those who come back, where they had as much


class Model:
    """Everything that is subscribed and published. ``now_ms`` and ``wall_us`` are told to it."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.wall_us = 0
        self.subscriptions: dict[str, Subscription] = {}
        self.publications: list[Publication] = []  # all that ever were
        self.retained: dict[str, Publication] = {}
        self.topics: dict[str, dict[str, Any]] = {}
        self.names: set[str] = set()  # of those that are not durable, ever
        self.ended: set[tuple[int, int]] = set()  # seat and request of consumers, in this step
        self._made = 0
        self.next_look_ms: int | None = None  # when it is looked whose turn it is
        self.sent_ms: dict[int, int] = {}  # by interval
        self.started()

    # -- what holds

    def topic_value(self, topic: str, attribute: str, default: Any) -> Any:
        """Return what the nearest topic says."""
        for name in above(topic):
            if attribute in self.topics.get(name, {}):
                return self.topics[name][attribute]
        return default

    def limit_of(self, found: Subscription, topic: str) -> int:
        """Return how often what was published to *topic* is delivered again."""
        own: int = found.value("redelivery_limit")
        if own >= 0:
            return own
        limit: int = self.topic_value(topic, "redelivery_limit", DEFAULT_LIMIT)
        return limit

    def fitting(self, topic: str) -> list[Subscription]:
        """Return the subscriptions to *topic*."""
        return [x for x in self.subscriptions.values() if has(x.filter, topic)]

    def is_held(self, publication: Publication) -> bool:
        """Return whether anybody has it, or its topic retained it."""
        return publication in self.retained.values() or any(
            x.copy_of(publication) is not None for x in self.subscriptions.values()
        )

    def held(self) -> list[Publication]:
        """Return all that is held."""
        return [x for x in self.publications if self.is_held(x)]

    def parked(self) -> list[tuple[Subscription, Copy]]:
        """Return what is parked, by publication, then by age of the subscription."""
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
        """Make a subscription; it begins with what is retained, if it is to."""
        self._made += 1
        found = Subscription(self._made, name, filter_, colour, dict(given), owner, self.now_ms)
        self.subscriptions[name] = found
        if owner is not None:
            assert name not in self.names, f"{name} was there before"
            self.names.add(name)
        for topic in sorted(self.retained) if retained else ():
            if not has(filter_, topic):
                continue
            if self.retained[topic].expires_ms <= self.now_ms:
                del self.retained[topic]  # It goes when somebody might have had it.
            else:
                self._give(found, self.retained[topic])
        return found

    def end(self, found: Subscription) -> int:
        """End a subscription; return how much it had."""
        del self.subscriptions[found.name]
        if found.consumer is not None:
            self.ended.add((found.consumer.seat, found.consumer.request_id))
        return len(found.copies)

    # -- publishing

    def publish(self, wish: Wish, body: bytes) -> Publication | None:
        """Publish; return what, or None of one that is held already."""
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
        """Have the oldest of the least priority go that nobody has; return whether one went."""
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

    # -- handing out

    def open(self, found: Subscription, consumer: Consumer | None) -> None:
        """Somebody is there for what comes: what awaits that is sent now."""
        if consumer is not None:
            found.consumer = consumer
        self._send(found, [x for x in found.those("parked") if x.awaits])

    def altered(self, found: Subscription) -> None:
        """It has other attributes now: there may be room for what awaits that."""
        if found.consumer is None:
            found.used_ms = self.now_ms
        else:
            self.open(found, None)

    def close(self, found: Subscription) -> None:
        """Nobody is there any more."""
        found.consumer = None
        found.used_ms = self.now_ms

    def lease(self, copies: list[Copy], seat: int, lease_ms: int) -> None:
        """Have *copies* be in somebody's hands."""
        for copy in copies:
            copy.state = "leased"
            copy.lease = Lease(seat, self.now_ms + lease_ms)

    def consume(self, found: Subscription, copy: Copy) -> None:
        """Have a copy be gone for good."""
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
        """Have a copy come back; or be parked, as its subscriber failed on it too often."""
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
        """Send what is *meant* once more; return how many went, wait for somebody, had no room.

        Args:
            is_healthy: the subscriber says so, and so is there, whether it consumes now or not.
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
        """Have what is parked be ready again, as long as there is room; return how many."""
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
        """Have what is *meant* be delivered no more."""
        for found, copy in meant:
            found.copies.remove(copy)
            found.purged += 1
        return len(meant)

    def of_policy(self, policy: str) -> list[tuple[Subscription, Copy]]:
        """Return what is parked of topics that have it so."""
        return [
            (x, copy)
            for x, copy in self.parked()
            if self.topic_value(copy.publication.wish.topic, "republish", "manual") == policy
        ]

    # -- time, and ends

    def expire_volatile(self) -> None:
        """What came back at a stop in good order, and is over, has expired: it is not lost."""
        for found in self.subscriptions.values():
            kept = [x for x in found.copies if not (x.is_volatile and x.is_expired(self.now_ms))]
            found.expired += len(found.copies) - len(kept)
            found.copies = kept

    def lose_volatile(self) -> None:
        """What is not persistent is gone, but for what is parked."""
        for found in self.subscriptions.values():
            kept = [x for x in found.copies if not x.is_volatile]
            found.lost += len(found.copies) - len(kept)
            found.copies = kept

    def started(self) -> None:
        """The queue manager came up: who uses a subscription has some time to come back."""
        self.sent_ms, self.next_look_ms = {}, None
        self.look_after_schedule()
        for found in self.subscriptions.values():
            long_ms = found.value("unused_expiry_ms") - RETURN_MS
            found.used_ms = max(found.used_ms, self.now_ms - max(long_ms, 0))

    def due_until(self, end_ms: int) -> list[int]:
        """Return when something is due from now on and before *end_ms*, in order."""
        known = {self.next_look_ms or self.now_ms}
        for found in self.subscriptions.values():
            if found.value("unused_expiry_ms"):
                known.add(found.used_ms + found.value("unused_expiry_ms"))
            for copy in found.copies:
                known |= {copy.expires_ms, copy.ready_ms}
                known |= {copy.lease.deadline_ms} if copy.lease is not None else set()
        return sorted(x for x in known if self.now_ms < x < end_ms)

    def time_passes(self) -> None:
        """Do what is due by now: what was due before leases end was looked at before."""
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
        """Have what is parked be sent in turn where topics have it so: from then on."""
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
        """A connection is lost: what it had comes back, what lived by it ends."""
        for found in list(self.subscriptions.values()):
            if found.consumer is not None and found.consumer.seat == seat:
                self.close(found)
            for copy in found.copies:
                if copy.lease is not None and copy.lease.seat == seat:
                    self.give_back(found, copy)
            if found.owner == seat:
                self.end(found)

    def crash(self) -> None:
        """All memory is lost: nobody knows who had what."""
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
