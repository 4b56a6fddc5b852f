"""The options of `spark.read.format("qmgr")`.

    table             messages: the table, see qmgr_tables.tables.registry
    path              required: a snapshot, a directory of snapshots, a pattern with * ? [], or
                      several of these, separated by commas; load([..., ...]) works as well
    queues            names of queues, separated by commas; default: all
    queuesPattern     a regular expression that must match the whole name of a queue
    states            ready, delayed, transmission, damaged, separated by commas; default: all
    since, until      the first time, and the end of the time (exclusive): 2024-05-01,
                      2024-05-01T12:30:00Z, or seconds since 1970; the table determines the column.
                      Rows without a time are then left out
    includePayload    true; false leaves bodies out (their sizes are always included)
    maxBodyBytes      no limit; longer bodies are left out
    rowsPerPartition  250000: the approximate number of rows in a partition
    minPartitions     1: the minimum number of partitions, if there are enough rows
    verify            true: compares each data file with its checksum first, which takes a second
                      or two per GB; false skips that
    onDamaged         fail; skip leaves out snapshots that are missing, damaged or of a newer
                      format, with a warning; the table snapshots has a row for each of them

    stagingDirectory  where executors keep copies of snapshots that path names by URL; default: a
                      private directory of the user among the temporary files
    stagingMaxBytes   68719476736: the maximum size of all copies; the least recently used ones are
                      deleted

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
# Kinds of queues whose messages are in the order of arrival: there the rank is not the priority.
UNRANKED = frozenset((TRANSMISSION, "publications"))
NO_LIMIT = 2**63 - 1


class OptionInvalid(ValueError):
    """An option is missing, unknown or out of range."""


class Options(NamedTuple):
    """The options of a reader."""

    paths: tuple[str, ...]
    queues: frozenset[str] = frozenset()  # none means all
    queues_pattern: str = ""
    include_body: bool = True
    max_body_bytes: int = NO_LIMIT
    rows_per_partition: int = ROWS_PER_PARTITION
    min_partitions: int = 1
    verify: bool = True
    states: frozenset[str] = frozenset()  # none means all
    table: str = "messages"
    since_us: int | None = None  # inclusive
    until_us: int | None = None  # exclusive
    skip_damaged: bool = False
    filters: Filters = Filters()  # the conditions of the query, in addition to the options
    staging: Staging = DEFAULT_STAGING

    def wants_state(self, state: str) -> bool:
        """Returns whether to read messages in that *state*."""
        return self.filters.allows("states", state) and (not self.states or state in self.states)

    def wants_time(self, time_us: int | None) -> bool:
        """Returns whether to read a row of that time, which may be unknown."""
        return is_within(time_us, *self.span_us)

    @property
    def span_us(self) -> tuple[int | None, int | None]:
        """The time range of the rows to read."""
        filters = self.filters
        return later(self.since_us, filters.since_us), earlier(self.until_us, filters.until_us)

    def wants_row(self, state: str, time_us: int | None) -> bool:
        """Returns whether to read a message in that *state*, of that time."""
        return self.wants_state(state) and self.wants_time(time_us)

    def wants(self, queue: str) -> bool:
        """Returns whether to read the messages of *queue*."""
        if self.queues and queue not in self.queues:
            return False
        if not self.filters.allows("queues", queue):
            return False
        return not self.queues_pattern or _matches(self.queues_pattern, queue)


@lru_cache(maxsize=10_000)
def _matches(pattern: str, queue: str) -> bool:
    """Returns whether *pattern* matches all of *queue*.

    RE2 is as fast for (a+)+b as for a+b. Patterns that it does not support, such as (?!SYSTEM), use
    re.
    """
    import pyarrow as pa  # Spark imports this module in every worker.
    import pyarrow.compute as pc

    try:
        found = pc.match_substring_regex(pa.scalar(queue), rf"\A(?:{pattern})\z")
    except pa.ArrowInvalid:
        return bool(re.fullmatch(pattern, queue))
    return bool(found.as_py())
