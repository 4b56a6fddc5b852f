"""qmctl events."""

import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import humanize, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import one_line
from qmgr_tools.message import selection
from qmgr_tools.message import text as message_text
from qmgr_tools.queue.system import EVENTS

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_client.message import Message

POLL_S = 0.5
COLUMNS = (
    output.text("time"),
    output.text("event"),
    output.count("count"),
    output.long_text("facts"),
)
# details that have their own columns, or are the same in all events
_OWN = ("event", "count", "manager")

Follow = Annotated[bool, typer.Option("--follow", "-f", help="Also show new events until Ctrl-C.")]
Limit = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, show_default=False, help="Show only the last N events."),
]


@command(
    selection.HELP
    + """
\b
JSON: an array of objects (with --follow one object per line) with
  time, event, count        time; event; number of occurrences in that turn
  manager, facts            the queue manager; an object with the details
"""
)
def events(
    call: Call, follow: Follow = False, where: selection.Where = "", limit: Limit = None
) -> None:
    """Show events: expired messages, dead letters, full queues, paused deliveries.

    The queue SYSTEM.EVENTS holds the newest 10,000 events. This command does not remove them.

    Examples:
      qmctl events --limit 20
      qmctl events --where "event = 'message dead-lettered'"
      qmctl events --follow -o json
    """
    with call.client("show the events") as client:
        found = _some(client, where)
        shown = found if limit is None else found[-limit:]
        rows = [_row(message) for message in shown]
        if not follow:
            _show(call, rows)
            return
        if not call.is_json and not sys.stdout.isatty():
            output.titles(COLUMNS)
            output.flush()
        for row in rows:
            _show_one(call, row)
        last = found[-1] if found else None
        while True:
            time.sleep(POLL_S)
            found = _some(client, where, last)
            for message in found:
                _show_one(call, _row(message))
            last = found[-1] if found else last


def _some(client: "Client", where: str, after: "Message | None" = None) -> "list[Message]":
    """Returns the events later than *after*, oldest first."""
    try:
        return list(client.browse(EVENTS, after=after, where=where or None))
    except RequestError as error:
        if error.code != ErrorCode.QUEUE_UNKNOWN:
            raise
        return []  # The first event creates the queue.


def _row(message: "Message") -> dict[str, Any]:
    facts = message_text.as_object(message)["headers"]
    rest = {key: value for key, value in facts.items() if key not in _OWN}
    return (
        {"time": humanize.rfc3339(message.put_us)}
        | {key: facts.get(key) for key in _OWN}
        | {"facts": rest}
    )


def _show(call: Call, rows: list[dict[str, Any]]) -> None:
    if call.is_json:
        output.document(rows)
    else:
        output.table(COLUMNS, map(_cells, rows))


def _show_one(call: Call, row: dict[str, Any]) -> None:
    """Prints an event as soon as it arrives."""
    if call.is_json:
        output.line(row)
    elif not sys.stdout.isatty():
        output.tabs(COLUMNS, _cells(row))
    else:
        count = f" ({row['count']} times)" if row["count"] not in (None, 1) else ""
        output.say(f"{row['time']}  {row['event']}{count}  {_words(row['facts'])}".rstrip())
    output.flush()


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "facts": _words(row["facts"])}


def _words(facts: dict[str, Any]) -> str:
    return ", ".join(f"{key}={one_line(str(value))}" for key, value in facts.items())
