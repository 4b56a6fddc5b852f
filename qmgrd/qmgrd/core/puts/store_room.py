"""Divides the free space of the store at the beginning of each turn.

limits/room.py has the marks, and describes what stops at each of them.
"""

from qmgrd.core.context.context import Context
from qmgrd.core.layout.kv import Space
from qmgrd.core.limits.room import marks_of, room_of
from qmgrd.core.puts.refusal_reports import FullStore


class StoreRoom:
    """Sets the room of each turn in the context.

    Invariant: the marks are those of the map at its size in the latest turn.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._marks = marks_of(context.config, context.config.store.map_bytes)
        self._full_store = FullStore()

    def divide(self, space: Space) -> None:
        """Sets the room of a turn that begins with *space*. Logs that the store became full."""
        context = self._context
        if space.map_bytes != self._marks.map_bytes:
            self._marks = marks_of(context.config, space.map_bytes)
        room = room_of(self._marks, space)
        context.store_full, context.operators_full = room.why_full, room.why_operators_wait
        self._full_store.log(context)
        context.room_bytes, context.operator_bytes = room.put_bytes, room.operator_bytes
        context.put_pages, context.is_cramped = room.put_pages, room.is_cramped
        context.turn_rows, context.slice_rows = room.turn_rows, room.slice_rows
        context.is_small = room.turn_rows < self._marks.rows_max
