"""A source of a stream: messages on queues of running queue managers, browsed as they arrive.

Queue managers keep no message for such a stream. The stream contains each message that exists when
the stream reads the queue, and contains it once. A message keeps its arrival number. A new message
never has an arrival number at or below the queue's ``arrived``.
"""

import logging
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

import pyarrow as pa

from qmgr_tables.options import PARTITIONS_MAX, Options
from qmgr_tables.row import Row
from qmgr_tables.stream.access import BY_ENVIRONMENT, Access
from qmgr_tables.stream.connection import DataLost
from qmgr_tables.stream.managers import Managers
from qmgr_tables.stream.options import StreamOptions
from qmgr_tables.stream.queue_feed import NO_QUEUE, QueueExtent, QueueFeed, Queues, arrival_of
from qmgr_tables.stream.source import Offsets, StreamPart
from qmgr_tables.tables.browsed_rows import rows_of
from qmgr_tables.tables.history import cut
from qmgr_tables.tables.messages import BATCH_BYTES, BATCH_ROWS, batch_of, bytes_of

# Number of messages in the first page; a batch may have only a few messages of one queue.
FIRST_PAGE = 16
log = logging.getLogger(__name__)


class Range(NamedTuple):
    """The messages of a queue after arrival *after* up to *until*."""

    queue: str
    queue_id: int
    after: int
    until: int


