"""Writes groups like an application: numbered 1, 2, 3, ..., some with an end, some without.

The writer relies on its own memory. It puts a refused message again under the same number, in
physical order. After a crash of its program, the writer also repeats the pending messages. If a
message was already stored, its number is refused because it is in use.
"""

import hashlib
from collections import Counter
from dataclasses import dataclass, field
from random import Random

from tests.sim.ledger import Member, Put

OPEN_MAX = 3  # maximum number of groups that a writer puts at the same time
LENGTH_MAX = 12
ENDED = 0.7  # fraction of groups that end with a last message
TRIES_MAX = 4  # number of tries for a number in use, by an open unit of work or permanently
_SETTLED = ("acked", "GROUP_NUMBER_TAKEN")


@dataclass(slots=True, eq=False)
class Group:
    """A group. Invariant: ``puts`` contains the last put of each number from 1 on."""

    id: bytes
    length: int
    is_ended: bool
    puts: dict[int, Put] = field(default_factory=dict)
    unsure: set[int] = field(default_factory=set)  # numbers that were put before and may be stored
    tries: Counter[int] = field(default_factory=Counter)

    def owed(self, life: str) -> int:
        """Returns the lowest number that *life*, a run of the program, must repeat, or 0."""
        for number, put in self.puts.items():
            if not put.answer and put.producer.removesuffix("/u") != life:
                self.unsure.add(number)
                return number
            if self._is_undone(number, put):
                return number
        return 0

    def _is_undone(self, number: int, put: Put) -> bool:
        if put.unit is not None and put.unit.answer not in ("", "acked"):
            return True
        if put.answer == "GROUP_NUMBER_TAKEN":
            return number not in self.unsure and self.tries[number] < TRIES_MAX
        return put.answer not in ("", "acked")

    def note(self, number: int, put: Put) -> None:
        """Records the put of a number, which may be a repeated put."""
        self.puts[number] = put
        self.tries[number] += 1

    @property
    def is_closed(self) -> bool:
        """True if an operator closed the group."""
        return any(put.answer == "GROUP_ENDED" for put in self.puts.values())

    @property
    def is_over(self) -> bool:
        """True if no more messages of the group must be put."""
        whole = len(self.puts) == self.length
        return self.is_closed or (
            whole and all(put.answer in _SETTLED for put in self.puts.values())
        )


class GroupWriter:
    """Puts groups on one queue. Invariant: ``groups`` contains the unfinished groups."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self.groups: list[Group] = []

    def next(self, random: Random, life: str) -> tuple[Group, Member, bool]:
        """Returns the next group and message to put, and whether the message was put before."""
        self.groups = [group for group in self.groups if not group.is_over]
        for group in self.groups:
            if number := group.owed(life):
                return group, self._member(group, number), True
        going_on = [group for group in self.groups if len(group.puts) < group.length]
        if not going_on or (len(self.groups) < OPEN_MAX and random.random() < 0.2):
            going_on = [self._begin(random)]
        group = random.choice(going_on)
        return group, self._member(group, len(group.puts) + 1), False

    def _begin(self, random: Random) -> Group:
        self._count += 1
        group_id = hashlib.sha256(f"{self._name}:{self._count}".encode()).digest()[:24]
        group = Group(group_id, random.randint(1, LENGTH_MAX), random.random() < ENDED)
        self.groups.append(group)
        del self.groups[: -4 * OPEN_MAX]  # A put that is never answered is finally given up.
        return group

    def _member(self, group: Group, number: int) -> Member:
        return Member(group.id, number, group.is_ended and number == group.length)
