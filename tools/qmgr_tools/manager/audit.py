"""qmctl audit."""

import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol import record as records
from qmgr_protocol.errors import RequestError
from qmgr_protocol.messages import DELIVERY, DELIVERY_BYTES
from qmgr_tools.cli import humanize, option, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import one_line, usage
from qmgr_tools.queue.system import AUDIT

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

POLL_S = 0.5
PAGE_MESSAGES = 1_000
SECONDS_CHARS = 19  # characters of a time before the fraction of its seconds
COLUMNS = (
    output.whole("time"),
    output.text("who"),
    output.text("from"),
    output.text("action"),
    output.text("object"),
    output.whole("result"),
    output.count("count"),
    output.long_text("detail"),
)
_TEXTS = ("action", "user", "method", "address", "client", "kind", "object", "result", "manager")

User = Annotated[
    str, typer.Option(metavar="NAME", show_default=False, help="Show only records of this user.")
]
Object = Annotated[
    str,
    typer.Option(
        "--object", metavar="NAME", show_default=False, help="Show only records of this object."
    ),
]
Action = Annotated[
    str,
    typer.Option(
        metavar="ACTION",
        show_default=False,
        help="Show only this action, such as QueueDelete, Login or JobEnd.",
    ),
]
Result = Annotated[
    str,
    typer.Option(
        metavar="CODE",
        show_default=False,
        help="Show only this result: OK, an error code, or WOULD_REFUSE.",
    ),
]
Since = Annotated[
    str,
    typer.Option(
        metavar="TIME",
        show_default=False,
        help="Show only records since this time, such as 2030-01-31T18:00, or 2h ago.",
    ),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Also show new records until Ctrl-C.")]
Limit = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, show_default=False, help="Show only the last N records."),
]


@command("""
\b
JSON: an array of objects (with --follow one object per line) with
  time              time of the record
  action            a request, or Login, Logout, JobEnd, SnapshotEnd or
                    AuditDropped
  user, method      user, and how it logged in; "" without a user
  address, client   host and name of the other end
  connection        number of the connection; 0 for several
  kind, object      kind and name of the object, or ""
  result            OK, an error code, or WOULD_REFUSE: auth.mode = enforce
                    would refuse the request
  count, since      number of equal actions; time of the first, or null
  manager, detail   queue manager; object with fields of the request
""")
def audit(
    call: Call,
    user: User = "",
    name: Object = "",
    action: Action = "",
    result: Result = "",
    since: Since = "",
    follow: Follow = False,
    limit: Limit = None,
) -> None:
    """Show the audit: who did what, from where, with which result.

    Needs the right to browse the queue SYSTEM.AUDIT. See docs/security.md.

    Examples:
      qmctl audit --user bob --since 1d
      qmctl audit --object ORDERS --result NOT_AUTHORIZED
      qmctl audit --follow -o json
    """
    where = _selector({"user": user, "object": name, "action": action, "result": result}, since)
    with call.client("show the audit") as client:
        reader = _Reader(client, where)
        rows = list(reader.rows()) if limit is None else list(deque(reader.rows(), limit))
        if not follow:
            _show(call, rows)
            return
        if not call.is_json and not sys.stdout.isatty():
            output.titles(COLUMNS)
            output.flush()
        while True:
            for row in rows:
                _show_one(call, row)
            time.sleep(POLL_S)
            rows = list(reader.rows())


class _Reader:
    """Reads the records in the order of their arrival, each one once."""

    def __init__(self, client: "Client", where: str) -> None:
        self._client = client
        self._where = where
        self._after = 0

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yields the records that have arrived since the last call."""
        more: Any = True
        while more:
            page = self._client.admin.browse_arrivals(
                AUDIT, self._after, PAGE_MESSAGES, where=self._where
            )
            for item in page["items"]:
                yield _row(item)
                self._after = max(self._after, DELIVERY.unpack_from(item)[1])
            more = page["next"]
            if more:
                self._after = more[1]


def _row(item: bytes) -> dict[str, Any]:
    facts: Any = {}
    try:
        facts = json.loads(records.decode(item[DELIVERY_BYTES:]).body)
    except (RequestError, ValueError) as error:
        facts = {"detail": {"damage": str(error)}}
    since_us = facts.get("since_us")
    return (
        {"time": humanize.rfc3339(DELIVERY.unpack_from(item)[6])}
        | {key: facts.get(key, "") for key in _TEXTS}
        | {
            "connection": facts.get("connection", 0),
            "count": facts.get("count", 1),
            "since": humanize.rfc3339(since_us) if since_us else None,
            "detail": facts.get("detail", {}),
        }
    )


def _selector(given: dict[str, str], since: str) -> str:
    """Returns the selector of the records that have these facts."""
    parts = [
        f"\"{name}\" = '{value.replace(chr(39), chr(39) * 2)}'"
        for name, value in given.items()
        if value
    ]
    if since:
        parts.append(f"put_us >= {_since_us(since)}")
    return " AND ".join(parts)


def _since_us(text: str) -> int:
    """Returns a time, or the time that a duration ago was, in microseconds since 1970."""
    try:
        return round(datetime.fromisoformat(text).astimezone().timestamp() * 1_000_000)
    except ValueError:
        pass
    try:
        ago_ms = option.time_ms(text)
    except typer.BadParameter:
        raise usage(
            f"invalid time --since {text[:80]!r}",
            "it is neither a time such as 2030-01-31T18:00 nor a duration such as 2h or 5min",
        ) from None
    return max(time.time_ns() // 1_000 - ago_ms * 1_000, 0)


def _show(call: Call, rows: list[dict[str, Any]]) -> None:
    if call.is_json:
        output.document(rows)
    else:
        output.table(COLUMNS, map(_cells, rows))


def _show_one(call: Call, row: dict[str, Any]) -> None:
    """Prints a record as soon as it arrives."""
    cells = _cells(row)
    if call.is_json:
        output.line(row)
    elif not sys.stdout.isatty():
        output.tabs(COLUMNS, cells)
    else:
        count = f" ({row['count']} times)" if row["count"] != 1 else ""
        words = (cells[key] for key in ("time", "who", "from", "action", "object", "result"))
        output.say(f"{'  '.join(filter(None, words))}{count}  {cells['detail']}".rstrip())
    output.flush()


def _cells(row: dict[str, Any]) -> dict[str, Any]:
    kind = "" if row["kind"] == "queue" else row["kind"]  # Most records are about queues.
    return {
        **row,
        "time": f"{row['time'][:SECONDS_CHARS]}Z",
        "who": row["user"] or row["method"],
        "from": row["address"],
        "object": " ".join(filter(None, (kind, row["object"]))),
        "detail": ", ".join(f"{key}={one_line(_text(x))}" for key, x in row["detail"].items()),
    }


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
