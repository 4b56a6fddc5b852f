"""A source of a stream: running queue managers, each with an export cursor for this stream."""

import logging
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tables.options import Options
from qmgr_tables.stream.access import BY_ENVIRONMENT, Access
from qmgr_tables.stream.connection import DataLost, ManagerAway
from qmgr_tables.stream.history_feed import HistoryFeed, State
from qmgr_tables.stream.managers import Managers
from qmgr_tables.stream.options import StreamOptions
from qmgr_tables.stream.source import Offsets, StreamPart
from qmgr_tables.tables.history import cut, rows_per_partition, wants
from qmgr_tables.tables.history_batch import HistorySource, batches, events_in

ANEW = "start again with a new checkpoint and cursor, or continue with failOnDataLoss=false"
log = logging.getLogger(__name__)


class RowRange(NamedTuple):
    """Rows of history after *after* up to *until*, which a queue manager keeps."""

    address: str
    queue_manager: str
    store_id: str
    after: int
    until: int
    wait_ms: int
    skip_lost: bool
    access: Access = BY_ENVIRONMENT

    def read(self, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields the events of the rows."""
        source = HistorySource(self.queue_manager, self.store_id)
        with HistoryFeed(
            self.address, self.wait_ms, skip_lost=self.skip_lost, access=self.access
        ) as feed:
            rows = feed.rows(self.store_id, self.after, self.until)
            yield from batches(rows, source, schema, partial(wants, options))


class Histories:
    """The histories of running queue managers, as a source."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._feeds = {
            url: HistoryFeed(
                url, options.wait_ms, skip_lost=options.skip_lost, access=options.access
            )
            for url in options.urls
        }
        asks = {url: feed.state for url, feed in self._feeds.items()}
        self._managers = Managers(asks, options.wait_ms)
        self._committed: Offsets = {}

    def begin(self) -> Offsets:
        """Returns the start of the stream. The cursors keep the history from this position on."""
        return {
            state.store_id: self._new(url, state) for url, state in self._managers.states(wait=True)
        }

    def lasts(self) -> Offsets:
        """Returns the last row of history of each store. Waits for unavailable queue managers."""
        return {state.store_id: state.last for _, state in self._managers.states(wait=True)}

    def ends(self, start: Offsets, *, wait: bool) -> Offsets:
        """Returns the end positions of the history that can be read now. See source.py."""
        if any("/" in name for name in start):
            raise DataLost(
                f"the checkpoint has {next(iter(start))[:80]!r}, which is not a "
                f"history: it belongs to a stream of messages; choose another checkpointLocation"
            )
        found, met = dict(start), set()
        for url, state in self._managers.states(wait=wait):
            store_id = state.store_id
            met.add(store_id)
            if store_id not in start:
                found[store_id] = self._new(url, state)
                continue
            self._check_line(url, state, start[store_id])
            self._keep(url, state, start[store_id])
            found[store_id] = state.last
        missing = sorted(start.keys() - met)
        if missing and not self._managers.away:
            self._lose(
                f"{', '.join(self._options.urls)}: none of these has store {missing[0]} any "
                f"more: name the address of its queue manager, or {ANEW}"
            )
        return found

    def sizes(self, name: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yields the number, the events and the bytes of each row."""
        url, _ = self._managers.find(name)
        for seq, data in self._feeds[url].rows(name, after, until):
            yield seq, events_in(data), len(data)

    def parts(self, start: Offsets, end: Offsets, options: Options) -> list[StreamPart]:
        """Returns parts that cover each row after *start* up to *end* once."""
        wanted = {
            store_id: (start[store_id], until)
            for store_id, until in sorted(end.items())
            if start.get(store_id, until) < until
        }
        length = rows_per_partition(sum(until - after for after, until in wanted.values()), options)
        found: list[StreamPart] = []
        for store_id, (after, until) in wanted.items():
            url, state = self._managers.find(store_id)
            self._keep(url, state, after)
            found += [
                RowRange(
                    url,
                    state.queue_manager,
                    store_id,
                    first - 1,
                    stop - 1,
                    self._options.wait_ms,
                    self._options.skip_lost,
                    self._options.access,
                )
                for first, stop in cut(after + 1, until + 1, length)
            ]
        return found

    def commit(self, end: Offsets) -> None:
        """Moves the cursors. If a move fails, the next commit repeats it."""
        for store_id, position in end.items():
            url, _ = self._managers.at.get(store_id, ("", None))
            if (
                self._committed.get(store_id, -1) >= position
                or not url
                or url in self._managers.away
            ):
                continue
            try:
                self._feeds[url].commit(self._options.cursor, position, 0)
            except (ManagerAway, RequestError) as error:
                log.warning(
                    "qmgr: cursor %s could not be moved yet: %s", self._options.cursor, error
                )
            else:
                self._committed[store_id] = position

    def close(self) -> None:
        """Closes the connections."""
        for feed in self._feeds.values():
            feed.close()

    def _new(self, url: str, state: State) -> int:
        """Returns the start in a store that is new to the stream.

        Keeps the rows after the start.
        """
        cursor = self._options.cursor
        while cursor not in state.cursors:
            position = state.last if self._options.from_latest else state.first - 1
            try:
                self._feeds[url].commit(cursor, position)
            except RequestError as error:
                if error.code != ErrorCode.HISTORY_DROPPED:
                    raise
            # The limit of the history may have removed rows in the meantime.
            state = self._feeds[url].state()
        self._managers.at[state.store_id] = url, state
        return max(state.cursors[cursor], state.first - 1)

    def _keep(self, url: str, state: State, after: int) -> None:
        """Creates the cursor again if it was deleted."""
        cursor, feed = self._options.cursor, self._feeds[url]
        if cursor in state.cursors:
            return
        log.warning("qmgr: %s: cursor %s does not exist; creating it again", url, cursor)
        try:
            feed.commit(cursor, after)
        except RequestError as error:
            self._lose(f"{url}: {error}")
            feed.commit(cursor, feed.state().first - 1)
        self._managers.at[state.store_id] = url, feed.state()

    def _check_line(self, url: str, state: State, after: int) -> None:
        """Raises DataLost if the history differs from the history that was read up to *after*."""
        if state.last < after:
            self._lose(
                f"{url}: history was read up to row {after}, but ends with row "
                f"{state.last}: the store was restored to an earlier state; {ANEW}"
            )
        elif state.first > after + 1:
            self._lose(
                f"{url}: rows {after + 1} to {state.first - 1} of history were deleted; {ANEW}"
            )
        position = state.cursors.get(self._options.cursor)
        if position is not None and position < self._committed.get(state.store_id, 0):
            self._committed.pop(state.store_id)
            self._lose(
                f"{url}: cursor {self._options.cursor} moved back to row {position}: "
                f"the store was restored to an earlier state; {ANEW}"
            )

    def _lose(self, why: str) -> None:
        if not self._options.skip_lost:
            raise DataLost(why)
        log.warning("qmgr: %s", why)
