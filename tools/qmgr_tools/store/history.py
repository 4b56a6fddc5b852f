"""qmctl history: ls, show, forget."""

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol import history
from qmgr_protocol.errors import RequestError, name_of
from qmgr_tools.cli import completion, option, output
from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli.command import Call, command

if TYPE_CHECKING:
    from qmgr_client.aio.history import HistoryRow
    from qmgr_client.blocking import Client

POLL_S = 0.5
Event = StrEnum("Event", {name: name for name in history.EVENTS})  # type: ignore[misc]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue",
        "-q",
        metavar="QUEUE",
        show_default=False,
        autocompletion=completion.queues,
        help="Of this queue or subscription only; repeatable.",
    ),
]
Events = Annotated[
    list[Event] | None,
    typer.Option(
        "--event",
        "-e",
        metavar="EVENT",
        show_default=False,
        help="Events of this kind only; repeatable.",
    ),
]
Uid = Annotated[
    str,
    typer.Option(
        "--uid",
        metavar="ORIGIN.TIMESTAMP",
        show_default=False,
        help="Of the message of that identity only.",
    ),
]
After = Annotated[
    int,
    typer.Option(
        "--after",
        metavar="ROW",
        min=0,
        show_default=False,
        help="Begin behind this row; else with the oldest that is kept.",
    ),
]
Limit = Annotated[
    int | None, typer.Option(metavar="N", min=1, show_default=False, help="Only the last N.")
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="And those to come, until Ctrl-C.")]
Cursor = Annotated[
    str,
    typer.Argument(metavar="CURSOR", show_default=False, help='As "qmctl history show" has it.'),
]
COLUMNS = (
    output.text("time"),
    output.text("event"),
    output.name("queue"),
    output.text("uid"),
    output.count("arrival"),
    output.size("bytes"),
    output.text("waited"),
    output.long_text("facts"),
)
STATE = (
    output.count("first", "first row"),
    output.count("next", "next row"),
    output.size("bytes", "size"),
    output.size("bytes_max", "at most"),
    output.duration("age_max_ms", "kept for"),
    output.count("dropped", "rows dropped"),
)
CURSORS = (
    output.text("cursor"),
    output.count("position"),
    output.count("waiting"),
    output.text("committed"),
    output.count("lost"),
)
EVENTS_TEXT = """\b
Events: put, available (its delay is over), delivered, returned (it came
back), settled (consumed), expired, dead-lettered, transferred (the peer of a
link has it), published, republished, parked, moved, removed, lost (over a
restart), damaged.

"""


@command(
    EVENTS_TEXT
    + """
\b
JSON: an array of objects, with --follow one a line, each with
  time, event, queue, queue_id  when; what; where
  uid, arrival, priority        which message, and its place
  bytes, delivered, failed      its record; how often it came back, and failed
  age_ms                        since it was put there
  peer, target, code            who had it; where it went; why; or null
  row                           in which row of history it stands
"""
)
def ls(
    call: Call,
    queue: Queues = None,
    event: Events = None,
    uid: Uid = "",
    after: After = 0,
    limit: Limit = None,
    follow: Follow = False,
) -> None:
    """Show what happened to messages of queues that keep accounts.

    A queue does with: qmctl queue alter QUEUE --accounting on. What all export cursors have had is
    no longer here: see qmctl history show.

    Examples:
      qmctl history ls --limit 20
      qmctl history ls --queue FLIGHTS --event dead-lettered
      qmctl history ls --uid NYC.1700000000000001 -o json
    """
    names, kinds = set(queue or ()), set(map(str, event or ()))
    wanted = {"queue": names, "event": kinds, "uid": {str(option.uid(uid))} if uid else set()}
    with call.client("show history") as client:
        shown, last = _some(client, after, wanted, limit)
        if not follow:
            _show(call, shown)
            if not shown and not call.is_json:
                output.flush()
                output.note(_why_none(client, names))
            return
        if not call.is_json and not sys.stdout.isatty():
            output.titles(COLUMNS)
        while True:
            for row in shown:
                _say(call, row)
            output.flush()
            time.sleep(POLL_S)
            shown, last = _some(client, last, wanted)


