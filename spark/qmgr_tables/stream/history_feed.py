"""History of a queue manager that runs, over its protocol: what streams and exports read.

    with HistoryFeed("127.0.0.1:7470", wait_ms=60_000) as feed:
        state = feed.state()
        for seq, data in feed.rows(state.store_id, after=0, until=state.next - 1):
            ...
        feed.commit("lake", state.next - 1)

What was under way when a queue manager went away is asked again: a cursor goes nowhere but on.
"""

import logging
from collections.abc import Iterator
from typing import NamedTuple

from qmgr_client.manager_rows import HistoryPage
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tables.stream.line import DataLost, Line

PAGE_BYTES = 1 << 20
log = logging.getLogger(__name__)


class State(NamedTuple):
    """Where a journal stands: it has the rows first up to next, exclusive."""

    queue_manager: str
    store_id: str
    first: int
    next: int
    cursors: dict[str, int]  # name: the last row that it needs no more

    @property
    def last(self) -> int:
        """The last row that there is."""
        return self.next - 1


class HistoryFeed(Line):
    """The history of one queue manager."""

    def __init__(self, address: str, wait_ms: int, *, skip_lost: bool = False) -> None:
        """Asks the queue manager at *address*; connects once it is asked something.

        Args:
            wait_ms: how long a queue manager is waited for that is away.
            skip_lost: whether rows that are gone are passed over with a warning, instead of
                DataLost.
        """
        super().__init__(address, wait_ms, "qmgr history")
        self._skip_lost = skip_lost

    def state(self, wait_ms: int | None = None) -> State:
        """Returns where the journal stands now.

        Args:
            wait_ms: None waits as long as the feed does.

        Raises:
            ManagerAway: nobody answers.
        """
        row = self.ask(lambda client: client.admin.history_show(), wait_ms)
        cursors = {cursor["cursor"]: cursor["position"] for cursor in row["cursors"]}
        return State(row["manager"], row["store_id"], row["first"], row["next"], cursors)

    def commit(self, cursor: str, position: int, wait_ms: int | None = None) -> int:
        """Have *cursor* say that all up to *position* is exported; return where it stands then.

        Raises:
            ManagerAway: nobody answers.
            RequestError: HISTORY_DROPPED and CURSORS_EXHAUSTED of one that is new, HISTORY_AHEAD.
        """
        row = self.ask(lambda client: client.admin.cursor_commit(cursor, position), wait_ms)
        return int(row["position"])

    def rows(self, store_id: str, after: int, until: int) -> Iterator[tuple[int, bytes]]:
        """Yields number and bytes of each row behind *after* up to and with *until*.

        Raises:
            ManagerAway: nobody answers.
            DataLost: another store is there, or a row is not.
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
                f"{self.address}: store {page['store_id']} of {page['manager']} is there, not "
                f"{store_id}: name the address where that one is, or begin anew with a new "
                "checkpoint and cursor"
            )
        return page

    def _passed(self, error: RequestError, after: int, until: int) -> int:
        """Returns behind which row to go on where the one behind *after* cannot be had."""
        if error.code == ErrorCode.HISTORY_DROPPED:
            last = min(max(self.state().first - 1, after + 1), until)
        elif error.code == ErrorCode.STORE_DAMAGED:
            last = after + 1  # What is asked for ends before a row that is damaged.
        elif error.code == ErrorCode.HISTORY_AHEAD:
            last = until
        else:
            raise error
        self._lost(str(error), after + 1, last)
        return last

    def _lost(self, why: str, first: int, last: int) -> None:
        """Warns of rows that are passed over, or refuse to."""
        if not self._skip_lost:
            raise DataLost(f"{self.address}: rows {first} to {last} of history: {why}")
        log.warning(
            "qmgr: %s: rows %d to %d of history passed over: %s", self.address, first, last, why
        )
