"""The options of `spark.read.format("qmgr")`.

    table             messages: the table, see qmgr_tables.tables.registry
    path              required: a snapshot, a directory of snapshots, a pattern with * ? [], or
                      several of these, separated by commas; load([..., ...]) works as well
    queues            names of queues, separated by commas; default: all
    queuesPattern     a regular expression that must match the whole name of a queue
    states            ready, delayed, transmission, damaged, separated by commas; default: all
    since, until      the start and the end (exclusive) of a time range: 2024-05-01,
                      2024-05-01T12:30:00Z, or seconds since 1970. The table determines the column.
                      Rows without a time are skipped
    includePayload    true; false omits bodies, but not their sizes
    maxBodyBytes      the size above which bodies are omitted; default: no limit
    rowsPerPartition  250000: the approximate number of rows in a partition
    minPartitions     1: the minimum number of partitions, if there are enough rows
    verify            true: compares each data file with its checksum first, which takes one or
                      two seconds per GB; false skips this check
    onDamaged         fail; skip ignores snapshots that are missing, damaged or of a newer
                      format, with a warning; table snapshots has a row for each of them

    stagingDirectory  the directory in which executors keep copies of snapshots that path names
                      by URL; default: a private directory of the user in the directory of
                      temporary files
    stagingMaxBytes   68719476736: the maximum size of all copies; the least recently used copies
                      are deleted

A table rejects options that select rows by a column that it does not have. Every table accepts the
options that only control the reading.
"""

import re
from functools import lru_cache
from typing import NamedTuple

from qmgr_tables.filters import Filters, earlier, is_within, later
from qmgrd.snapshot.finder import DEFAULT_STAGING, Staging

NAMES = (
    "table",
    "path",
    "paths",
    "queues",
    "queuesPattern",
    "includePayload",
    "maxBodyBytes",
    "rowsPerPartition",
    "minPartitions",
    "states",
    "verify",
    "since",
    "until",
    "onDamaged",
    "stagingDirectory",
    "stagingMaxBytes",
)
ROWS_PER_PARTITION = 250_000
PARTITIONS_MAX = 100_000
READY, DELAYED, TRANSMISSION, DAMAGED, PARKED, PUBLICATION = STATES = (
    "ready",
    "delayed",
    "transmission",
    "damaged",
    "parked",
    "publication",
)
# Kinds of queues whose messages are in the order of arrival. On these queues, the rank is not the
# priority.
UNRANKED = frozenset((TRANSMISSION, "publications"))
NO_LIMIT = 2**63 - 1


class OptionInvalid(ValueError):
    """An option is missing, unknown or out of range."""


class Options(NamedTuple):
    """The options of a reader."""

    paths: tuple[str, ...]
    queues: frozenset[str] = frozenset()  # names; empty for all queues
    queues_pattern: str = ""
    include_body: bool = True
    max_body_bytes: int = NO_LIMIT
    rows_per_partition: int = ROWS_PER_PARTITION
    min_partitions: int = 1
    verify: bool = True
    states: frozenset[str] = frozenset()  # states; empty for all states
    table: str = "messages"
    since_us: int | None = None  # start of the time range, inclusive
    until_us: int | None = None  # end of the time range, exclusive
    skip_damaged: bool = False
    filters: Filters = Filters()  # conditions of the query, in addition to the options
    staging: Staging = DEFAULT_STAGING

    def wants_state(self, state: str) -> bool:
        """Returns whether the query reads messages in *state*."""
        return self.filters.allows("states", state) and (not self.states or state in self.states)

    def wants_time(self, time_us: int | None) -> bool:
        """Returns whether the query reads a row with this time. None means an unknown time."""
        return is_within(time_us, *self.span_us)

    @property
    def span_us(self) -> tuple[int | None, int | None]:
        """Returns the time range of the rows to read."""
        filters = self.filters
        return later(self.since_us, filters.since_us), earlier(self.until_us, filters.until_us)

    def wants_row(self, state: str, time_us: int | None) -> bool:
        """Returns whether the query reads a message in *state* with this time."""
        return self.wants_state(state) and self.wants_time(time_us)

    def wants(self, queue: str) -> bool:
        """Returns whether the query reads the messages of *queue*."""
        if self.queues and queue not in self.queues:
            return False
        if not self.filters.allows("queues", queue):
            return False
        return not self.queues_pattern or _matches(self.queues_pattern, queue)


@lru_cache(maxsize=10_000)
def _matches(pattern: str, queue: str) -> bool:
    """Returns whether *pattern* matches the whole name of *queue*.

    RE2 is as fast for (a+)+b as for a+b. Python's re is used for patterns that RE2 does not
    support, such as (?!SYSTEM).
    """
    # A top-level import would cost time, because Spark imports this module in every worker.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        found = pc.match_substring_regex(pa.scalar(queue), rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid:
        return bool(re.fullmatch(pattern, queue))
    return bool(found.as_py())
