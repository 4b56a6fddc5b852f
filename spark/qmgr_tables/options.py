"""The options of `spark.read.format("qmgr")`, checked.

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

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from qmgr_tables import instant
from qmgr_tables.filters import Filters, earlier, is_within, later

if TYPE_CHECKING:
    from qmgr_tables.table import Table

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
_NO_LIMIT = 2**63 - 1
_FLAGS = {"true": True, "false": False}
_ON_DAMAGED = {"fail": False, "skip": True}


class OptionInvalid(ValueError):
    """An option is missing, unknown or out of range."""


class Options(NamedTuple):
    """The options of a reader."""

    paths: tuple[str, ...]
    queues: frozenset[str] = frozenset()  # none means all
    queues_pattern: str = ""
    include_body: bool = True
    max_body_bytes: int = _NO_LIMIT
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


def parse(given: Mapping[str, str]) -> Options:
    """Returns the options in *given*, whose keys may have any case.

    Raises:
        OptionInvalid: which option, what is wrong with it, what to write.
    """
    known = {name.lower(): name for name in NAMES}
    values = {}
    for key, value in given.items():
        if key.lower() not in known:
            near = get_close_matches(key.lower(), known, 1)
            hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(NAMES)}"
            raise OptionInvalid(f"option {key[:80]!r} is not known; {hint}")
        values[known[key.lower()]] = value
    table = _table(values.get("table", "messages"))
    _check_takes(table, values)
    queues = values.get("queues", "")
    since_us, until_us = _instant(values, "since"), _instant(values, "until")
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise OptionInvalid("option until: it is not after since")
    return Options(
        paths=_paths(values.get("path", ""), values.get("paths", "[]")),
        queues=frozenset(name.strip() for name in queues.split(",") if name.strip()),
        queues_pattern=_pattern(values.get("queuesPattern", "")),
        include_body=_flag("includePayload", values.get("includePayload", "true")),
        max_body_bytes=_number(values, "maxBodyBytes", 0, _NO_LIMIT, _NO_LIMIT),
        rows_per_partition=_number(values, "rowsPerPartition", 1, _NO_LIMIT, ROWS_PER_PARTITION),
        min_partitions=_number(values, "minPartitions", 1, PARTITIONS_MAX, 1),
        verify=_flag("verify", values.get("verify", "true")),
        states=_states(values.get("states", "")),
        table=table.name,
        since_us=since_us,
        until_us=until_us,
        skip_damaged=_word("onDamaged", values.get("onDamaged", "fail"), _ON_DAMAGED),
        staging=Staging(
            values.get("stagingDirectory", ""),
            _number(values, "stagingMaxBytes", 1, _NO_LIMIT, DEFAULT_STAGING.bytes_max),
        ),
    )


def _paths(path: str, several: str) -> tuple[str, ...]:
    """Returns the paths to read; Spark passes a list given to load() as a JSON text."""
    found = tuple(part for part in [path, *json.loads(several)] if part.strip())
    if not found:
        raise OptionInvalid(
            'option path is missing; name a snapshot: .option("path", "/directory/of/it")'
        )
    return found


def _table(text: str) -> "Table":
    from qmgr_tables.tables.registry import TABLES  # which in turn imports the options

    name = text.strip().lower()
    if name in TABLES:
        return TABLES[name]
    near = get_close_matches(name, TABLES, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(TABLES)}"
    raise OptionInvalid(f"option table: {text[:80]!r} is not a table; {hint}")


def _check_takes(table: "Table", values: Mapping[str, str]) -> None:
    """Raises OptionInvalid if an option selects rows by a column that *table* does not have."""
    from qmgr_tables.table import QUEUES, STATES, TIMES

    for name in (*QUEUES, *STATES, *TIMES):
        if name in values and name not in table.takes:
            known = f", but takes {', '.join(table.takes)}" if table.takes else ""
            raise OptionInvalid(
                f"option {name}: table {table.name} does not support it{known}; "
                f"leave it out, or use WHERE"
            )


def _instant(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    try:
        return instant.parse(text)
    except instant.InstantInvalid as error:
        raise OptionInvalid(f"option {name}: {error}") from None


def _states(text: str) -> frozenset[str]:
    found = frozenset(name.strip().lower() for name in text.split(",") if name.strip())
    for name in sorted(found.difference(STATES)):
        near = get_close_matches(name, STATES, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(STATES)}"
        raise OptionInvalid(f"option states: {name[:80]!r} is not a state of a message; {hint}")
    return found


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionInvalid(
            f"option queuesPattern: {text[:80]!r} is not a regular expression: {error}; "
            "write for example FLIGHTS.*"
        ) from None
    return text


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


def _flag(name: str, text: str) -> bool:
    return _word(name, text, _FLAGS)


def _word(name: str, text: str, known: Mapping[str, bool]) -> bool:
    flag = known.get(text.strip().lower())
    if flag is None:
        words = " or ".join(known)
        raise OptionInvalid(f"option {name}: {text[:80]!r} is not {words}; write one of them")
    return flag


def _number(values: Mapping[str, str], name: str, low: int, high: int, default: int) -> int:
    text = values.get(name)
    if text is None:
        return default
    digits = text.strip()
    if re.fullmatch("[0-9]{1,19}", digits) and low <= int(digits) <= high:
        return int(digits)
    hint = "leave it out" if default == _NO_LIMIT else f"the default is {default}"
    raise OptionInvalid(
        f"option {name}: {text[:80]!r} is not an integer from {low} to {high}; {hint}"
    )
