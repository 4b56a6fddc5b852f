"""What a queue knows of a group, beside its members: a row, at a size that does not grow with it.

    numbers  1 2 3 4 5 6 7 8 9
             x x x   x     L         x left the queue for good, there: 4 6 7, L the last
             done=3  ahead=[5]       due: 4

``done``: all members up to it left for good: consumed, purged, moved. What expired or was damaged
did not: it is a gap, until an operator skips it. The member behind ``done`` is due.
"""

from dataclasses import dataclass, field

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode

AHEAD_MAX_RUNS = 1_000  # of members that left before those in front of them
NO_PLACE = b""


@dataclass(slots=True)
class GroupRow:
    """One group on one queue.

    Invariant: what is ahead lies above done + 1, in ascending runs with gaps between them.
    """

    count: int = 0  # members that can be got, leased or not
    waiting: int = 0  # members that wait for their time
    done: int = 0
    ahead: list[list[int]] = field(default_factory=list)  # runs above done: first, how many
    last: int = 0  # the number of the last; 0 as long as nobody knows
    highest: int = 0  # of those that were ever here
    is_paused: bool = False
    is_closed: bool = False
    parked_number: int = 0  # the member that failed, where the group waits for what follows
    parked_code: int = 0
    place: bytes = NO_PLACE  # where it has its turn; none while its due member cannot be got
    first_us: int = 0  # wall clock of its first arrival here
    changed_ms: int = 0  # store clock of the last one, and of the last that left
    due_ms: int = 0  # store clock of its row in the schedule
    born: int = 0  # the arrival in the key of that row
    lowest: int = 0  # the lowest arrival of all that were ever here
    is_listed: bool = (
        False  # at its place, among the complete groups, too: see queue/group/chain.py
    )

    def encode(self) -> bytes:
        """Return the stored row."""
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
        """Return what a stored row holds; what it lacks at the end has its default.

        Raises:
            ValueError: it makes no sense.
        """
        row = cls(*unpack(data)[:_FIELDS])
        values = [getattr(row, name) for name in _NAMES]
        runs = [number for run in row.ahead for number in run] if type(row.ahead) is list else [-1]
        numbers = [value for value in values if type(value) is int] + runs
        if [type(value) for value in values] != _TYPES or len(runs) != 2 * len(row.ahead):
            raise ValueError("a field of what is known of a group is of another type")
        if any(type(x) is not int for x in runs) or not 0 <= min(numbers) <= max(numbers) < _END:
            raise ValueError("a number in what is known of a group is out of range")
        return row

    @property
    def due(self) -> int:
        """The number that has its turn, whether it is there or not."""
        return self.done + 1

    @property
    def gone(self) -> int:
        """How many members have left for good."""
        return self.done + sum(count for _, count in self.ahead)

    @property
    def is_empty(self) -> bool:
        """Whether nothing of it is there."""
        return not (self.count or self.waiting)

    @property
    def is_whole(self) -> bool:
        """Whether all of it is there and can be got, the first to the last."""
        return 0 < self.last == self.count

    @property
    def is_rest_ready(self) -> bool:
        """Whether what has not left yet is all there and can be got, up to the last."""
        return 0 < self.last == self.count + self.gone

    @property
    def is_rest_here(self) -> bool:
        """Whether what has not left yet is all there, up to the last."""
        return 0 < self.last == self.count + self.waiting + self.gone

    @property
    def is_ripe(self) -> bool:
        """Whether all of it is to leave, as of a member that failed, or as it took too long."""
        is_over = self.is_rest_here or self.is_closed or self.parked_code == _EXPIRED
        return self.parked_number > 0 and is_over

    @property
    def is_stopped(self) -> bool:
        """Whether nothing of it is handed out for now."""
        return self.is_paused or self.parked_number > 0

    @property
    def missing(self) -> int:
        """How many members between the due one and the highest are not there."""
        return self.highest - self.gone - self.count - self.waiting

    @property
    def state(self) -> str:
        """How it stands, in a word."""
        if self.parked_number:
            return "parked"
        if self.is_paused:
            return "paused"
        if self.missing > 0:
            return "gap"
        return "complete" if self.last else "open"

    def has_left(self, number: int) -> bool:
        """Return whether the member of that number was here and left for good."""
        return number <= self.done or any(
            first <= number < first + count for first, count in self.ahead
        )

    def leave(self, number: int) -> None:
        """Note that the member of that number left for good."""
        if number == self.done + 1 and not self.ahead:
            self.done = number
        elif number > self.done:
            self._leave_ahead(number)

    def leave_all(self, numbers: list[int]) -> None:
        """Note the same of some, which are often the next ones."""
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
            return  # It had left.
        if at and before[0] + before[1] == number:
            before[1] += 1
        else:
            runs.insert(at, before := [number, 1])
            at += 1
        if at < len(runs) and runs[at][0] == number + 1:
            before[1] += runs.pop(at)[1]
        if runs[0][0] == self.done + 1:
            self.done += runs.pop(0)[1]
        del runs[AHEAD_MAX_RUNS:]  # They will be gaps: an operator skips them.

    def what_left(self, below: int) -> "GroupRow":
        """Return the row of a group of which nothing is known but what left here.

        Args:
            below: and that only up to the number before this one, unless it is 0.
        """
        done = min(self.done, below - 1) if below else self.done
        ahead = [[*run] for run in self.ahead if not below or sum(run) <= below]
        return GroupRow(done=done, ahead=ahead, highest=sum(ahead[-1]) - 1 if ahead else done)

    def give_up_to(self, number: int) -> None:
        """Have all numbers below *number* count as left."""
        self.done = max(self.done, number - 1)
        while self.ahead and self.ahead[0][0] <= self.done + 1:
            first, count = self.ahead.pop(0)
            self.done = max(self.done, first + count - 1)

    def after(self, number: int) -> int:
        """Return the first number from *number* on that has not left."""
        if number <= self.done:
            number = self.done + 1
        for first, count in self.ahead:
            if first <= number < first + count:
                return first + count
        return number


_EXPIRED = int(ErrorCode.GROUP_EXPIRED)
_END = 2**63  # Milliseconds, numbers and arrivals are all below.
_FIELDS = len(GroupRow.__dataclass_fields__)
_NAMES = tuple(GroupRow.__dataclass_fields__)
_TYPES = [type(getattr(GroupRow(), name)) for name in _NAMES]
