"""Parses and checks the options of :mod:`qmgr_tables.options`."""

import json
import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from qmgr_tables import instant
from qmgr_tables.options import (
    NAMES,
    NO_LIMIT,
    PARTITIONS_MAX,
    ROWS_PER_PARTITION,
    STATES,
    OptionInvalid,
    Options,
)
from qmgrd.snapshot.finder import DEFAULT_STAGING, Staging

if TYPE_CHECKING:
    from qmgr_tables.table import Table

_FLAGS = {"true": True, "false": False}
_ON_DAMAGED = {"fail": False, "skip": True}


def parse(given: Mapping[str, str]) -> Options:
    """Returns the options in *given*. The case of its keys is ignored.

    Raises:
        OptionInvalid: An option is invalid. The text states the option, the reason and valid
            values.
    """
    known = {name.lower(): name for name in NAMES}
    values = {}
    for key, value in given.items():
        if key.lower() not in known:
            near = get_close_matches(key.lower(), known, 1)
            hint = (
                f"did you mean {known[near[0]]}?" if near else f"the options are {', '.join(NAMES)}"
            )
            raise OptionInvalid(f"option {key[:80]!r} is unknown; {hint}")
        values[known[key.lower()]] = value
    table = _table(values.get("table", "messages"))
    _check_takes(table, values)
    queues = values.get("queues", "")
    since_us, until_us = _instant(values, "since"), _instant(values, "until")
    if since_us is not None and until_us is not None and since_us >= until_us:
        raise OptionInvalid("option until: the time is not after since")
    return Options(
        paths=_paths(values.get("path", ""), values.get("paths", "[]")),
        queues=frozenset(name.strip() for name in queues.split(",") if name.strip()),
        queues_pattern=_pattern(values.get("queuesPattern", "")),
        include_body=_flag("includePayload", values.get("includePayload", "true")),
        max_body_bytes=_number(values, "maxBodyBytes", 0, NO_LIMIT, NO_LIMIT),
        rows_per_partition=_number(values, "rowsPerPartition", 1, NO_LIMIT, ROWS_PER_PARTITION),
        min_partitions=_number(values, "minPartitions", 1, PARTITIONS_MAX, 1),
        verify=_flag("verify", values.get("verify", "true")),
        states=_states(values.get("states", "")),
        table=table.name,
        since_us=since_us,
        until_us=until_us,
        skip_damaged=_word("onDamaged", values.get("onDamaged", "fail"), _ON_DAMAGED),
        staging=Staging(
            values.get("stagingDirectory", ""),
            _number(values, "stagingMaxBytes", 1, NO_LIMIT, DEFAULT_STAGING.bytes_max),
        ),
    )


def _paths(path: str, several: str) -> tuple[str, ...]:
    """Returns the paths to read. Spark passes a list that load() received as JSON."""
    found = tuple(part for part in [path, *json.loads(several)] if part.strip())
    if not found:
        raise OptionInvalid(
            'option path is missing; name a snapshot: .option("path", "/directory/of/snapshot")'
        )
    return found


def _table(text: str) -> "Table":
    from qmgr_tables.tables.registry import TABLES  # The import takes 200 ms.

    name = text.strip().lower()
    if name in TABLES:
        return TABLES[name]
    near = get_close_matches(name, TABLES, 1)
    hint = f"did you mean {near[0]}?" if near else f"the tables are {', '.join(TABLES)}"
    raise OptionInvalid(f"option table: {text[:80]!r} is not a valid table; {hint}")


def _check_takes(table: "Table", values: Mapping[str, str]) -> None:
    """Raises OptionInvalid if an option selects rows by a column that *table* does not have."""
    from qmgr_tables.table import QUEUES, STATES, TIMES

    for name in (*QUEUES, *STATES, *TIMES):
        if name in values and name not in table.takes:
            known = f"; it supports {', '.join(table.takes)}" if table.takes else ""
            raise OptionInvalid(
                f"option {name}: table {table.name} does not support this option{known}; "
                f"omit it, or use WHERE"
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
        hint = f"did you mean {near[0]}?" if near else f"the states are {', '.join(STATES)}"
        raise OptionInvalid(f"option states: {name[:80]!r} is not a valid state; {hint}")
    return found


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise OptionInvalid(
            f"option queuesPattern: {text[:80]!r} is not a valid regular expression: {error}; "
            "use, for example, FLIGHTS.*"
        ) from None
    return text


def _flag(name: str, text: str) -> bool:
    return _word(name, text, _FLAGS)


def _word(name: str, text: str, known: Mapping[str, bool]) -> bool:
    flag = known.get(text.strip().lower())
    if flag is None:
        words = " or ".join(known)
        raise OptionInvalid(f"option {name}: {text[:80]!r} is not a valid value; use {words}")
    return flag


def _number(values: Mapping[str, str], name: str, low: int, high: int, default: int) -> int:
    text = values.get(name)
    if text is None:
        return default
    digits = text.strip()
    if re.fullmatch("[0-9]{1,19}", digits) and low <= int(digits) <= high:
        return int(digits)
    hint = "omit the option for no limit" if default == NO_LIMIT else f"the default is {default}"
    raise OptionInvalid(
        f"option {name}: {text[:80]!r} is not an integer from {low} to {high}; {hint}"
    )
