"""Groups in the model, which has plain sets of numbers for each group of a queue.

A group has the sets of its members, its removed members and its failed members. All other
properties belong to the messages.
"""

from dataclasses import dataclass, field

from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.machine.message import Message, Unit, Wish

RETENTION_MS = 30 * 24 * 3_600_000


@dataclass
class Burial:
    """A parked group that is leaving its queue, one number after another."""

    cursor: int = 0
    wake_ms: int = 0
    to: str = ""  # queue that received the first message, and receives the rest


@dataclass
class Group:
    """One group on one queue."""

    left: set[int] = field(default_factory=set)  # numbers that have left the group for good
    highest: int = 0  # highest number that has ever arrived
    last: int = 0
    is_closed: bool = False
    is_paused: bool = False
    # error codes by number; the daemon reports one of these codes
    parked: dict[int, int] = field(default_factory=dict)
    parked_step: int = 0
    changed_ms: int = 0
    turn: Message | None = None  # due message, whose position is that of the group

    @property
    def done(self) -> int:
        """The highest number such that all messages up to it have left for good."""
        number = 0
        while number + 1 in self.left:
            number += 1
        return number

    @property
    def is_stopped(self) -> bool:
        """True if no message of the group may be delivered."""
        return self.is_paused or bool(self.parked)

    def admits(self, number: int, *, is_last: bool) -> bool:
        """Returns whether a message from another queue is consistent with this group."""
        contradicts = 0 < self.last < number or (is_last and number < self.highest)
        return number not in self.left and not contradicts

    def give_up_to(self, number: int) -> None:
        """Gives up all numbers below *number*."""
        self.left |= set(range(1, number))
        self.highest = max(self.highest, self.done)


