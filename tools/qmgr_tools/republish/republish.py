"""qmctl republish: ls, show. Shows parked publications, and the subscribers that failed."""

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import name_of
from qmgr_tools.cli import completion, humanize, option, output, progress
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.message import selection
from qmgr_tools.message import text as message_text
from qmgr_tools.message.browse import note_cut

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

LISTED_MAX = 100
FIRST = 3  # number of subscribers to show in a table
SELECTORS = """\b
A selector, such as "subscription = 'B:late' AND dead_failed > 2", can use
topic, subscription, dead_code, dead_reason, dead_text, dead_us, dead_failed,
dead_delivered, dead_retries, and the fields in docs/SELECTORS.md.
"""

Uid = Annotated[
    str,
    typer.Argument(metavar="UID", show_default=False, help='The UID from "qmctl republish ls".'),
]
Subscription = Annotated[
    str,
    typer.Option(
        "--subscription",
        "--to",
        metavar="NAME",
        show_default=False,
        callback=option.given,
        autocompletion=completion.subscriptions,
        help="Select publications that are parked for this subscription.",
    ),
]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="List at most N publications.")]
COLUMNS = (
    output.whole("uid"),
    output.text("topic"),
    output.text("age"),
    output.size("body_bytes", "SIZE"),
    output.count("subscribers"),
    output.name("first", "FIRST OF THEM"),
    output.count("awaited"),
    output.name("reason", is_long=True),
    output.name("text", is_long=True),
    output.text("put_time", "PUBLISHED"),
    output.text("parked"),
)
LISTED = ("uid", "topic", "age", "body_bytes", "subscribers", "first", "awaited", "reason")
FACTS = (
    output.text("uid"),
    output.text("topic"),
    output.text("published"),
    output.size("body_bytes", "size"),
    output.count("subscribers"),
)
SUBSCRIBERS = (
    output.whole("subscription"),
    output.text("parked"),
    output.count("failed"),
    output.count("delivered"),
    output.count("republished"),
    output.Column("awaits_return", "AWAITED", output.flag),
)
ATTEMPTS = (
    output.whole("subscription"),
    output.text("time"),
    output.text("code"),
    output.name("reason"),
    output.name("client"),
    output.long_text("text"),
)


@command(
    SELECTORS
    + """
\b
JSON: an array of objects with
  uid, topic, put_time, body_bytes   the publication
  subscribers, first                 number of subscribers on its list; the
                                     first ones, an array
  awaited                            number of absent subscribers that receive
                                     it when they return
  parked, reason, text               time and reason of the last addition
"""
)
def ls(
    call: Call,
    subscription: Subscription = "",
    where: selection.Where = "",
    columns: filters.Columns = None,
    limit: Limit = LISTED_MAX,
) -> None:
    """List the parked publications, each with the number of subscribers on its list.

    A publication is parked for the subscribers that failed on it more often than their redelivery
    limit. All other subscribers receive it as usual.

    Examples:
      qmctl republish ls
      qmctl republish ls --subscription BILLING:late
      qmctl republish ls --where "dead_reason = 'no-amount'" -o json
    """
    shown = filters.columns(columns, COLUMNS, LISTED)
    with (
        call.client("list parked publications") as client,
        progress.spinner("reading parked publications"),
    ):
        parked = client.admin.republish_list(where=where, subscription=subscription)
        found = list(islice(publications(parked), limit + 1))
    rows, is_cut = found[:limit], len(found) > limit
    if call.is_json:
        output.document(rows)
    else:
        output.table(shown, map(_as_row, rows))
    if is_cut:
        note_cut(limit)


