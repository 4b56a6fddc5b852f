"""A model of queues, written with plain lists from the documented behaviour.

The model shares only names and codes with the core. Each step of the machine first changes the
model. Then compare.py compares the manager's answers, deliveries and stored rows with the model.
All times are those of the store clock, which the machine provides.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.defaults import DEFAULTS
from tests.qmgrd.core.machine.group import Groups
from tests.qmgrd.core.machine.how import How
from tests.qmgrd.core.machine.message import Lease, Message, Unit, Waiter, Wish, stand_in

DEAD_LETTERS = "SYSTEM.DEAD.LETTERS"
# shortest and longest time until an expired, leased message is checked again
LOOK_AGAIN_MS, LOOK_AGAIN_MAX_MS = 1_000, 60_000
STUCK_MS = 10_000  # time until the next attempt to make a dead letter if space is lacking
RETRIES_MAX = 3
_OF_CONSUMERS = (
    ErrorCode.BACKOUT_THRESHOLD_REACHED,
    ErrorCode.DELIVERY_LIMIT_REACHED,
    ErrorCode.MESSAGE_REJECTED,
    ErrorCode.GROUP_FAILED,
)


class Model:
    """Queues, units of work, consumers and gets, as the expected state."""

    def __init__(self, name: str, unit_age_ms: int) -> None:
        self.name = name
        self.unit_age_ms = unit_age_ms
        self.now_ms = 0
        self.wall_us = 0
        self.step = 0
        self._count = 0
        self.bounds: dict[str, dict[str, Any]] = {DEAD_LETTERS: dict(DEFAULTS)}
        self.messages: list[Message] = []
        # queue and UID, with the time at which the queue forgets the UID
        self.remembered: list[tuple[str, Any, int]] = []
        self.units: dict[tuple[int, int], Unit] = {}  # open units by seat and number
        self.waiters: list[Waiter] = []
        self.groups = Groups(self.units)

    def begin(self, now_ms: int, wall_us: int) -> None:
        """Begins a step."""
        self.step += 1
        self._count = 0
        self.now_ms, self.wall_us = now_ms, wall_us
        self.groups.now_ms, self.groups.step = now_ms, self.step

    def remove(self, message: Message, *, for_good: bool = True) -> None:
        """Removes *message* from its queue; if *for_good*, its group continues."""
        self.groups.leave(message, for_good=for_good)
        self.messages.remove(message)

    def _order(self) -> tuple[int, int]:
        self._count += 1
        return self.step, self._count

    def on(self, queue: str, *, delayed: bool = False) -> list[Message]:
        """Returns the messages of a queue in order: ready and leased ones, or delayed ones."""
        found = [x for x in self.messages if x.queue == queue and x.is_delayed is delayed]
        return sorted(found, key=lambda x: (-x.priority, x.order))

    def available(self, waiter: Waiter) -> list[Message]:
        """Returns the messages that *waiter* may receive, in order."""
        if self.bounds[waiter.queue]["get_inhibit"]:
            return []
        found = [
            x
            for x in self.on(waiter.queue)
            if x.lease is None
            and not x.is_expired(self.now_ms)
            and waiter.wanted.wants(x)
            and not self.groups.is_stopped(x)
        ]
        return sorted(found, key=waiter.wanted.rank)

    # -- puts

    def _held(self, queue: str) -> list[Message]:
        return [x for unit in self.units.values() for x in unit.puts if x.queue == queue]

    def is_about_to_put(self, queue: str, group_id: bytes, above: int, below: int) -> bool:
        """Returns whether an open unit holds a number of a group between *above* and *below*."""
        held = [x.wish.group for x in self._held(queue) if x.wish.group is not None]
        return any(x[0] == group_id and above < x[1] < below for x in held)

    def depth(self, queue: str) -> int:
        """Returns the number of messages in any state."""
        return sum(x.queue == queue for x in self.messages) + len(self._held(queue))

    def make_room(self, queue: str, count: int) -> None:
        """Evicts the oldest messages of the lowest priority from a full queue that allows it."""
        bounds = self.bounds[queue]
        excess = self.depth(queue) + count - bounds["depth_max"]
        if bounds["overflow"] == "refuse" or count > bounds["depth_max"]:
            return
        free = [x for x in self.on(queue) if x.lease is None] + self.on(queue, delayed=True)
        worth = [(x.is_delayed, x.priority, x.order, x) for x in free]
        for *_, message in sorted(worth)[: max(excess, 0)]:
            if bounds["overflow"] == "discard-oldest":
                self.remove(message)
            elif not self.bury(message, ErrorCode.QUEUE_FULL, How("", False, False)):
                break

    def refusal_of_all(self, queue: str) -> int:
        """Returns the code with which the daemon refuses all client puts to *queue*, or 0."""
        if queue == DEAD_LETTERS:
            return ErrorCode.QUEUE_IS_SYSTEM
        return ErrorCode.PUT_INHIBITED if self.bounds[queue]["put_inhibit"] else 0

    def refusal(self, queue: str, wish: Wish, size: int, *, is_held: bool = False) -> int:
        """Returns the code with which the daemon refuses a put, perhaps in a unit, or 0."""
        if code := self._refusal(queue, wish, size):
            return code
        bounds = self.bounds[queue]
        makes_room = is_held and bounds["overflow"] != "refuse"
        depth = len(self._held(queue)) if makes_room else self.depth(queue)
        return ErrorCode.QUEUE_FULL if depth + 1 > bounds["depth_max"] else 0

    def _refusal(self, queue: str, wish: Wish, size: int) -> int:
        """Returns the code with which the daemon refuses a put because of its properties, or 0."""
        bounds = self.bounds[queue]
        if bounds["message_max_bytes"] and size > bounds["message_max_bytes"]:
            return ErrorCode.MESSAGE_TOO_LARGE
        if wish.uid is not None:
            if any(x.uid == wish.uid for x in self._held(queue)):
                return ErrorCode.DUPLICATE_UNCOMMITTED
            if self._is_there(queue, wish.uid) or self._is_remembered(queue, wish.uid):
                return ErrorCode.DUPLICATE_MESSAGE
        return self.groups.refusal(self.messages, queue, wish)

    def _is_there(self, queue: str, uid: Any) -> bool:
        return any(x.queue == queue and x.uid == uid for x in self.messages)

    def _is_remembered(self, queue: str, uid: Any) -> bool:
        return any((name, known) == (queue, uid) for name, known, _ in self.remembered)

    def arrive(self, queue: str, wish: Wish) -> Message:
        """Returns a new message, which is not on a queue yet."""
        bounds, expires_ms, ready_ms = self.bounds[queue], 0, 0
        lives_ms = wish.expiry_ms
        if bounds["expiry_max_ms"]:
            lives_ms = min(lives_ms or bounds["expiry_max_ms"], bounds["expiry_max_ms"])
        if lives_ms:
            expires_ms = self.now_ms + lives_ms
        if wish.delay_ms:
            ready_ms = self.now_ms + wish.delay_ms
        priority = bounds["priority_default"] if wish.priority is None else wish.priority
        return Message(
            queue,
            wish,
            priority,
            self._order(),
            self.wall_us,
            wish.uid or stand_in(wish.body),
            expires_ms,
            (ready_ms, ready_ms),
        )

    def append(self, message: Message) -> None:
        """Adds *message* to its queue."""
        self.groups.enter(self.messages, message)
        self.messages.append(message)
        self._look_anew(message)

    def _look_anew(self, message: Message) -> None:
        """Schedules the next check of *message*."""
        end_ms = message.expires_ms
        if message.is_delayed:
            least, most = message.ready_ms
            message.look_ms = min(least, end_ms or least), min(most, end_ms or most)
        else:
            message.look_ms = end_ms, end_ms

    # -- ends of leases

    def consume(self, message: Message) -> None:
        """Removes an acknowledged message for good."""
        self.remove(message)
        keep_ms = self.bounds[message.queue]["dedup_retention_ms"]
        if keep_ms:
            self.remembered.append((message.queue, message.uid, self.now_ms + keep_ms))

    def give_back(self, message: Message, how: How) -> None:
        """Ends a lease. The message returns, perhaps with a delay, or becomes a dead letter."""
        bounds = self.bounds[message.queue]
        message.lease = None
        least, most = how.wait_ms(bounds, message.failed)
        code = self._end_of(bounds, message, how)
        ways = set(self._ways(message.queue, code)) - {message.queue}
        if ways and self.groups.park(message, code):
            least = most = code = 0
        if code:
            if self.bury(message, code, how):
                return
            least, most = max(least, STUCK_MS), max(most, STUCK_MS)
        message.delivered += how.is_delivered
        if how.is_failed:
            message.failed += 1
            message.note = how.noted(message.note or {}, self.wall_us)
        if most:
            message.ready_ms = self.now_ms + least, self.now_ms + most
            self._enter_anew(message)
        # In all other cases, the next check stays as scheduled.
        if most or message.is_expired(self.now_ms):
            self._look_anew(message)

    def _enter_anew(self, message: Message) -> None:
        """Updates the group of *message* when a delay begins or ends."""
        self.groups.leave(message, for_good=False)
        self.groups.enter(self.messages, message)

    def _end_of(self, bounds: dict[str, Any], message: Message, how: How) -> int:
        if message.is_expired(self.now_ms):
            return 0  # The message expires when its lease ends.
        if how.is_rejected:
            return ErrorCode.MESSAGE_REJECTED
        threshold, limit = bounds["backout_threshold"], bounds["delivery_limit"]
        if how.is_failed and threshold and message.failed + 1 >= threshold:
            return ErrorCode.BACKOUT_THRESHOLD_REACHED
        in_vain = message.delivered + 1 - message.failed
        if how.is_delivered and not how.is_failed and limit and in_vain >= limit:
            return ErrorCode.DELIVERY_LIMIT_REACHED
        return 0

    # -- dead letters

    def bury(self, message: Message, code: int, how: How, only: str = "") -> str:
        """Makes *message* a dead letter, on *only* if that is given; returns the queue, or ""."""
        for target in [only] if only else self._ways(message.queue, code):
            if target == message.queue or self.bounds[target]["put_inhibit"]:
                continue
            there = [x for x in self.messages if (x.queue, x.uid) == (target, message.uid)]
            if there and (there[0].note or {}).get("queue") != message.queue:
                continue  # A copy from another queue is a separate dead letter.
            self.make_room(target, 1)
            if any(x.uid == message.uid for x in self._held(target)):
                continue
            if self._is_there(target, message.uid):
                self.remove(message, for_good=code != ErrorCode.MESSAGE_EXPIRED)
                return target
            if self.depth(target) + 1 > self.bounds[target]["depth_max"]:
                continue
            self._move(message, target, code, how)
            return target
        return ""

    def _ways(self, queue: str, code: int) -> list[str]:
        own = [self.bounds[queue]["backout_queue"]] if code in _OF_CONSUMERS else []
        return [name for name in (*own, DEAD_LETTERS) if name and code]

    def _move(self, message: Message, target: str, code: int, how: How) -> None:
        note = message.note or {}
        if how.is_failed:
            note = how.noted(note, self.wall_us)
        note = {
            **note,
            "code": code,
            "reason": how.reason,
            "text": how.text,
            "queue": message.queue,
            "manager": self.name,
            "us": self.wall_us,
            "failed": message.failed + how.is_failed,
            "delivered": message.delivered + how.is_delivered,
        }
        if code == ErrorCode.MESSAGE_EXPIRED:
            note.pop("left_ms", None)
        # In all other cases, the message keeps the lifetime that it had at its first failure.
        elif message.expires_ms:
            note["left_ms"] = max(message.expires_ms - self.now_ms, 0)
        self.groups.inherit(message, target)
        self.remove(message, for_good=code != ErrorCode.MESSAGE_EXPIRED)
        self.append(
            replace(
                message,
                queue=target,
                order=(self.step, 0),
                expires_ms=0,
                ready_ms=(0, 0),
                delivered=0,
                failed=0,
                maybe=False,
                note=note,
                lease=None,
            )
        )

    # -- moves

    def move(self, source: str, target: str, wants: Any, most: int, *, copy: bool) -> None:
        """Moves up to *most* messages; without *target*, moves each to its original queue."""
        done = 0
        # Messages that belong to groups are moved last.
        for message in sorted(self.on(source), key=lambda x: x.is_member):
            if done == most or message.lease or message.is_expired(self.now_ms):
                continue
            if not wants(message) or self._is_torn(message):
                continue
            done += self._goes(message, target, copy=copy)

    def _is_torn(self, message: Message) -> bool:
        """Returns whether another message of its group cannot be moved together with it."""
        return any(
            x.lease is not None or x.is_delayed
            for x in self.messages
            if message.is_member
            and x.is_member
            and x.queue == message.queue
            and x.wish.group
            and message.wish.group
            and x.wish.group[0] == message.wish.group[0]
        )

    def _goes(self, message: Message, target: str, *, copy: bool) -> bool:
        """Moves or copies one message; returns whether this succeeded."""
        note, expires_ms = message.note, message.expires_ms
        if not copy and (not target or "code" in (note or {})):
            if note is None or "code" not in note or note.get("retries", 0) >= RETRIES_MAX:
                return False
            target = target or note["queue"]
            kept = {"attempts": note["attempts"]} if "attempts" in note else {}
            expires_ms = self.now_ms + max(note["left_ms"], 1) if "left_ms" in note else 0
            note = {**kept, "retries": note.get("retries", 0) + 1}
        bounds = self.bounds[target]
        longest = bounds["message_max_bytes"]
        if target == message.queue or (longest and len(message.wish.body) > longest):
            return False
        if bounds["expiry_max_ms"]:
            cap_ms = self.now_ms + bounds["expiry_max_ms"]
            expires_ms = min(expires_ms or cap_ms, cap_ms)
        is_new = not self._is_there(target, message.uid)
        if is_new:
            self.groups.inherit(message, target)
        if not copy:
            self.remove(message)
        if is_new:
            self.append(
                replace(
                    message,
                    queue=target,
                    order=self._order(),
                    expires_ms=expires_ms,
                    delivered=0,
                    failed=0,
                    maybe=False,
                    note=note,
                )
            )
        return is_new or not copy

    # -- units of work

    def commit(self, unit: Unit) -> None:
        """Carries out *unit*."""
        for message in unit.gets:
            self.consume(message)
        for queue, count in Counter(message.queue for message in unit.puts).items():
            self.make_room(queue, count)
            for message in unit.puts:
                if message.queue == queue:
                    self.append(message)
            # If all other messages are leased, the unit's own oldest message is evicted.
            self.make_room(queue, 0)

    def back_out(self, key: tuple[int, int], how: How | None = None) -> None:
        """Undoes a unit."""
        for message in self.units.pop(key).gets:
            self.give_back(message, how or How(f"c{key[0]}", code=ErrorCode.UNIT_BACKED_OUT))

    # -- time

    def time_passes(self) -> None:
        """Performs due work: ends leases, units and delays, and expires messages."""
        due = [
            x for x in self.messages if x.lease and 0 < (x.lease.deadline_ms or 0) <= self.now_ms
        ]
        for message in sorted(due, key=lambda x: (x.lease and x.lease.deadline_ms) or 0):
            assert message.lease is not None
            how = How(f"c{message.lease.seat}", code=ErrorCode.LEASE_LOST)
            self.give_back(message, how)
        for key, unit in list(self.units.items()):
            if unit.born_ms + self.unit_age_ms <= self.now_ms:
                self.back_out(key)
        for waiter in self.waiters:
            waiter.is_over = waiter.until_ms is not None and waiter.until_ms <= self.now_ms
        self.sweep()

    def sweep(self) -> None:
        """Performs the due work of messages, and forgets UIDs."""
        self.remembered = [x for x in self.remembered if x[2] > self.now_ms]
        due = [x for x in self.messages if 0 < x.look_ms[1] <= self.now_ms]
        for message in sorted(due, key=lambda x: x.look_ms):
            self._due(message)

    def _due(self, message: Message) -> None:
        if message not in self.messages:
            return  # An earlier message took the space for dead letters.
        if not message.is_expired(self.now_ms):
            if message.is_delayed:
                message.ready_ms = 0, 0
                self._enter_anew(message)
                self._look_anew(message)
        elif message.lease is not None:
            held_ms = self.now_ms - message.expires_ms
            wait_ms = min(max(held_ms, LOOK_AGAIN_MS), LOOK_AGAIN_MAX_MS)
            message.look_ms = (self.now_ms + wait_ms,) * 2
        elif self.bounds[message.queue]["expiry_action"] == "discard":
            self.remove(message, for_good=False)
        elif not self.bury(message, ErrorCode.MESSAGE_EXPIRED, How("", False, False)):
            message.look_ms = (self.now_ms + STUCK_MS,) * 2

    # -- connections and restarts

    def hang_up(self, seat: int, *, is_stop: bool = False) -> None:
        """Ends everything that depends on a connection, after a loss or a stop."""
        self.waiters = [x for x in self.waiters if x.seat != seat]
        lost = How(f"c{seat}", is_failed=False, delay_ms=0)
        for message in list(self.messages):
            lease = message.lease
            if lease is not None and lease.seat == seat and not lease.unit:
                self.give_back(message, lost)
        for key in [key for key in self.units if key[0] == seat]:
            self.back_out(key, lost if is_stop else None)

    def restart(self, *, is_clean: bool) -> None:
        """Removes non-persistent messages. After a crash, earlier deliveries are unknown."""
        self.waiters.clear()
        self.units.clear()
        for burial in self.groups.burials.values():
            burial.wake_ms = 0
        for message in [x for x in self.messages if x.wish.volatile]:
            self.remove(message, for_good=False)
        for message in self.messages:
            message.lease = None
            message.maybe |= not is_clean

    def lease(self, message: Message, waiter: Waiter, number: int) -> None:
        """Leases *message* to *waiter*."""
        deadline_ms = self.now_ms + waiter.lease_ms
        message.lease = Lease(number, waiter.seat, waiter.lease_ms, deadline_ms)
        waiter.credit -= 1
