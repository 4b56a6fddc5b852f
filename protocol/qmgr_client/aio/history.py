"""History, for asyncio: the recorded events of messages, and the cursors of exports.

    async for row in queue_manager.admin.history():
        for section in row.sections:
            ...

manager_rows.py defines the results of these methods.
"""

from collections.abc import AsyncGenerator
from typing import NamedTuple

from qmgr_client.aio.asker import Asker
from qmgr_client.manager_rows import CursorRow, HistoryPage, HistoryShown
from qmgr_protocol import history
from qmgr_protocol import messages as m


class HistoryRow(NamedTuple):
    """A row of history. ``data`` is the stored form of the row."""

    seq: int
    turn: int
    sections: list[history.Section]
    data: bytes


class History(Asker):
    """The requests of operators for history."""

    async def history(self, after: int = 0, until: int = 0) -> AsyncGenerator[HistoryRow, None]:
        """Yields the rows of history in order.

        Args:
            after: Start after the row with this number. 0 starts with the oldest row.
            until: Stop after the row with this number. 0 stops after the latest row.

        Raises:
            RequestError: HISTORY_DROPPED if the rows were deleted. HISTORY_AHEAD if the rows do not
                exist yet.
            HistoryMalformed: This version cannot read a row.
        """
        after = after or (await self.history_show())["first"] - 1
        while True:
            page = await self.history_read(after, until)
            for seq, data in page["rows"]:
                row = history.decode(data)
                yield HistoryRow(seq, row.turn, row.sections, data)
                after = seq
            if not page["rows"] or 0 < until <= after:
                return

    async def history_read(
        self, after: int = 0, until: int = 0, bytes_max: int = 2**20
    ) -> HistoryPage:
        """Returns a page of stored rows, from *after* to *until*.

        Args:
            after: Start after the row with this number.
            until: Stop after the row with this number. 0 means unlimited.
            bytes_max: The maximum number of bytes to return, unless a single row is longer.

        Raises:
            RequestError: HISTORY_DROPPED if the rows were deleted. HISTORY_AHEAD if the rows do not
                exist yet.
        """
        return await self._row(HistoryPage, m.HistoryRead, after, until, bytes_max)

    async def history_show(self) -> HistoryShown:
        """Returns the range of rows in the history, and its cursors."""
        return await self._row(HistoryShown, m.HistoryShow)

    async def cursor_commit(self, cursor: str, position: int) -> CursorRow:
        """Moves the cursor of an export to *position*, or creates the cursor.

        The queue manager may delete rows once all cursors have passed them.

        Raises:
            RequestError: HISTORY_DROPPED, HISTORY_AHEAD, CURSORS_EXHAUSTED or VALUE_INVALID.
        """
        return await self._row(CursorRow, m.CursorCommit, cursor, position)

    async def cursor_delete(self, cursor: str) -> None:
        """Deletes a cursor. The queue manager no longer keeps rows for it.

        Raises:
            RequestError: CURSOR_UNKNOWN if the cursor does not exist.
        """
        await self._ask(m.CursorDelete, cursor)
