"""Pieces of a settle that is too long for one turn."""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from qmgr_protocol import messages as m

SETTLE_HANDLES = 128  # in one piece of a long settle


class SettlePart(NamedTuple):
    """A piece of a settle. The answer is sent after the last one."""

    settle: m.Settle
    first_index: int  # of these handles in the settle
    is_last: bool


Arrived: TypeAlias = m.Received | SettlePart  # what waits for a turn


def parts_of(settle: m.Settle, handles_max: int) -> Iterator[SettlePart]:
    """Yields *settle* in pieces of at most *handles_max* handles; an UNREAD from the back."""
    size = handles_max * m.HANDLE.size
    starts = range(0, len(settle.handles), size)
    if settle.action == m.UNREAD:
        starts = starts[::-1]
    for start in starts:
        part = settle._replace(handles=settle.handles[start : start + size])
        yield SettlePart(part, start // m.HANDLE.size, is_last=start == starts[-1])
