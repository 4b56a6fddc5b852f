# Generated from qmgr_client/aio/history.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""History, without asyncio: the recorded events of messages, and the cursors of exports.

    for row in queue_manager.admin.history():
        for section in row.sections:
            ...

manager_rows.py defines the results of these methods.
"""

from collections.abc import Iterator

from qmgr_client.aio import admin as aio_admin
from qmgr_client.aio.history import HistoryRow
from qmgr_client.blocking.bridge import Bridge, pages
from qmgr_client.manager_rows import CursorRow, HistoryPage, HistoryShown


class History(Bridge[aio_admin.Admin]):
    """The requests of operators for history."""

    def history(self, after: int = 0, until: int = 0) -> Iterator[HistoryRow]:
        """Yields the rows of history in order.

        Args:
            after: Start after the row with this number. 0 starts with the oldest row.
            until: Stop after the row with this number. 0 stops after the latest row.

        Raises:
            RequestError: HISTORY_DROPPED if the rows were deleted. HISTORY_AHEAD if the rows do not
                exist yet.
            HistoryMalformed: This version cannot read a row.
        """
        return pages(self._call, self._aio.history(after, until))

    def history_read(self, after: int = 0, until: int = 0, bytes_max: int = 2**20) -> HistoryPage:
        """Returns a page of stored rows, from *after* to *until*.

        Args:
            after: Start after the row with this number.
            until: Stop after the row with this number. 0 means unlimited.
            bytes_max: The maximum number of bytes to return, unless a single row is longer.

        Raises:
            RequestError: HISTORY_DROPPED if the rows were deleted. HISTORY_AHEAD if the rows do not
                exist yet.
        """
        return self._call(self._aio.history_read(after, until, bytes_max))

    def history_show(self) -> HistoryShown:
        """Returns the range of rows in the history, and its cursors."""
        return self._call(self._aio.history_show())

    def cursor_commit(self, cursor: str, position: int) -> CursorRow:
        """Moves the cursor of an export to *position*, or creates the cursor.

        The queue manager may delete rows once all cursors have passed them.

        Raises:
            RequestError: HISTORY_DROPPED, HISTORY_AHEAD, CURSORS_EXHAUSTED or VALUE_INVALID.
        """
        return self._call(self._aio.cursor_commit(cursor, position))

    def cursor_delete(self, cursor: str) -> None:
        """Deletes a cursor. The queue manager no longer keeps rows for it.

        Raises:
            RequestError: CURSOR_UNKNOWN if the cursor does not exist.
        """
        self._call(self._aio.cursor_delete(cursor))
