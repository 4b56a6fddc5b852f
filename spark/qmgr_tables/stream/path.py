"""A source of a stream: a directory of snapshots, and the history that each snapshot contains."""

import logging
import time
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa

from qmgr_tables.options import Options
from qmgr_tables.stream.connection import RETRY_MS, DataLost
from qmgr_tables.stream.options import StreamOptions
from qmgr_tables.stream.source import Offsets, StreamPart
from qmgr_tables.tables.history import Span, batches_of, cut, data_rows, rows_per_partition, spans
from qmgr_tables.tables.history_batch import HistorySource, events_in
from qmgrd.snapshot.finder import SnapshotUnreadable, find, verify

log = logging.getLogger(__name__)


class SpanPart(NamedTuple):
    """Rows of history from one snapshot."""

    span: Span

    def read(self, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields the events of the rows. Their snapshot_id is null."""
        source = HistorySource(self.span.snapshot.queue_manager, self.span.store_id)
        yield from batches_of(self.span, source, options, schema)


class Snapshots:
    """The histories in snapshots, including later snapshots, as a source."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._spans: list[Span] = []  # spans that cover each row of history once
        # pairs of (directory, id) of the known snapshots
        self._seen: tuple[tuple[str, str], ...] = ()

    def begin(self) -> Offsets:
        """Returns the start of the stream.

        Spark does not store the start. Spark requests the start again if it reads the first batch
        again, and "latest" would then have another result. With "latest", the position is therefore
        part of the end of the first batch.
        """
        if self._options.from_latest:
            return {}
        self._look()
        return {span.store_id: self._first(span) - 1 for span in self._spans}

    def lasts(self) -> Offsets:
        """Returns the last row of history of each store."""
        self._look()
        # The stops of a store's spans are in ascending order.
        return {span.store_id: span.stop - 1 for span in self._spans}

    def ends(self, start: Offsets, *, wait: bool) -> Offsets:
        """Returns the end positions of the history that can be read now. See source.py."""
        if not start and self._options.from_latest:
            return self.lasts()
        self._look()
        found = dict(start)
        for span in self._spans:
            if span.store_id in start:
                found[span.store_id] = max(start[span.store_id], span.stop - 1)
            else:
                found[span.store_id] = self._first(span) - 1
        return found

    def sizes(self, name: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yields the number, the events and the bytes of each row."""
        for span in self._between(name, after, until):
            for seq, data in data_rows(span):
                yield seq, events_in(data), len(data)

    def parts(self, start: Offsets, end: Offsets, options: Options) -> list[StreamPart]:
        """Returns parts that cover each row after *start* up to *end* once."""
        if not self._spans:
            self._look()
        found = [
            span
            for store_id, until in sorted(end.items())
            if start.get(store_id, until) < until
            for span in self._between(store_id, start[store_id], until)
        ]
        if options.verify:
            for span in found:
                verify(span.snapshot)
        length = rows_per_partition(sum(span.stop - span.first for span in found), options)
        return [
            SpanPart(span._replace(first=first, stop=stop))
            for span in found
            for first, stop in cut(span.first, span.stop, length)
        ]

    def commit(self, end: Offsets) -> None:
        """Does nothing, because the stream does not delete snapshots."""

    def close(self) -> None:
        """Does nothing, because data files stay open for the next reader."""

    def _first(self, span: Span) -> int:
        return min(one.first for one in self._spans if one.store_id == span.store_id)

    def _look(self) -> None:
        """Finds the snapshots. Retries if a snapshot is removed in the meantime."""
        until_s = time.monotonic() + self._options.wait_ms / 1_000
        while True:
            try:
                snapshots = find(self._options.of.paths, self._options.of.staging)
                seen = tuple((snapshot.directory, snapshot.id) for snapshot in snapshots)
                if seen != self._seen:
                    self._spans = spans(snapshots)
                    self._seen = seen
                return
            except SnapshotUnreadable:
                if time.monotonic() >= until_s:
                    raise
            time.sleep(RETRY_MS / 1_000)

    def _between(self, store_id: str, after: int, until: int) -> list[Span]:
        """Returns spans with the rows after *after* up to *until*, in order.

        Raises:
            DataLost: No snapshot has some of the rows.
        """
        found = []
        expected = after + 1
        for span in self._spans:
            first, stop = max(span.first, after + 1), min(span.stop, until + 1)
            if span.store_id == store_id and first < stop:
                if first > expected:
                    self._lose(store_id, expected, first - 1)
                found.append(span._replace(first=first, stop=stop))
                expected = stop
        if expected <= until:
            self._lose(store_id, expected, until)
        return found

    def _lose(self, store_id: str, first: int, last: int) -> None:
        why = (
            f"{', '.join(self._options.of.paths)}: rows {first} to {last} of the history of store "
            f"{store_id} are in no snapshot: take snapshots more often, or keep more "
            f"history; to skip the missing rows, use failOnDataLoss=false"
        )
        if not self._options.skip_lost:
            raise DataLost(why)
        log.warning("qmgr: %s", why)
