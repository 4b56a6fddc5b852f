"""History for asyncio: what happened to messages, and cursors that keep it until it is exported.

    async for row in queue_manager.admin.history():
        for section in row.sections:
            ...

manager_rows.py has what is returned.
"""

from collections.abc import AsyncGenerator
from typing import NamedTuple

from qmgr_client.aio.asker import Asker
from qmgr_client.manager_rows import CursorRow, HistoryPage, HistoryShown
from qmgr_protocol import history
from qmgr_protocol import messages as m


class HistoryRow(NamedTuple):
    """A row of history; ``data`` is what is stored."""

    seq: int
    turn: int
    sections: list[history.Section]
    data: bytes


class History(Asker):
    """What a queue manager does with history."""

    async def history(self, after: int = 0, until: int = 0) -> AsyncGenerator[HistoryRow, None]:
        """Yield the rows of history behind *after*, up to *until*, or to what there is now.

        Args:
            after: 0 begins with the oldest that is there.

        Raises:
            RequestError: HISTORY_DROPPED, HISTORY_AHEAD.
            HistoryMalformed: a row that this version cannot read.
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
        """Return stored rows behind *after* up to *until* (0: all): one, or within *bytes_max*.

        Raises:
            RequestError: HISTORY_DROPPED, HISTORY_AHEAD.
        """
        return await self._row(HistoryPage, m.HistoryRead, after, until, bytes_max)

    async def history_show(self) -> HistoryShown:
        """Return where the journal stands, and its cursors."""
        return await self._row(HistoryShown, m.HistoryShow)

    async def cursor_commit(self, cursor: str, position: int) -> CursorRow:
        """Say that an export has all rows up to *position*; makes the cursor if there is none.

        Raises:
            RequestError: HISTORY_DROPPED, HISTORY_AHEAD, CURSORS_EXHAUSTED, VALUE_INVALID.
        """
        return await self._row(CursorRow, m.CursorCommit, cursor, position)

    async def cursor_delete(self, cursor: str) -> None:
        """Forget a cursor: nothing is kept for it any more.

        Raises:
            RequestError: CURSOR_UNKNOWN.
        """
        await self._ask(m.CursorDelete, cursor)
