"""Parts of a settle request that is too long for one turn."""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from qmgr_protocol import messages as m

SETTLE_HANDLES = 128  # the number of handles in one part of a long settle request


class SettlePart(NamedTuple):
    """One part of a settle request. The reply is sent after the last part."""

    settle: m.Settle
    first_index: int  # the index of the first of these handles in the settle request
    is_last: bool


Arrived: TypeAlias = m.Received | SettlePart  # a message that waits for a turn


def parts_of(settle: m.Settle, handles_max: int) -> Iterator[SettlePart]:
    """Yields *settle* in parts of at most *handles_max* handles, an UNREAD from the back."""
    size = handles_max * m.HANDLE.size
    starts = range(0, len(settle.handles), size)
    if settle.action == m.UNREAD:
        starts = starts[::-1]
    for start in starts:
        part = settle._replace(handles=settle.handles[start : start + size])
        yield SettlePart(part, start // m.HANDLE.size, is_last=start == starts[-1])
