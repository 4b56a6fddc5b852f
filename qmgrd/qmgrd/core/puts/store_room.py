"""Divides the free space of the store between what a turn may do.

limits/room.py has the marks, and describes what stops at each of them.

A look at the free space takes a tenth of the time of a short turn. So if a look finds plenty,
several turns share its room:

1. The turns begin within ``Store.look_ms``. Before the last of them begins, they have used fewer
   rows and bytes than the longest turn may use. So together they change no more pages than two of
   the longest turns.
2. *Plenty* means ``Marks.shared_bytes`` above each limit of puts, in the map and on the disk. This
   is 16 pages for each row of two of the longest turns, of which they need about two. The rest is
   for what other programs write to the disk in the meantime.
3. Puts of all these turns are subtracted from the same room. So puts never pass the mark.
"""

from qmgrd.core.context.context import Context
from qmgrd.core.layout.kv import Store
from qmgrd.core.limits.room import is_shareable, marks_of, room_of
from qmgrd.core.puts.refusal_reports import FullStore


class StoreRoom:
    """Sets the room of each turn in the context.

    Invariant: the marks are those of the map at its size in the latest look. The numbers of rows
    and bytes that turns may still use before the next look are ``_rows_left`` and the bytes above
    ``_bytes_least`` in the context.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._marks = marks_of(context.config, context.config.store.map_bytes)
        self._full_store = FullStore()
        self._next_look_ms = 0
        self._rows_left = 0
        self._bytes_least = 0

    def divide(self, store: Store) -> int:
        """Sets the room of a turn of *store*. Returns the size of the map.

        Logs that the store became full.
        """
        context = self._context
        if (
            self._rows_left > 0
            and context.room_bytes > self._bytes_least
            and context.now.ms < self._next_look_ms
        ):
            return self._marks.map_bytes
        space = store.space()
        if space.map_bytes != self._marks.map_bytes:
            self._marks = marks_of(context.config, space.map_bytes)
        room = room_of(self._marks, space)
        context.store_full, context.operators_full = room.why_full, room.why_operators_wait
        self._full_store.log(context)
        context.room_bytes, context.operator_bytes = room.put_bytes, room.operator_bytes
        context.put_pages, context.is_cramped = room.put_pages, room.is_cramped
        context.turn_rows, context.slice_rows = room.turn_rows, room.slice_rows
        context.is_small = room.turn_rows < self._marks.rows_max
        self._rows_left = 0
        if is_shareable(self._marks, space):
            self._rows_left = self._marks.rows_max
            self._bytes_least = context.room_bytes - context.config.limits.turn_bytes
            self._next_look_ms = context.now.ms + store.look_ms
        return self._marks.map_bytes

    def end_turn(self) -> None:
        """Counts the rows of the turn."""
        self._rows_left -= self._context.rows
