"""What a consumer in order has no more, because a message of its group came back.

    consumer ──release 3──▶ the queue manager takes 3 back, and 4, 5, which are on their way
             ◀────4, 5───── dropped here
             ◀──3, 4, 5──── in order again

What is on its way is dropped until the same number, or a lower one, comes again, or the settle is
answered: what comes later was sent later. It goes back unread, in case it had been sent anew.
"""

from dataclasses import dataclass

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.messages import DELIVERY_BYTES

_COME_BACK = frozenset((m.RELEASE, m.RETURN, m.UNREAD, m.REJECT))
_HEAD_END = DELIVERY_BYTES + records.HEAD_BYTES


@dataclass(slots=True, eq=False)
class TakenBack:
    """The end of a lease by which a message of a group, and all behind it, came back."""

    group_id: bytes
    number: int
    is_over: bool = False  # the queue manager has answered


def comes_back(action: int) -> bool:
    """Return whether a message that is settled so is delivered again, or could be."""
    return action in _COME_BACK


def member_of(item: bytes) -> tuple[bytes, int] | None:
    """Return group id and number of the message in a delivery item, without decoding it."""
    if len(item) < _HEAD_END or not item[DELIVERY_BYTES + records.GROUP_FLAGS_AT]:
        return None
    at = _HEAD_END + item[DELIVERY_BYTES + records.CORRELATION_LENGTH_AT]
    if len(item) < at + records.GROUP.size:
        return None
    group_id, number = records.GROUP.unpack_from(item, at)
    return group_id, number


class TakenBacks:
    """Those of one consumer.

    Invariant: none is there that was over when a message of its group was last looked at.
    """

    def __init__(self) -> None:
        self._by_group: dict[bytes, list[TakenBack]] = {}

    def add(self, group_id: bytes, number: int) -> TakenBack:
        """Take note that a message was given back; it is to be told when that is answered."""
        if len(self._by_group) > 1_000:  # Groups of which nothing came since.
            self._forget_what_is_over()
        taken = TakenBack(group_id, number)
        self._by_group.setdefault(group_id, []).append(taken)
        return taken

    def takes(self, group_id: bytes, number: int) -> bool:
        """Take in that a message arrives; return whether it is one that was taken back."""
        found = self._by_group.pop(group_id, None)
        if found is None:
            return False
        left = [taken for taken in found if not taken.is_over and taken.number < number]
        if left:
            self._by_group[group_id] = left
        return bool(left)

    def clear(self) -> None:
        """Take note that the connection is gone: nothing of it is on its way any more."""
        self._by_group.clear()

    def _forget_what_is_over(self) -> None:
        left = {
            group_id: [taken for taken in found if not taken.is_over]
            for group_id, found in self._by_group.items()
        }
        self._by_group = {group_id: found for group_id, found in left.items() if found}