def publications(parked: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields each publication of the ordered rows *parked*, with its list of subscribers."""
    for uid, rows in groupby(parked, key=lambda row: str(row["uid"])):
        count = awaited = 0
        names: list[str] = []
        last: Mapping[str, Any] = {}
        for row in rows:
            count, awaited = count + 1, awaited + bool(row["awaits_return"])
            names += [row["subscription"]] * (count <= FIRST)
            last = row if not last or _parked_us(row) >= _parked_us(last) else last
        yield {
            "uid": uid,
            "topic": last["topic"],
            "put_time": humanize.rfc3339(last["put_us"]),
            "body_bytes": last["bytes"],
            "subscribers": count,
            "first": names,
            "awaited": awaited,
            **_why(last),
        }


def _parked_us(row: Mapping[str, Any]) -> int:
    return int(row["parked_us"] or 0)


def _why(row: Mapping[str, Any]) -> dict[str, Any]:
    parked = humanize.rfc3339(row["parked_us"]) if row["parked_us"] else None
    return {"parked": parked, "reason": row["reason"], "text": row["text"]}


def _as_row(row: dict[str, Any]) -> dict[str, Any]:
    first = ", ".join(row["first"]) + ", ..." * (row["subscribers"] > len(row["first"]))
    return row | {
        "age": _age(row["put_time"]),
        "first": first,
        "reason": row["reason"] or row["text"],
    }


def _age(time_: str) -> str:
    from datetime import datetime

    us = int(datetime.fromisoformat(time_).timestamp() * humanize.US_PER_S)
    return humanize.age(us, time.time_ns() // 1_000)


@command()
def show(call: Call, uid: Uid) -> None:
    """Show a parked publication: the subscribers on its list, and their reports.

    \b
    JSON: an object with
      uid, topic, put_time, body_bytes
      body, body_base64   the body as text, or else in base64; the other is null
      subscribers         an array of objects: subscription, parked (RFC 3339),
                          failed, delivered, code, reason, text, republished
                          (number of republishes), awaits_return (whether it is
                          delivered when the subscriber returns), attempts (an
                          array: time, code, reason, text, client)

    Examples:
      qmctl republish show NYC.1700000000000001
    """
    wanted = option.uid(uid)
    doing = f"show parked publication {uid}"
    with call.client(doing) as client:
        rows = list(client.admin.republish_list(uid=wanted))
        if not rows:
            raise not_parked(doing, uid)
        body = _body(client, wanted)
    first = rows[0]
    found = {
        "uid": uid,
        "topic": first["topic"],
        "put_time": humanize.rfc3339(first["put_us"]),
        "body_bytes": first["bytes"],
        **message_text.body_of(body),
        "subscribers": list(map(_subscriber, rows)),
    }
    if call.is_json:
        output.document(found)
    else:
        _show(found, body)


def _body(client: "Client", uid: Any) -> bytes:
    """Returns the body of the publication, which is stored once for all subscribers."""
    from qmgr_tools.queue.system import PUBLICATIONS

    kept = next(iter(client.browse(PUBLICATIONS, 1, uid=uid)), None)
    return b"" if kept is None else kept.body


def _show(found: dict[str, Any], body: bytes) -> None:
    rows = found["subscribers"]
    published = f"{found['put_time']} ({_age(found['put_time'])})"
    output.facts(FACTS, found | {"published": published, "subscribers": len(rows)})
    print()
    output.table(SUBSCRIBERS, rows)
    attempts = [
        {"subscription": row["subscription"]} | attempt
        for row in rows
        for attempt in row["attempts"]
    ]
    if attempts:
        print()
        output.table([column for column in ATTEMPTS if any(map(column.cell, attempts))], attempts)
    print()
    message_text.show_body(body)


def not_parked(doing: str, uid: str) -> Failure:
    """Returns the failure of *doing* something with a publication because it is not parked."""
    why = "the publication is not parked for any selected subscription"
    remedy = "see: qmctl republish ls"
    return Failure(Exit.NOT_FOUND, f"cannot {doing}", why, remedy)


def _subscriber(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a subscriber on a list, as described in the help."""
    return {
        "subscription": row["subscription"],
        **_why(row),
        "failed": row["failed"],
        "delivered": row["delivered"],
        "code": row["code"],
        "republished": row["republished"],
        "awaits_return": row["awaits_return"],
        "attempts": [
            {
                "time": humanize.rfc3339(us),
                "code": name_of(code) if code else "",
                "reason": reason,
                "text": text,
                "client": client,
            }
            for us, code, reason, text, client in row["attempts"]
        ],
    }
