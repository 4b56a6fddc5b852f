"""History without async; aio_history says more of each verb."""

from collections.abc import Iterator

from qmgr_client.aio import admin as aio_admin
from qmgr_client.aio.history import HistoryRow
from qmgr_client.blocking.bridge import Caller, pages
from qmgr_client.manager_rows import CursorRow, HistoryPage, HistoryShown


class History:
    """What a queue manager does with history."""

    _call: Caller
    _admin: aio_admin.Admin

    def history(self, after: int = 0, until: int = 0) -> Iterator[HistoryRow]:
        """Yield the rows of history behind *after*, up to *until*, or to what there is now."""
        return pages(self._call, self._admin.history(after, until))

    def history_read(self, after: int = 0, until: int = 0, bytes_max: int = 2**20) -> HistoryPage:
        """Return stored rows behind *after* up to *until*: one, or more within *bytes_max*."""
        return self._call(self._admin.history_read(after, until, bytes_max))

    def history_show(self) -> HistoryShown:
        """Return where the journal stands, and its cursors."""
        return self._call(self._admin.history_show())

    def cursor_commit(self, cursor: str, position: int) -> CursorRow:
        """Say that an export has all rows up to *position*; makes the cursor if there is none."""
        return self._call(self._admin.cursor_commit(cursor, position))

    def cursor_delete(self, cursor: str) -> None:
        """Forget a cursor: nothing is kept for it any more."""
        self._call(self._admin.cursor_delete(cursor))
