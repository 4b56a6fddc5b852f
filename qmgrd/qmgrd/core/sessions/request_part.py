"""Cuts requests that are too long for one turn into parts. Each part waits for a turn by itself.

    Put      ─▶ Put, Put, ...        the ids continue, so each part is a put like any other
    UnitPut  ─▶ UnitPutPart, ...     one reply, after the last part
    Settle   ─▶ SettlePart, ...      one reply, after the last part

The parts keep their order, and precede the next request of the connection.
"""

from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple, TypeAlias

from qmgr_protocol import messages as m
from qmgr_protocol.connection import JOINED_MAX_BYTES

SETTLE_HANDLES = 128  # the number of handles in one part of a long settle request
PUT_RECORDS = 256  # the maximum number of records in one part of a put, and in a joined put
_PUT_BYTES = JOINED_MAX_BYTES  # the same limit in bytes; a longer record is a separate part


class SettlePart(NamedTuple):
    """One part of a settle request. The reply is sent after the last part."""

    settle: m.Settle
    first_index: int  # the index of the first of these handles in the settle request
    is_last: bool


class UnitPutPart(NamedTuple):
    """One part of a put in a unit of work. The reply is sent after the last part."""

    put: m.UnitPut
    first_index: int  # the index of the first of these records in the put
    is_last: bool


Arrived: TypeAlias = m.Received | SettlePart | UnitPutPart  # a message that waits for a turn
Sized: TypeAlias = tuple[Arrived, int]  # a part, and its share of the request's size in bytes


class PartLimits(NamedTuple):
    """The limits of one part."""

    handles: int = SETTLE_HANDLES
    records: int = PUT_RECORDS

    @property
    def short_bytes(self) -> int:
        """The size of a frame in bytes up to which no request is too long."""
        return min(self.handles * m.HANDLE.size, self.records)

    def fits(self, batch: list[bytes], size_bytes: int) -> bool:
        """Returns whether a put of *batch*, whose frame has *size_bytes*, is a single part."""
        return len(batch) <= self.records and size_bytes <= _PUT_BYTES


def parts_of(message: m.Received, size_bytes: int, limits: PartLimits) -> Iterator[Sized]:
    """Yields the parts of *message*, whose frame has *size_bytes*, or *message* itself."""
    if type(message) is m.Settle and len(message.handles) > limits.handles * m.HANDLE.size:
        for part in _settle_parts(message, limits.handles):
            yield part, len(part.settle.handles)
        return
    if not isinstance(message, m.Put | m.UnitPut):
        yield message, size_bytes
        return
    batch = message.records
    cuts = [] if limits.fits(batch, size_bytes) else list(_cuts(batch, size_bytes, limits.records))
    if len(cuts) <= 1:
        yield message, size_bytes
        return
    starts = [start for start, _, _ in cuts]
    bodies = _rows_of(message.bodies, starts, len(batch))
    if isinstance(message, m.Put):
        extras = _rows_of(message.extras, starts, len(batch))
        for (start, stop, part_bytes), own, named in zip(cuts, extras, bodies, strict=True):
            records = batch[start:stop]
            first_id = message.first_id + start
            put = message._replace(first_id=first_id, records=records, extras=own, bodies=named)
            yield put, part_bytes
    else:
        for (start, stop, part_bytes), named in zip(cuts, bodies, strict=True):
            of_unit = message._replace(records=batch[start:stop], bodies=named)
            yield UnitPutPart(of_unit, start, is_last=stop == len(batch)), part_bytes


def _rows_of(rows: list[list[Any]], starts: list[int], count: int) -> list[list[list[Any]]]:
    """Returns the extras or bodies of each part of a put, with the indexes of the part."""
    found: list[list[list[Any]]] = [[] for _ in starts]
    for index, *rest in rows:
        if index < count:  # Otherwise, the row belongs to no record and has no effect.
            part = bisect_right(starts, index) - 1
            found[part].append([index - starts[part], *rest])
    return found


def _cuts(batch: list[bytes], size_bytes: int, records_max: int) -> Iterator[tuple[int, int, int]]:
    """Yields the start, the end and the size in bytes of each part of *batch*.

    The sizes add up to *size_bytes*.
    """
    ends = list(accumulate(map(len, batch), initial=0))  # ends[i] is the size of the first i
    start, left_bytes = 0, size_bytes
    while start < len(batch):
        fitting = bisect_right(ends, ends[start] + _PUT_BYTES) - 1
        stop = max(min(fitting, start + records_max), start + 1)
        part_bytes = ends[stop] - ends[start] if stop < len(batch) else left_bytes
        yield start, stop, part_bytes
        start, left_bytes = stop, left_bytes - part_bytes


def _settle_parts(settle: m.Settle, handles_max: int) -> Iterator[SettlePart]:
    """Yields *settle* in parts of at most *handles_max* handles, an UNREAD from the back."""
    size = handles_max * m.HANDLE.size
    starts = range(0, len(settle.handles), size)
    if settle.action == m.UNREAD:
        starts = starts[::-1]
    for start in starts:
        part = settle._replace(handles=settle.handles[start : start + size])
        yield SettlePart(part, start // m.HANDLE.size, is_last=start == starts[-1])
