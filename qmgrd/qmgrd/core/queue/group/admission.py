"""Decides whether a member may be put.

Each number is put once, none after the last (BEHAVIOUR, D7).

The number of a member remains in use after the member has left, as long as its group is remembered.
Therefore, a repeated put does not add the member twice. Puts of open units of work also count.
"""

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import shown
from qmgr_protocol.record import GROUP_NUMBER_MAX, number_error
from qmgrd.core.queue.group.held_groups import Member
from qmgrd.core.queue.group.row import GroupRow

NO_GROUP = bytes(24)
UNCOMMITTED_MS = 1_000  # retry time for a number that an open unit of work uses


class UncommittedMembers:
    """The members that open units of work will put on one queue.

    Invariant: each group has at least one member. ``_last`` contains only numbers of members.
    """

    def __init__(self) -> None:
        self._numbers: dict[bytes, dict[int, None]] = {}  # the numbers of the members by group
        self._last: dict[bytes, int] = {}  # the number of the last member by group

    def __len__(self) -> int:
        """Returns the number of groups."""
        return len(self._numbers)

    def keep(self, member: Member, *, is_last: bool) -> None:
        """Adds a member. No other put may use its number."""
        self._numbers.setdefault(member.group_id, {})[member.number] = None
        if is_last:
            self._last[member.group_id] = member.number

    def give_up(self, member: Member) -> None:
        """Removes a member. Other puts may now use its number."""
        group_id, number = member
        numbers = self._numbers.get(group_id, {})
        numbers.pop(number, None)
        if self._last.get(group_id) == number:
            del self._last[group_id]
        if not numbers:
            self._numbers.pop(group_id, None)

    def first(self, group_id: bytes, above: int, below: int) -> int:
        """Returns the lowest number between *above* and *below* in an open unit, or 0 if there is
        none.
        """
        numbers = self._numbers.get(group_id, {})
        return min((number for number in numbers if above < number < below), default=0)

    def error(self, queue: str, member: Member, *, is_last: bool) -> RequestError | None:
        """Returns GROUP_NUMBER_TAKEN or GROUP_ENDED if a put conflicts with an open unit, else
        None.
        """
        group_id, number = member
        numbers = self._numbers.get(group_id)
        if numbers is None:
            return None
        if number in numbers:
            error = number_taken_error(queue, member, "is in an open unit of work")
            return RequestError(error.code, error.text, UNCOMMITTED_MS)
        last = self._last.get(group_id, 0)
        other = last if 0 < last < number else 0
        if is_last and number < max(numbers):
            other = max(numbers)
        if other:
            why = f"has number {other} in an open unit of work, which conflicts with {number}"
            return _group_ended_error(queue, group_id, why)
        return None


def check_number(member: Member) -> None:
    """Raises VALUE_INVALID or GROUP_NUMBER_INVALID if *member* is not valid."""
    if member.group_id == NO_GROUP:
        text = "a group id of 24 zero bytes is not valid"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    if not 1 <= member.number <= GROUP_NUMBER_MAX:
        raise number_error(member.number)


def check_row(queue: str, row: GroupRow, member: Member, *, is_last: bool) -> None:
    """Raises GROUP_NUMBER_TAKEN or GROUP_ENDED if a put conflicts with its group's row."""
    group_id, number = member
    if row.has_left(number):
        raise number_taken_error(
            queue, member, f"has already left the queue, and number {row.due} is due"
        )
    if row.last and (number > row.last or is_last):
        why = "was closed" if row.is_closed else "ends"
        raise _group_ended_error(queue, group_id, f"{why} with number {row.last}")
    if is_last and number < row.highest:
        why = f"continues to number {row.highest}, so {number} cannot be the last"
        raise _group_ended_error(queue, group_id, why)


def number_taken_error(queue: str, member: Member, why: str) -> RequestError:
    """Returns the error for a number that is, or was, in use."""
    return RequestError(
        ErrorCode.GROUP_NUMBER_TAKEN,
        f"number {member.number} of group {shown(member.group_id)} on queue {queue} {why}; "
        "check whether it was put before",
    )


def _group_ended_error(queue: str, group_id: bytes, why: str) -> RequestError:
    return RequestError(
        ErrorCode.GROUP_ENDED,
        f"group {shown(group_id)} on queue {queue} {why}; begin another group",
    )