class Ranges(NamedTuple):
    """Some messages of one queue manager."""

    address: str
    queue_manager: str
    store_id: str
    ranges: tuple[Range, ...]
    wait_ms: int
    access: Access = BY_ENVIRONMENT

    def read(self, options: Options, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields the messages in the ranges that still exist."""
        with QueueFeed(self.address, self.wait_ms, self.access) as feed:
            yield from _batches(self._rows(feed, options), schema)

    def _rows(self, feed: QueueFeed, options: Options) -> Iterator[Row]:
        for queue, queue_id, after, until in self.ranges:
            for page in feed.pages(self.store_id, queue, queue_id, after, until):
                yield from rows_of(page, queue, self.queue_manager, options)


class Browsing:
    """The queues of running queue managers, as a source."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._feeds = {url: QueueFeed(url, options.wait_ms, options.access) for url in options.urls}
        asks = {url: feed.state for url, feed in self._feeds.items()}
        self._managers = Managers(asks, options.wait_ms)
        # end of the first batch with "latest", which the first call determines
        self._latest: Offsets | None = None
        self._warned: set[tuple[str, str]] = set()

    def begin(self) -> Offsets:
        """Returns the start. With "latest", the end of the first batch determines the start."""
        if self._options.from_latest:
            return {}
        return dict.fromkeys(self.lasts(), 0)

    def lasts(self) -> Offsets:
        """Returns the last arrival of each queue. Waits for unavailable queue managers."""
        states = self._managers.states(wait=True)
        return self._begun(states) | {
            _name(state.store_id, queue_id): found.arrived
            for _, state in states
            for queue_id, found in self._wanted(state)
        }

    def ends(self, start: Offsets, *, wait: bool) -> Offsets:
        """Returns the end positions of the queues that can be read now. See source.py."""
        if not start and self._options.from_latest:
            if self._latest is None:
                self._latest = self.lasts()
            return dict(self._latest)
        states = self._managers.states(wait=wait)
        met = {state.store_id for _, state in states}
        found = {name: at for name, at in start.items() if _parts(name)[0] not in met}
        if found and not self._managers.away:
            self._lose(
                f"{', '.join(self._options.urls)}: none of these has store {_parts(min(found))[0]} "
                "any more: name the address of its queue manager, or start again with a new "
                "checkpoint"
            )
        for url, state in states:
            self._warn(url, state)
            for queue_id, extent in state.queues.items():
                name = _name(state.store_id, queue_id)
                if not self._options.of.wants(extent.queue):
                    if name in start:  # A later query may select the queue again.
                        found[name] = start[name]
                    continue
                if extent.arrived < start.get(name, 0):
                    self._lose(
                        f"{url}: queue {extent.queue} was read up to arrival {start[name]}, "
                        f"but ends at {extent.arrived}: the store was restored to an earlier "
                        "state; start again with a new checkpoint, or continue with "
                        "failOnDataLoss=false"
                    )
                found[name] = extent.arrived if name in start else 0
        return found | self._begun(states)

    def sizes(self, name: str, after: int, until: int) -> Iterator[tuple[int, int, int]]:
        """Yields the arrival, 1, and the bytes of each message."""
        store_id, queue_id = _parts(name)
        url, state = self._managers.find(store_id)
        if queue_id in state.queues:
            queue = state.queues[queue_id].queue
            feed = self._feeds[url]
            for page in feed.pages(store_id, queue, queue_id, after, until, FIRST_PAGE):
                for item in page.items:
                    yield arrival_of(item), 1, len(item)
        yield until, 0, 0

    def parts(self, start: Offsets, end: Offsets, options: Options) -> list[StreamPart]:
        """Returns parts that cover each existing message after *start* up to *end* once."""
        by_store: dict[str, list[Range]] = {}
        for name, until in sorted(end.items()):
            if start.get(name, until) < until:
                store_id, queue_id = _parts(name)
                by_store.setdefault(store_id, []).extend(
                    self._there(store_id, queue_id, start[name], until)
                )
        count = sum(one.until - one.after for ranges in by_store.values() for one in ranges)
        length = min(options.rows_per_partition, count // options.min_partitions)
        length = max(length, -(-count // PARTITIONS_MAX), 1)
        found: list[StreamPart] = []
        for store_id, ranges in by_store.items():
            url, state = self._managers.find(store_id)
            pieces = (piece for one in ranges for piece in self._pieces(store_id, one, length))
            found += [
                Ranges(
                    url,
                    state.queue_manager,
                    store_id,
                    some,
                    self._options.wait_ms,
                    self._options.access,
                )
                for some in _bundles(pieces, length)
            ]
        return found

    def commit(self, end: Offsets) -> None:
        """Does nothing, because no message is kept for a stream."""

    def close(self) -> None:
        """Closes the connections."""
        for feed in self._feeds.values():
            feed.close()

    def _warn(self, url: str, state: Queues) -> None:
        """Warns once for each queue that the options name but the stream does not read."""
        for queue in sorted(self._options.of.queues & state.others.keys()):
            if (url, queue) not in self._warned:
                self._warned.add((url, queue))
                log.warning(
                    "qmgr: %s: queue %s is not streamed, because its kind is %s: name local queues",
                    url,
                    queue,
                    state.others[queue],
                )

    def _begun(self, states: list[tuple[str, Queues]]) -> Offsets:
        """Returns a mark per store for a stream that starts at the latest position.

        With the marks, the stream always has an offset. Even if a store has no queue at that time,
        a stream that continues from its checkpoint reads later queues from their start.
        """
        if not self._options.from_latest:
            return {}
        return {_name(state.store_id, NO_QUEUE): 0 for _, state in states}

    def _wanted(self, state: Queues) -> list[tuple[int, QueueExtent]]:
        return [
            (queue_id, extent)
            for queue_id, extent in state.queues.items()
            if self._options.of.wants(extent.queue)
        ]

    def _pieces(self, store_id: str, one: Range, length: int) -> Iterator[Range]:
        """Yields *one* in pieces of at most *length* arrivals. Omits empty pieces."""
        left: Range | None = one
        while left is not None:
            _, stop = next(cut(left.after + 1, left.until + 1, length))
            yield left._replace(until=stop - 1)
            left = next(self._there(store_id, one.queue_id, stop - 1, one.until), None)

    def _there(self, store_id: str, queue_id: int, after: int, until: int) -> Iterator[Range]:
        """Yields the range from the first existing message on, or nothing if no message exists."""
        url, state = self._managers.find(store_id)
        if queue_id in state.queues:
            queue = state.queues[queue_id].queue
            pages = self._feeds[url].pages(store_id, queue, queue_id, after, until, messages_max=1)
            for page in islice(pages, 1):
                yield Range(queue, queue_id, arrival_of(page.items[0]) - 1, until)

    def _lose(self, why: str) -> None:
        if not self._options.skip_lost:
            raise DataLost(why)
        log.warning("qmgr: %s", why)


def _name(store_id: str, queue_id: int) -> str:
    return f"{store_id}/{queue_id}"


def _parts(name: str) -> tuple[str, int]:
    store_id, _, queue_id = name.partition("/")
    if not queue_id.isdecimal():
        raise DataLost(
            f"the checkpoint has {name[:80]!r}, which is not a queue: it belongs to a stream of "
            "another table; choose another checkpointLocation"
        )
    return store_id, int(queue_id)


def _bundles(ranges: Iterable[Range], length: int) -> Iterator[tuple[Range, ...]]:
    """Yields bundles of *ranges* with at most *length* arrivals each.

    No range may be longer than *length*.
    """
    held: list[Range] = []
    size = 0
    for one in ranges:
        arrivals = one.until - one.after
        if held and size + arrivals > length:
            yield tuple(held)
            held, size = [], 0
        held.append(one)
        size += arrivals
    if held:
        yield tuple(held)


def _batches(found: Iterable[Row], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yields batches of rows with about BATCH_BYTES bytes and at most BATCH_ROWS rows."""
    held: list[Row] = []
    size = 0
    for row in found:
        held.append(row)
        size += bytes_of(row)
        if size >= BATCH_BYTES or len(held) == BATCH_ROWS:
            yield batch_of(held, schema)
            held, size = [], 0
    if held:
        yield batch_of(held, schema)
