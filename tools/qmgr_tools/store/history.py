"""qmctl history: ls, show, delete."""

import sys
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol import history
from qmgr_protocol.errors import RequestError, name_of
from qmgr_tools.cli import completion, humanize, option, output
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
        help="Show only this queue or subscription. Repeatable.",
    ),
]
Events = Annotated[
    list[Event] | None,
    typer.Option(
        "--event",
        "-e",
        metavar="EVENT",
        show_default=False,
        help="Show only events of this kind. Repeatable.",
    ),
]
Uid = Annotated[
    str,
    typer.Option(
        "--uid",
        metavar="ORIGIN.TIMESTAMP",
        show_default=False,
        help="Show only the message with this UID.",
    ),
]
After = Annotated[
    int,
    typer.Option(
        "--after",
        metavar="ROW",
        min=0,
        show_default=False,
        help="Begin after this row. By default, begin with the oldest stored row.",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, show_default=False, help="Show only the last N events."),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Also show new events until Ctrl-C.")]
Cursor = Annotated[
    str,
    typer.Argument(
        metavar="CURSOR", show_default=False, help='The name from "qmctl history show".'
    ),
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
    output.size("bytes_max", "maximum size"),
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
Events: put, available (after a delay), delivered, returned (to the queue),
settled (consumed), expired, dead-lettered, transferred (to the peer of a
link), published, republished, parked, moved, removed, lost (in a restart),
damaged.

"""


@command(
    EVENTS_TEXT
    + """
\b
JSON: an array of objects (with --follow one object per line) with
  time, event, queue, queue_id  time; event; queue
  uid, arrival, priority        the message, and its position
  bytes, delivered, failed      size of the record; deliveries; failures
  age_ms                        time since the message was put on the queue
  peer, target, code            the client or peer; the target; the reason; or
                                null
  row                           row of the history
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
    """Show the history of messages for queues with accounting.

    To record the history of a queue, run qmctl queue alter QUEUE --accounting on. Rows that all
    export cursors have read are deleted; see qmctl history show.

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
                _show_one(call, row)
            output.flush()
            time.sleep(POLL_S)
            shown, last = _some(client, last, wanted)


@command("""
\b
JSON: an object with
  manager, store_id           the queue manager
  first, next                 the first stored row, the next row
  bytes, bytes_max            size of the rows; limit of the size
  age_max_ms, dropped         time for which rows are kept; number of rows
                              deleted unread
  cursors                     an array: cursor, position (last row read),
                              waiting (unread rows), lost, created_us,
                              committed_us
""")
def show(call: Call) -> None:
    """Show the size of the history, and the progress of exports.

    A row is deleted after all export cursors have read it, or when the limits of [accounting] are
    reached.

    Examples:
      qmctl history show
    """
    with call.client("show the state of the history") as client:
        found = client.admin.history_show()
    if call.is_json:
        output.document(found)
        return
    output.facts(STATE, found)
    if found["cursors"]:
        print()
        output.table(
            CURSORS,
            [
                row | {"committed": humanize.rfc3339(row["committed_us"])}
                for row in found["cursors"]
            ],
        )
    else:
        output.flush()
        output.note("no export cursors exist: rows are kept up to the limits")


@command("""
\b
JSON: an object with
  cursor   the deleted cursor
""")
def delete(call: Call, cursor: Cursor) -> None:
    """Delete an export cursor, so that no rows are kept for it.

    Examples:
      qmctl history delete LAKE
    """
    with call.client(f"delete export cursor {cursor}") as client:
        client.admin.cursor_delete(cursor)
    if call.is_json:
        output.document({"cursor": cursor})
    else:
        output.say(f"deleted export cursor {cursor}")


def _some(
    client: "Client", after: int, wanted: dict[str, set[str]], most: int | None = None
) -> tuple[list[dict[str, Any]], int]:
    """Returns the last *most* matching rows after row *after*, and the number of the last row.

    Memory does not grow with the length of the history.
    """
    found: deque[dict[str, Any]] = deque(maxlen=most)
    for stored in client.admin.history(after):
        after = stored.seq
        for row in _rows(stored):
            if all(not names or row[key] in names for key, names in wanted.items()):
                found.append(row)
    return list(found), after


def _rows(stored: "HistoryRow") -> Iterator[dict[str, Any]]:
    """Yields the events of a stored row, one event for each message."""
    for section in stored.sections:
        columns = [history.values(column, section.messages) for column in section[8:]]
        for arrival, priority, origin, timestamp, size, delivered, failed, age_us in zip(
            *columns, strict=True
        ):
            yield {
                "time": humanize.rfc3339(section.at_us),
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
    """Returns the reason why the history of *queues*, or of all queues, may be empty."""
    for name in sorted(queues):
        try:
            attributes = client.admin.queue_show(name)
        except RequestError as error:
            return f"no history of {name}: {error.text}"
        if attributes.get("accounting") == "off":
            alter = "sub alter" if ":" in name else "queue alter"
            return f"{name} has no history; to record it: qmctl {alter} {name} --accounting on"
    facts = client.admin.history_show()
    if facts["next"] == 1:
        return "no history is recorded; to record it: qmctl queue alter QUEUE --accounting on"
    kept = f"rows {facts['first']} to {facts['next'] - 1} are stored"
    if facts["first"] == facts["next"]:
        kept = f"all {facts['next'] - 1} rows were exported and deleted"
    return f"no row matches; {kept}; see: qmctl history show"


def _show(call: Call, rows: Sequence[Mapping[str, Any]]) -> None:
    if call.is_json:
        output.document(rows)
    else:
        output.table(COLUMNS, map(_cells, rows))


def _show_one(call: Call, row: Mapping[str, Any]) -> None:
    """Prints an event as soon as it arrives."""
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
    text = ", ".join(f"{key} {value}" for key, value in facts.items() if value is not None)
    waited = humanize.duration(age_ms) if age_ms else None
    return {**row, "waited": waited, "facts": text}
