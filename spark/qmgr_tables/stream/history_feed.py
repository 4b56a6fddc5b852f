"""The history of a running queue manager, read over its protocol by streams and exports.

    with HistoryFeed("127.0.0.1:7470", wait_ms=60_000) as feed:
        state = feed.state()
        for seq, data in feed.rows(state.store_id, after=0, until=state.next - 1):
            ...
        feed.commit("lake", state.next - 1)

Interrupted requests are sent again. This is safe, because a cursor only moves forward.
"""

import logging
from collections.abc import Iterator
from typing import NamedTuple

from qmgr_client.manager_rows import HistoryPage
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tables.stream.access import BY_ENVIRONMENT, Access
from qmgr_tables.stream.connection import Connection, DataLost

PAGE_BYTES = 1 << 20
log = logging.getLogger(__name__)


class State(NamedTuple):
    """The state of a history, which has the rows from first up to next (exclusive)."""

    queue_manager: str
    store_id: str
    first: int
    next: int
    # Number of the last row that a cursor no longer needs, by name of the cursor.
    cursors: dict[str, int]

    @property
    def last(self) -> int:
        """Returns the number of the last row."""
        return self.next - 1


class HistoryFeed(Connection):
    """The history of one queue manager."""

    def __init__(
        self,
        address: str,
        wait_ms: int,
        *,
        skip_lost: bool = False,
        access: Access = BY_ENVIRONMENT,
    ) -> None:
        """Prepares requests to the queue manager at *address*. The first request connects.

        Args:
            wait_ms: The time to wait for an unavailable queue manager.
            skip_lost: Whether lost rows are skipped with a warning instead of an error.
            access: How to log in, and how to check the certificate.
        """
        super().__init__(address, wait_ms, "qmgr history", access)
        self._skip_lost = skip_lost

    def state(self, wait_ms: int | None = None) -> State:
        """Returns the current state of the history.

        Args:
            wait_ms: The time to wait. None means the wait_ms of the feed.

        Raises:
            ManagerAway: The queue manager does not answer.
        """
        row = self.ask(lambda client: client.admin.history_show(), wait_ms)
        cursors = {cursor["cursor"]: cursor["position"] for cursor in row["cursors"]}
        return State(row["manager"], row["store_id"], row["first"], row["next"], cursors)

    def commit(self, cursor: str, position: int, wait_ms: int | None = None) -> int:
        """Moves *cursor* to *position*. All rows up to *position* are exported.

        Returns the new position of the cursor.

        Raises:
            ManagerAway: The queue manager does not answer.
            RequestError: HISTORY_DROPPED or CURSORS_EXHAUSTED for a new cursor; HISTORY_AHEAD.
        """
        row = self.ask(lambda client: client.admin.cursor_commit(cursor, position), wait_ms)
        return int(row["position"])

    def rows(self, store_id: str, after: int, until: int) -> Iterator[tuple[int, bytes]]:
        """Yields the number and the bytes of each row after *after* up to and including *until*.

        Raises:
            ManagerAway: The queue manager does not answer.
            DataLost: The queue manager has a different store, or a row is missing.
        """
        while after < until:
            try:
                page = self._page(store_id, after, until)
            except RequestError as error:
                after = self._passed(error, after, until)
                continue
            for seq, data in page["rows"]:
                if seq != after + 1:
                    self._lost(f"row {after + 1} of history is missing", after + 1, seq - 1)
                yield seq, data
                after = seq
            if not page["rows"]:
                self._lost(f"row {after + 1} of history is missing", after + 1, until)
                after = until

    def _page(self, store_id: str, after: int, until: int) -> HistoryPage:
        page = self.ask(lambda client: client.admin.history_read(after, until, PAGE_BYTES))
        if page["store_id"] != store_id:
            raise DataLost(
                f"{self.address} has store {page['store_id']} of "
                f"{page['manager']}, not {store_id}: "
                "name the address of that store, or start again with a new checkpoint and cursor"
            )
        return page

    def _passed(self, error: RequestError, after: int, until: int) -> int:
        """Returns the row after which to continue if the row after *after* cannot be read."""
        if error.code == ErrorCode.HISTORY_DROPPED:
            last = min(max(self.state().first - 1, after + 1), until)
        elif error.code == ErrorCode.STORE_DAMAGED:
            last = after + 1  # A page ends before a damaged row.
        elif error.code == ErrorCode.HISTORY_AHEAD:
            last = until
        else:
            raise error
        self._lost(str(error), after + 1, last)
        return last

    def _lost(self, why: str, first: int, last: int) -> None:
        """Warns about skipped rows, or raises DataLost."""
        if not self._skip_lost:
            raise DataLost(f"{self.address}: rows {first} to {last} of history: {why}")
        log.warning(
            "qmgr: %s: skipped rows %d to %d of history: %s", self.address, first, last, why
        )
