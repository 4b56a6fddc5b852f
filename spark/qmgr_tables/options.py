"""The options of `spark.read.format("qmgr")`, checked.

table             messages: which table, see qmgr_tables.tables.registry
path              required: a snapshot, a directory of snapshots, a pattern with * ? [], or
                  several of these with commas between them; load([..., ...]) does as well
queues            names of queues, with commas between them; without it all of them
queuesPattern     a regular expression that the whole name of a queue must match
states            ready, delayed, transmission, damaged, with commas between them; without it all
since, until      from when on, and before when: 2024-05-01, 2024-05-01T12:30:00Z, or seconds since
                  1970; which column that is says the table. A row without a time is left out then
includePayload    true; false leaves bodies out (their sizes are always there)
maxBodyBytes      no limit; longer bodies are left out
rowsPerPartition  250000: about so many rows become one partition
minPartitions     1: at least so many partitions, if there are rows enough
verify            true: compares each data file with its checksum first, which takes a second or
                  two per GB; false trusts the disk
onDamaged         fail; skip leaves out snapshots that are missing, damaged or of a newer format,
                  with a warning; table snapshots has a row of each of them

stagingDirectory  where executors keep copies of snapshots that path names by URL; without it a
                  directory of the user's own among the temporary files
stagingMaxBytes   68719476736: the most that all copies there take; those that were not used for
                  longest go

A table refuses what would keep rows away elsewhere, and it has no column for. What says how to
read, and not what, any table takes.
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
# Kinds of queues whose messages are in the order of arrival: their rank there says no priority.
UNRANKED = frozenset((TRANSMISSION, "publications"))
_NO_LIMIT = 2**63 - 1
_FLAGS = {"true": True, "false": False}
_ON_DAMAGED = {"fail": False, "skip": True}


class OptionInvalid(ValueError):
    """An option that is missing, not known or out of range."""


class Options(NamedTuple):
    """What a reader is asked for."""

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
    filters: Filters = Filters()  # what the query asks, beside what its options do
    staging: Staging = DEFAULT_STAGING

    def wants_state(self, state: str) -> bool:
        """Returns whether messages in that *state* are to be read."""
        return self.filters.allows("states", state) and (not self.states or state in self.states)

    def wants_time(self, time_us: int | None) -> bool:
        """Returns whether a row of that time is to be read, which may be unknown."""
        return is_within(time_us, *self.span_us)

    @property
    def span_us(self) -> tuple[int | None, int | None]:
        """From when on, and before when rows are to be read."""
        filters = self.filters
        return later(self.since_us, filters.since_us), earlier(self.until_us, filters.until_us)

    def wants_row(self, state: str, time_us: int | None) -> bool:
        """Returns whether a message in that *state*, of that time, is to be read."""
        return self.wants_state(state) and self.wants_time(time_us)

    def wants(self, queue: str) -> bool:
        """Returns whether the messages of *queue* are to be read."""
        if self.queues and queue not in self.queues:
            return False
        if not self.filters.allows("queues", queue):
            return False
        return not self.queues_pattern or _matches(self.queues_pattern, queue)


def parse(given: Mapping[str, str]) -> Options:
    """Returns *given*, whose keys are spelled in any case, as options.

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
        raise OptionInvalid("option until: it is not after since; nothing lies between them")
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
    """Returns what is to be read; Spark passes a list given to load() as a JSON text."""
    found = tuple(part for part in [path, *json.loads(several)] if part.strip())
    if not found:
        raise OptionInvalid(
            'option path is missing; name a snapshot: .option("path", "/directory/of/it")'
        )
    return found


def _table(text: str) -> "Table":
    from qmgr_tables.tables.registry import TABLES  # which know the options, too

    name = text.strip().lower()
    if name in TABLES:
        return TABLES[name]
    near = get_close_matches(name, TABLES, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(TABLES)}"
    raise OptionInvalid(f"option table: {text[:80]!r} is no table; {hint}")


def _check_takes(table: "Table", values: Mapping[str, str]) -> None:
    """Raises OptionInvalid where rows are to be kept away by what *table* does not know."""
    from qmgr_tables.table import QUEUES, STATES, TIMES

    for name in (*QUEUES, *STATES, *TIMES):
        if name in values and name not in table.takes:
            known = f", but takes {', '.join(table.takes)}" if table.takes else ""
            raise OptionInvalid(
                f"option {name}: table {table.name} has nothing to hold it against{known}; "
                "leave it out, or use WHERE"
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
        raise OptionInvalid(f"option states: {name[:80]!r} is no state of a message; {hint}")
    return found


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionInvalid(
            f"option queuesPattern: {text[:80]!r} is no regular expression: {error}; "
            "write for example FLIGHTS.*"
        ) from None
    return text


@lru_cache(maxsize=10_000)
def _matches(pattern: str, queue: str) -> bool:
    """Returns whether all of *queue* matches.

    RE2 takes no longer for (a+)+b than for a+b. What it does not know, as (?!SYSTEM), goes to re.
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
