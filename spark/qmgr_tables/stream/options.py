"""The options of `spark.readStream.format("qmgr")`, parsed and checked.

    url               addresses of queue managers, separated by commas: host:port, /path/of/socket
    path              instead of url: a directory of snapshots, or a pattern
    table             history; with url also messages, which are browsed as they arrive. A message
                      that is consumed before it is browsed is not in the stream
    cursor            required with url for history: the name of an export cursor, which exists in
                      each of the queue managers. Each stream needs its own cursor
    startingOffsets   earliest, or latest to skip existing rows. An existing checkpoint or
                      cursor determines the start instead
    maxRowsPerTrigger, maxBytesPerTrigger
                      the approximate number of rows, or of bytes, in a batch; default: no limit
    failOnDataLoss    true; false continues after lost data, with a warning
    waitMs            120000: the time to wait for an unavailable queue manager, after which the
                      query fails

The options queues, queuesPattern, rowsPerPartition, minPartitions and verify are the same as in
options.py of qmgr_tables. The table messages also accepts states, includePayload and maxBodyBytes.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import NamedTuple

from qmgr_client.address import parse as parse_address
from qmgr_client.errors import AddressInvalid
from qmgr_protocol.name import is_name
from qmgr_tables import option_parser as batch
from qmgr_tables.options import NAMES, OptionInvalid, Options

ONLY = (
    "url",
    "cursor",
    "startingOffsets",
    "maxRowsPerTrigger",
    "maxBytesPerTrigger",
    "failOnDataLoss",
    "waitMs",
)
TABLES = ("history", "messages")
WAIT_MS = 120_000
WAIT_MAX_MS = 86_400_000
_LIMIT_MAX = 2**63 - 1
_OF_MESSAGES = ("includePayload", "maxBodyBytes", "states")
_STARTS = {"earliest": False, "latest": True}


class StreamOptions(NamedTuple):
    """The options of a stream."""

    urls: tuple[str, ...]  # addresses of queue managers; empty for snapshots
    cursor: str
    from_latest: bool
    rows_max: int | None  # maximum number of rows in a batch
    bytes_max: int | None
    skip_lost: bool
    wait_ms: int
    of: Options  # options that streams share with tables


def is_streamed(given: Mapping[str, str]) -> bool:
    """Returns whether *given* has an option that only streams have. The case of keys is ignored."""
    return not {name.lower() for name in ONLY}.isdisjoint(key.lower() for key in given)


def parse(given: Mapping[str, str]) -> StreamOptions:
    """Returns the options in *given*. The case of its keys is ignored.

    Raises:
        OptionInvalid: An option is invalid. The text states the option, the reason and valid
            values.
    """
    own, shared = _split(given)
    urls = _urls(own.get("url", ""))
    if urls and ("path" in shared or "paths" in shared):
        raise OptionInvalid("options url and path: a stream reads only one of them; omit one")
    if not urls and "path" not in shared and "paths" not in shared:
        raise OptionInvalid(
            'option url is missing; name the addresses of queue managers: .option("url", '
            '"127.0.0.1:7470"), or a directory of snapshots with the option path'
        )
    of = batch.parse({"path": "url", "table": "history", **shared})
    check_table(of.table, shared, is_live=bool(urls))
    is_history = of.table == "history"
    return StreamOptions(
        urls=urls,
        cursor=_cursor(own.get("cursor", ""), is_live=bool(urls), is_history=is_history),
        from_latest=_start(own.get("startingOffsets", "earliest")),
        rows_max=_number(own, "maxRowsPerTrigger", 1, _LIMIT_MAX),
        bytes_max=_number(own, "maxBytesPerTrigger", 1, _LIMIT_MAX),
        skip_lost=not _flag("failOnDataLoss", own.get("failOnDataLoss", "true")),
        wait_ms=_wait(own),
        of=of._replace(paths=()) if urls else of,
    )


def _split(given: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Returns the options of streams and the other options, with their documented spelling."""
    names = [name for name in NAMES if name != "onDamaged"]
    known = {name.lower(): name for name in (*ONLY, *names)}
    own: dict[str, str] = {}
    shared: dict[str, str] = {}
    for key, value in given.items():
        name = known.get(key.lower())
        if name is None:
            near = get_close_matches(key.lower(), known, 1)
            listed = ", ".join(sorted(known.values()))
            hint = f"did you mean {known[near[0]]}?" if near else f"the options are {listed}"
            raise OptionInvalid(f"option {key[:80]!r} is unknown for streams; {hint}")
        (own if name in ONLY else shared)[name] = value
    return own, shared


def _urls(text: str) -> tuple[str, ...]:
    found = []
    for part in filter(None, map(str.strip, text.split(","))):
        url = f"unix:{part}" if part.startswith("/") else part
        try:
            found.append(str(parse_address(url)))
        except AddressInvalid as error:
            raise OptionInvalid(f"option url: {error.why}; {error.hint}") from None
    for url in found:
        if found.count(url) > 1:
            raise OptionInvalid(f"option url: {url} is listed twice; list it once")
    return tuple(found)


def check_table(table: str, shared: Mapping[str, str], *, is_live: bool) -> None:
    """Raises OptionInvalid if the table is not streamed, or does not have an option."""
    if table not in TABLES:
        raise OptionInvalid(
            f"option table: {table} cannot be streamed, only {', '.join(TABLES)}; read it with "
            "spark.read"
        )
    if table == "messages" and not is_live:
        raise OptionInvalid(
            "option table: messages, the default, can be streamed only from a url; "
            'to stream the history in snapshots, use .option("table", "history")'
        )
    useless = [name for name in _OF_MESSAGES if name in shared]
    if table == "history" and useless:
        raise OptionInvalid(f"option {useless[0]}: history has neither bodies nor states; omit it")


def _cursor(text: str, *, is_live: bool, is_history: bool) -> str:
    name = text.strip()
    if name and not is_history:
        raise OptionInvalid(
            "option cursor: streams of messages have no cursor; omit it, or stream history"
        )
    if name and not is_live:
        raise OptionInvalid(
            "option cursor: snapshots have no cursor; omit it, or use the option url"
        )
    if is_history and is_live and not name:
        raise OptionInvalid(
            "option cursor is missing; name a separate cursor for each stream, so that the queue "
            'managers keep the rows that the stream has not read yet: .option("cursor", "lake")'
        )
    if name and not is_name(name):
        raise OptionInvalid(
            f"option cursor: {name[:80]!r} is not a valid name; use 1 to 64 of A-Z a-z 0-9 . _ -"
        )
    return name


def _start(text: str) -> bool:
    found = _STARTS.get(text.strip().lower())
    if found is None:
        raise OptionInvalid(
            f"option startingOffsets: {text[:80]!r} is not a valid value; use earliest or latest"
        )
    return found


def _flag(name: str, text: str) -> bool:
    flag = {"true": True, "false": False}.get(text.strip().lower())
    if flag is None:
        raise OptionInvalid(f"option {name}: {text[:80]!r} is not a valid value; use true or false")
    return flag


def _wait(own: Mapping[str, str]) -> int:
    found = _number(own, "waitMs", 0, WAIT_MAX_MS)
    return WAIT_MS if found is None else found


def _number(values: Mapping[str, str], name: str, low: int, high: int) -> int | None:
    text = values.get(name)
    if text is None:
        return None
    digits = text.strip()
    if re.fullmatch("[0-9]{1,19}", digits) and low <= int(digits) <= high:
        return int(digits)
    raise OptionInvalid(
        f"option {name}: {text[:80]!r} is not an integer from {low} to {high}; correct the value, "
        "or omit the option"
    )
