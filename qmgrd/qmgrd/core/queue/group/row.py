"""The row of a group on a queue. The size of the row does not depend on the size of the group.

    numbers  1 2 3 4 5 6 7 8 9
             x x x   x     L         x: has left the queue; present: 4, 6, 7, 8; L: the last
             done=3  ahead=[5]       due: 4

All members with numbers up to ``done`` have left the queue, because they were consumed, purged or
moved. An expired or damaged member leaves a gap until an operator skips its number. The member
after ``done`` is due.
"""

from dataclasses import dataclass, field

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode

AHEAD_MAX_RUNS = 1_000  # maximum number of runs of members that left before earlier members
NO_PLACE = b""


@dataclass(slots=True)
class GroupRow:
    """One group on one queue.

    Invariant: the runs in ``ahead`` are above done + 1 and ascending, with gaps between them.
    """

    count: int = 0  # the number of available and leased members
    waiting: int = 0  # the number of delayed members
    done: int = 0  # the number up to which all members have left
    # The runs above ``done``, each with its first number and its length.
    ahead: list[list[int]] = field(default_factory=list)
    last: int = 0  # the number of the last member; 0 if unknown
    highest: int = 0  # the highest number of all current and former members
    is_paused: bool = False
    is_closed: bool = False
    parked_number: int = 0  # the number of the failed member of a parked group; otherwise 0
    parked_code: int = 0  # the error code of that member
    # The place of the group in the chain; NO_PLACE if it is not in the chain.
    place: bytes = NO_PLACE
    first_us: int = 0  # the wall clock time of the first arrival
    changed_ms: int = 0  # the store clock time of the last arrival or departure of a member
    due_ms: int = 0  # the store clock time of the row in the schedule; 0 if there is no row
    born: int = 0  # the arrival number in the key of the row in the schedule
    lowest: int = 0  # the lowest arrival number of all current and former members
    is_listed: bool = False  # whether the place is also in the range of complete groups (chain.py)

    def encode(self) -> bytes:
        """Returns the stored row."""
        data: bytes = pack(
            [
                self.count,
                self.waiting,
                self.done,
                self.ahead,
                self.last,
                self.highest,
                self.is_paused,
                self.is_closed,
                self.parked_number,
                self.parked_code,
                self.place,
                self.first_us,
                self.changed_ms,
                self.due_ms,
                self.born,
                self.lowest,
                self.is_listed,
            ]
        )
        return data

    @classmethod
    def decode(cls, data: bytes) -> "GroupRow":
        """Returns the group in a stored row. Fields that are missing at its end have defaults.

        Raises:
            ValueError: The row is invalid.
        """
        row = cls(*unpack(data)[:_FIELDS])
        values = [getattr(row, name) for name in _NAMES]
        runs = [number for run in row.ahead for number in run] if type(row.ahead) is list else [-1]
        numbers = [value for value in values if type(value) is int] + runs
        if [type(value) for value in values] != _TYPES or len(runs) != 2 * len(row.ahead):
            raise ValueError("a field of the group row has the wrong type")
        if any(type(x) is not int for x in runs) or not 0 <= min(numbers) <= max(numbers) < _END:
            raise ValueError("a number in the group row is out of range")
        return row

    @property
    def due(self) -> int:
        """The next number to consume. A member with this number need not exist yet."""
        return self.done + 1

    @property
    def left_count(self) -> int:
        """The number of members that have left."""
        return self.done + sum(count for _, count in self.ahead)

    @property
    def is_empty(self) -> bool:
        """Whether the queue has no members of the group."""
        return not (self.count or self.waiting)

    @property
    def is_whole(self) -> bool:
        """Whether all members from the first to the last are available or leased."""
        return 0 < self.last == self.count

    @property
    def is_rest_ready(self) -> bool:
        """Whether all remaining members up to the last are available or leased."""
        return 0 < self.last == self.count + self.left_count

    @property
    def is_rest_here(self) -> bool:
        """Whether all remaining members up to the last are on the queue, including delayed ones."""
        return 0 < self.last == self.count + self.waiting + self.left_count

    @property
    def must_end(self) -> bool:
        """Whether all members must leave, because one failed or the group expired."""
        is_over = self.is_rest_here or self.is_closed or self.parked_code == _EXPIRED
        return self.parked_number > 0 and is_over

    @property
    def is_stopped(self) -> bool:
        """Whether the delivery of members is stopped now."""
        return self.is_paused or self.parked_number > 0

    @property
    def missing(self) -> int:
        """The number of missing members between the due and the highest number."""
        return self.highest - self.left_count - self.count - self.waiting

    @property
    def state(self) -> str:
        """The state of the group, as one word."""
        if self.parked_number:
            return "parked"
        if self.is_paused:
            return "paused"
        if self.missing > 0:
            return "gap"
        return "complete" if self.last else "open"

    def has_left(self, number: int) -> bool:
        """Returns whether the member with *number* has left."""
        return number <= self.done or any(
            first <= number < first + count for first, count in self.ahead
        )

    def leave(self, number: int) -> None:
        """Records that the member with *number* has left."""
        if number == self.done + 1 and not self.ahead:
            self.done = number
        elif number > self.done:
            self._leave_ahead(number)

    def leave_all(self, numbers: list[int]) -> None:
        """Records that several members have left.

        The method is fast for consecutive due members.
        """
        first, count = numbers[0], len(numbers)
        if first == self.done + 1 and not self.ahead and numbers == [*range(first, first + count)]:
            self.done += count
            return
        for number in numbers:
            self.leave(number)

    def _leave_ahead(self, number: int) -> None:
        runs = self.ahead
        at = len(runs)
        while at and runs[at - 1][0] > number:
            at -= 1
        before = runs[at - 1] if at else [0, 0]
        if number < before[0] + before[1]:
            return  # The member has already left.
        if at and before[0] + before[1] == number:
            before[1] += 1
        else:
            runs.insert(at, before := [number, 1])
            at += 1
        if at < len(runs) and runs[at][0] == number + 1:
            before[1] += runs.pop(at)[1]
        if runs[0][0] == self.done + 1:
            self.done += runs.pop(0)[1]
        del runs[AHEAD_MAX_RUNS:]  # Deleted runs become gaps, which an operator can skip.

    def only_left(self, below: int) -> "GroupRow":
        """Returns a new row with only the numbers that have left.

        Args:
            below: The number below which numbers are included; 0 means all numbers.
        """
        done = min(self.done, below - 1) if below else self.done
        ahead = [[*run] for run in self.ahead if not below or sum(run) <= below]
        return GroupRow(done=done, ahead=ahead, highest=sum(ahead[-1]) - 1 if ahead else done)

    def give_up_to(self, number: int) -> None:
        """Records that all members below *number* have left."""
        self.done = max(self.done, number - 1)
        while self.ahead and self.ahead[0][0] <= self.done + 1:
            first, count = self.ahead.pop(0)
            self.done = max(self.done, first + count - 1)

    def after(self, number: int) -> int:
        """Returns the first number at or above *number* that has not left."""
        if number <= self.done:
            number = self.done + 1
        for first, count in self.ahead:
            if first <= number < first + count:
                return first + count
        return number


_EXPIRED = int(ErrorCode.GROUP_EXPIRED)
_END = 2**63  # the upper bound of milliseconds, numbers in groups and arrival numbers
_FIELDS = len(GroupRow.__dataclass_fields__)
_NAMES = tuple(GroupRow.__dataclass_fields__)
_TYPES = [type(getattr(GroupRow(), name)) for name in _NAMES]
