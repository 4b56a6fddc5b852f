"""The options of `spark.readStream.format("qmgr")`, checked.

    url               addresses of queue managers, separated by commas: host:port, /path/of/socket
    path              instead of url: a directory of snapshots, or a pattern
    table             history; with url also messages, browsed as they arrive: a message that is
                      consumed first is not in the stream
    cursor            required with url, for history: the name of the export cursor, which exists in
                      each of these queue managers. Each stream needs its own
    startingOffsets   earliest; latest leaves out existing rows. Only for a stream without a
                      checkpoint, and only if its cursor is new: otherwise these determine the start
    maxRowsPerTrigger, maxBytesPerTrigger
                      no limit; the approximate rows, or bytes of history or messages, of a batch
    failOnDataLoss    true; false continues after lost data, with a warning
    waitMs            120000: how long to wait for an unavailable queue manager; then the query
                      fails

Also queues, queuesPattern, rowsPerPartition, minPartitions and verify, as in options.py of
qmgr_tables; for messages also states, includePayload and maxBodyBytes.
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

    urls: tuple[str, ...]  # none: snapshots
    cursor: str
    from_latest: bool
    rows_max: int | None  # in a batch
    bytes_max: int | None
    skip_lost: bool
    wait_ms: int
    of: Options  # the options that tables have as well


def is_streamed(given: Mapping[str, str]) -> bool:
    """Returns whether *given*, whose keys may have any case, has an option of streams only."""
    return not {name.lower() for name in ONLY}.isdisjoint(key.lower() for key in given)


def parse(given: Mapping[str, str]) -> StreamOptions:
    """Returns the options in *given*, whose keys may have any case.

    Raises:
        OptionInvalid: which option, what is wrong with it, what to write.
    """
    own, shared = _split(given)
    urls = _urls(own.get("url", ""))
    if urls and ("path" in shared or "paths" in shared):
        raise OptionInvalid("options url and path: a stream reads one of them; leave one out")
    if not urls and "path" not in shared and "paths" not in shared:
        raise OptionInvalid(
            'option url is missing; name the addresses of queue managers: .option("url", '
            '"127.0.0.1:7470"), or name a directory of snapshots: option path'
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
    """Returns the options of streams only, and the others, in their documented spelling."""
    names = [name for name in NAMES if name != "onDamaged"]
    known = {name.lower(): name for name in (*ONLY, *names)}
    own: dict[str, str] = {}
    shared: dict[str, str] = {}
    for key, value in given.items():
        name = known.get(key.lower())
        if name is None:
            near = get_close_matches(key.lower(), known, 1)
            listed = ", ".join(sorted(known.values()))
            hint = f"did you mean {known[near[0]]}?" if near else f"known are {listed}"
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
            raise OptionInvalid(f"option url: {url} is listed twice; name it once")
    return tuple(found)


def check_table(table: str, shared: Mapping[str, str], *, is_live: bool) -> None:
    """Raises OptionInvalid for a table that is not streamed, or for options that it does not
    use.
    """
    if table not in TABLES:
        raise OptionInvalid(
            f"option table: {table} is not streamed, only {', '.join(TABLES)}; read it with "
            "spark.read"
        )
    if table == "messages" and not is_live:
        raise OptionInvalid(
            "option table: messages, the default, is streamed only from a url; "
            'to stream the history in snapshots: .option("table", "history")'
        )
    useless = [name for name in _OF_MESSAGES if name in shared]
    if table == "history" and useless:
        raise OptionInvalid(f"option {useless[0]}: history has no bodies and states; leave it out")


def _cursor(text: str, *, is_live: bool, is_history: bool) -> str:
    name = text.strip()
    if name and not is_history:
        raise OptionInvalid(
            "option cursor: streams of messages have no cursor; leave it out, or stream history"
        )
    if name and not is_live:
        raise OptionInvalid("option cursor: snapshots have no cursor; leave it out, or read a url")
    if is_history and is_live and not name:
        raise OptionInvalid(
            "option cursor is missing; name one for this stream alone, so that its queue managers "
            'keep the rows that it has not read yet: .option("cursor", "lake")'
        )
    if name and not is_name(name):
        raise OptionInvalid(
            f"option cursor: {name[:80]!r} is not a name; write 1 to 64 of A-Z a-z 0-9 . _ -"
        )
    return name


def _start(text: str) -> bool:
    found = _STARTS.get(text.strip().lower())
    if found is None:
        raise OptionInvalid(
            f"option startingOffsets: {text[:80]!r} is not earliest or latest; write one of them"
        )
    return found


def _flag(name: str, text: str) -> bool:
    flag = {"true": True, "false": False}.get(text.strip().lower())
    if flag is None:
        raise OptionInvalid(f"option {name}: {text[:80]!r} is not true or false; write one of them")
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
        f"option {name}: {text[:80]!r} is not an integer from {low} to {high}; correct it, or "
        "leave it out"
    )