@command("""
\b
JSON: an object with
  manager, store_id           whose history it is
  first, next                 the first row that is kept, the next to come
  bytes, bytes_max            of the rows; at most
  age_max_ms, dropped         how long they are kept; rows that went unread
  cursors                     an array: cursor, position (its last row),
                              waiting (rows behind it), lost, created_us,
                              committed_us
""")
def show(call: Call) -> None:
    """Show how much history there is, and how far exports are.

    A row goes once all export cursors have had it; or at the limits of [accounting], whoever has
    not.

    Examples:
      qmctl history show
    """
    with call.client("show the journal of history") as client:
        found = client.admin.history_show()
    if call.is_json:
        output.document(found)
        return
    output.facts(STATE, found)
    if found["cursors"]:
        print()
        output.table(
            CURSORS,
            [row | {"committed": humane.rfc3339(row["committed_us"])} for row in found["cursors"]],
        )
    else:
        output.flush()
        output.note("no export cursor: rows are kept up to the limits")


@command("""
\b
JSON: an object with
  cursor   which one is forgotten
""")
def forget(call: Call, cursor: Cursor) -> None:
    """Forget an export cursor: nothing is kept for it any more.

    Examples:
      qmctl history forget LAKE
    """
    with call.client(f"forget export cursor {cursor}") as client:
        client.admin.cursor_delete(cursor)
    if call.is_json:
        output.document({"cursor": cursor})
    else:
        output.say(f"forgot export cursor {cursor}")


def _some(
    client: "Client", after: int, wanted: dict[str, set[str]], most: int | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Return what is wanted of the rows behind *after*, at most the last *most*, and the last row.

    It holds no more than it returns, however long the history is.
    """
    found: deque[dict[str, Any]] = deque(maxlen=most)
    for stored in client.admin.history(after):
        after = stored.seq
        for row in _rows(stored):
            if all(not names or row[key] in names for key, names in wanted.items()):
                found.append(row)
    return list(found), after


def _rows(stored: "HistoryRow") -> Iterator[dict[str, Any]]:
    """Yield what a stored row tells, a message at a time."""
    for section in stored.sections:
        columns = [history.values(column, section.messages) for column in section[8:]]
        for arrival, priority, origin, timestamp, size, delivered, failed, age_us in zip(
            *columns, strict=True
        ):
            yield {
                "time": humane.rfc3339(section.at_us),
                "event": history.EVENTS[section.kind],
                "queue": section.queue,
                "queue_id": section.queue_id,
                "uid": None if origin is None else f"{origin}.{timestamp}",
                "arrival": arrival,
                "priority": priority,
                "bytes": size,
                "delivered": delivered,
                "failed": failed,
                "age_ms": None if age_us is None else age_us // 1_000,
                "peer": section.peer or None,
                "target": section.target or None,
                "code": name_of(section.code) if section.code else None,
                "row": stored.seq,
            }


def _why_none(client: "Client", queues: set[str]) -> str:
    """Return why there may be no history of *queues*, or of any."""
    for name in sorted(queues):
        try:
            attributes = client.admin.queue_show(name)
        except RequestError as error:
            return f"no history of {name}: {error.text}"
        if attributes.get("accounting") == "off":
            alter = "sub alter" if ":" in name else "queue alter"
            return f"{name} keeps no accounts; from now on: qmctl {alter} {name} --accounting on"
    facts = client.admin.history_show()
    if facts["next"] == 1:
        return "no history yet; a queue has it after: qmctl queue alter QUEUE --accounting on"
    kept = f"rows {facts['first']} to {facts['next'] - 1} are kept"
    if facts["first"] == facts["next"]:
        kept = f"none of the {facts['next'] - 1} rows is kept any more, as exports have had them"
    return f"nothing fits; {kept}, see: qmctl history show"


def _show(call: Call, rows: Sequence[Mapping[str, Any]]) -> None:
    if call.is_json:
        output.document(rows)
    else:
        output.table(COLUMNS, map(_cells, rows))


def _say(call: Call, row: Mapping[str, Any]) -> None:
    """Print an event as it comes."""
    if call.is_json:
        output.line(row)
    elif not sys.stdout.isatty():
        output.tabs(COLUMNS, _cells(row))
    else:
        cells = _cells(row)
        words = (row["time"], row["event"], row["queue"], row["uid"] or "?", cells["facts"])
        output.say("  ".join(words).rstrip())


def _cells(row: Mapping[str, Any]) -> dict[str, Any]:
    age_ms, failed = row["age_ms"], row["failed"]
    facts = {"by": row["peer"], "to": row["target"], "why": row["code"], "failed": failed or None}
    told = ", ".join(f"{key} {value}" for key, value in facts.items() if value is not None)
    waited = humane.duration(age_ms) if age_ms else None
    return {**row, "waited": waited, "facts": told}
