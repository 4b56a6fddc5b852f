# Generated from qmgr_client/aio/history.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""History for asyncio: what happened to messages, and cursors that keep it until it is exported.

    for row in queue_manager.admin.history():
        for section in row.sections:
            ...

manager_rows.py has what is returned.
"""

from collections.abc import Iterator

from qmgr_client.aio import admin as aio_admin
from qmgr_client.aio.history import HistoryRow
from qmgr_client.blocking.bridge import Bridge, pages
from qmgr_client.manager_rows import CursorRow, HistoryPage, HistoryShown


class History(Bridge[aio_admin.Admin]):
    """What a queue manager does with history."""

    def history(self, after: int = 0, until: int = 0) -> Iterator[HistoryRow]:
        """Yield the rows of history behind *after*, up to *until*, or to what there is now.

        Args:
            after: 0 begins with the oldest that is there.

        Raises:
            RequestError: HISTORY_DROPPED, HISTORY_AHEAD.
            HistoryMalformed: a row that this version cannot read.
        """
        return pages(self._call, self._aio.history(after, until))

    def history_read(self, after: int = 0, until: int = 0, bytes_max: int = 2**20) -> HistoryPage:
        """Return stored rows behind *after* up to *until* (0: all): one, or within *bytes_max*.

        Raises:
            RequestError: HISTORY_DROPPED, HISTORY_AHEAD.
        """
        return self._call(self._aio.history_read(after, until, bytes_max))

    def history_show(self) -> HistoryShown:
        """Return where the journal stands, and its cursors."""
        return self._call(self._aio.history_show())

    def cursor_commit(self, cursor: str, position: int) -> CursorRow:
        """Say that an export has all rows up to *position*; makes the cursor if there is none.

        Raises:
            RequestError: HISTORY_DROPPED, HISTORY_AHEAD, CURSORS_EXHAUSTED, VALUE_INVALID.
        """
        return self._call(self._aio.cursor_commit(cursor, position))

    def cursor_delete(self, cursor: str) -> None:
        """Forget a cursor: nothing is kept for it any more.

        Raises:
            RequestError: CURSOR_UNKNOWN.
        """
        self._call(self._aio.cursor_delete(cursor))
