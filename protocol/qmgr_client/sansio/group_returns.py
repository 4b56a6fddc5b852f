"""The messages that an ordered consumer drops after a message of the same group was returned.

    consumer ──release 3──▶ the queue manager also returns 4 and 5, which are in transit
             ◀────4, 5───── dropped here
             ◀──3, 4, 5──── delivered again, in order

Messages are dropped until the returned number or a lower number arrives again, or until the settle
is answered. Messages that arrive after the answer were sent after the return. A dropped message is
returned unread because it may be a second delivery.
"""

from dataclasses import dataclass

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.messages import DELIVERY_BYTES

_RETURNING = frozenset((m.RELEASE, m.RETURN, m.UNREAD, m.REJECT))
_HEAD_END = DELIVERY_BYTES + records.HEAD_BYTES


@dataclass(slots=True, eq=False)
class GroupReturn:
    """The return of a message of a group, and of all later messages of the group."""

    group_id: bytes
    number: int
    is_answered: bool = False  # whether the queue manager answered the settle


def returns_message(action: int) -> bool:
    """Returns whether a message that is settled with *action* may be delivered again."""
    return action in _RETURNING


def member_of(item: bytes) -> tuple[bytes, int] | None:
    """Returns the group id and number of the message in a delivery item.

    Does not decode the item.
    """
    if len(item) < _HEAD_END or not item[DELIVERY_BYTES + records.GROUP_FLAGS_AT]:
        return None
    at = _HEAD_END + item[DELIVERY_BYTES + records.CORRELATION_LENGTH_AT]
    if len(item) < at + records.GROUP.size:
        return None
    group_id, number = records.GROUP.unpack_from(item, at)
    return group_id, number


class GroupReturns:
    """The messages of groups that one consumer has returned.

    Invariant: when a message of a group arrives, the group's answered returns are removed.
    """

    def __init__(self) -> None:
        self._by_group: dict[bytes, list[GroupReturn]] = {}

    def add(self, group_id: bytes, number: int) -> GroupReturn:
        """Records the return of a message.

        Returns a GroupReturn. The caller sets its ``is_answered`` once the settle is answered.
        """
        if len(self._by_group) > 1_000:  # These groups have received no message since then.
            self._forget_answered()
        found = GroupReturn(group_id, number)
        self._by_group.setdefault(group_id, []).append(found)
        return found

    def drops(self, group_id: bytes, number: int) -> bool:
        """Records the arrival of a message, and returns whether to drop it."""
        found = self._by_group.pop(group_id, None)
        if found is None:
            return False
        left = [x for x in found if not x.is_answered and x.number < number]
        if left:
            self._by_group[group_id] = left
        return bool(left)

    def clear(self) -> None:
        """Forgets all returns, because the messages in transit are lost with the connection."""
        self._by_group.clear()

    def _forget_answered(self) -> None:
        left = {
            group_id: [x for x in found if not x.is_answered]
            for group_id, found in self._by_group.items()
        }
        self._by_group = {group_id: found for group_id, found in left.items() if found}