class Groups:
    """The groups of all queues."""

    def __init__(self, units: dict[tuple[int, int], Unit]) -> None:
        self._units = units  # open units
        self.known: dict[tuple[str, bytes], Group] = {}
        self.burials: dict[tuple[str, bytes], Burial] = {}
        self.now_ms = 0
        self.step = 0

    def of(self, message: Message) -> Group | None:
        """Returns the group to which *message* belongs, if any."""
        if not message.is_member or message.wish.group is None:
            return None
        return self.known[message.queue, message.wish.group[0]]

    def is_stopped(self, message: Message) -> bool:
        """Returns whether *message* must not be delivered because its group is stopped."""
        group = self.of(message)
        return group is not None and group.is_stopped

    def member(self, messages: list[Message], queue: str, group_id: bytes, number: int) -> Message:
        """Returns the stored message of the group that has that number."""
        (found,) = [
            x
            for x in messages
            if x.queue == queue
            and x.is_member
            and x.wish.group
            and x.wish.group[:2] == (group_id, number)
        ]
        return found

    # -- puts

    def refusal(self, messages: list[Message], queue: str, wish: Wish) -> int:
        """Returns the code with which a message's group refuses its put to *queue*, or 0."""
        if wish.group is None:
            return 0
        group_id, number, is_last = wish.group
        group = self.known.get((queue, group_id))
        if group is not None:
            if number in group.left:
                return ErrorCode.GROUP_NUMBER_TAKEN
            if group.last and (number > group.last or is_last):
                return ErrorCode.GROUP_ENDED
            if is_last and number < group.highest:
                return ErrorCode.GROUP_ENDED
        if number in numbers(messages, queue, group_id):
            return ErrorCode.GROUP_NUMBER_TAKEN
        return self._contradicts_a_unit(queue, wish)

    def _contradicts_a_unit(self, queue: str, wish: Wish) -> int:
        if wish.group is None:
            return 0
        group_id, number, is_last = wish.group
        held = self._held(queue, group_id)
        if number in [found for found, _ in held]:
            return ErrorCode.GROUP_NUMBER_TAKEN
        ends_before = any(found < number for found, ends in held if ends)
        goes_on = is_last and any(found > number for found, _ in held)
        return ErrorCode.GROUP_ENDED if ends_before or goes_on else 0

    def _held(self, queue: str, group_id: bytes) -> list[tuple[int, bool]]:
        """Returns the numbers of a group in open units. The value is true for the last message."""
        return [
            x.wish.group[1:]
            for unit in self._units.values()
            for x in unit.puts
            if x.queue == queue and x.wish.group is not None and x.wish.group[0] == group_id
        ]

    def enter(self, messages: list[Message], message: Message) -> None:
        """Adds *message*, which arrives on its queue, to its group if possible."""
        message.is_member = False
        if message.wish.group is None:
            return
        group_id, number, is_last = message.wish.group
        group = self.known.get((message.queue, group_id))
        if group is not None and not group.admits(number, is_last=is_last):
            return
        if number in numbers(messages, message.queue, group_id):
            return
        if self._contradicts_a_unit(message.queue, message.wish):
            return
        message.is_member = True
        group = self.known.setdefault((message.queue, group_id), Group())
        group.highest = max(group.highest, number)
        group.last = number if is_last else group.last
        group.changed_ms = self.now_ms

    def leave(self, message: Message, *, for_good: bool) -> None:
        """Removes *message* from its group."""
        group = self.of(message)
        message.is_member = False
        if group is None or message.wish.group is None:
            return
        group.changed_ms = self.now_ms
        if for_good:
            group.left.add(message.wish.group[1])

    def inherit(self, message: Message, target: str) -> None:
        """Lets the group of *message* continue on *target*, unless *target* already knows it."""
        if message.wish.group is None:
            return
        group_id, number, _ = message.wish.group
        group = self.known.get((message.queue, group_id))
        if group is None or number in group.left or (target, group_id) in self.known:
            return
        to_come = min((x for x, _ in self._held(target, group_id)), default=2**32)
        left = {x for x in group.left if x < to_come}
        if left:
            self.known[target, group_id] = Group(left, max(left), changed_ms=self.now_ms)

    # -- failures

    def park(self, message: Message, code: int) -> bool:
        """Parks the group of a message that failed for good; returns False if it has no group."""
        group = self.of(message)
        if group is None or message.wish.group is None:
            return False
        # If several messages fail in one step, any of them may be the first.
        if not group.parked or group.parked_step == self.step:
            group.parked[message.wish.group[1]] = code
            group.parked_step = self.step
        return True

    # -- time

    def rest(self, messages: list[Message]) -> None:
        """Forgets groups that have ended or were empty for too long. Updates other positions."""
        for (queue, group_id), group in list(self.known.items()):
            if numbers(messages, queue, group_id) or group.is_paused:
                self._take_turn(messages, (queue, group_id), group)
                continue
            is_old = group.changed_ms + RETENTION_MS <= self.now_ms and not group.parked
            is_kept = group.is_closed and group.last  # The group is kept to refuse later puts.
            is_over = not is_kept and (not group.left or 0 < group.last <= group.done)
            if is_over or is_old:
                del self.known[queue, group_id]
            else:
                self._take_turn(messages, (queue, group_id), group)

    def _take_turn(self, messages: list[Message], key: tuple[str, bytes], group: Group) -> None:
        """Moves a group to the position of its due message, if one is due."""
        group.turn = self.due(messages, *key)

    def due(self, messages: list[Message], queue: str, group_id: bytes) -> Message | None:
        """Returns the due message of a group, if the message exists and may be delivered."""
        group = self.known[queue, group_id]
        number = group.done + 1
        if group.is_stopped or number not in numbers(messages, queue, group_id):
            return None
        found = self.member(messages, queue, group_id, number)
        return None if found.is_delayed else found

    def in_turn(self, messages: list[Message], queue: str, *, whole: bool) -> list[Message]:
        """Returns a queue's messages in logical order: each group up to its first gap."""
        free = [x for x in messages if x.queue == queue and not (x.is_member or x.is_delayed)]
        turns = [(x, [x]) for x in free]
        for (at, group_id), group in self.known.items():
            if at != queue or group.turn is None:
                continue
            there = numbers(messages, at, group_id)
            mine = [self.member(messages, at, group_id, x) for x in sorted(there)]
            is_whole = 0 < group.last == sum(not x.is_delayed for x in mine)
            if whole and not (is_whole and all(x.lease is None for x in mine)):
                continue
            turns.append((group.turn, _up_to_gap(group, mine)))
        turns.sort(key=lambda x: (-x[0].priority, x[0].order))
        return [message for _, run in turns for message in run]


def _up_to_gap(group: Group, mine: list[Message]) -> list[Message]:
    found: list[Message] = []
    wanted = group.done + 1
    for message in mine:
        if message.number != wanted or message.is_delayed:
            break
        found.append(message)
        wanted += 1
        while wanted in group.left:
            wanted += 1
    return found


def numbers(messages: list[Message], queue: str, group_id: bytes) -> set[int]:
    """Returns the numbers of a group's stored messages."""
    return {
        x.wish.group[1]
        for x in messages
        if x.queue == queue and x.is_member and x.wish.group and x.wish.group[0] == group_id
    }
