"""qmctl republish: ls, show. What was given back too often, and who is to get it once more."""

import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import name_of
from qmgr_tools.cli import completion, option, output, progress
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.message import selecting
from qmgr_tools.message import text as message_text
from qmgr_tools.message.browse import tell_cut

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

LISTED_MAX = 100
FIRST = 3  # of a list, in a table
SELECTORS = """\b
A selector, as "subscription = 'B:late' AND topic LIKE 'flights/%'", knows
topic, subscription, dead_code, dead_reason, dead_text, dead_us, dead_failed,
dead_delivered, dead_retries, and all that docs/SELECTORS.md has.
"""

Uid = Annotated[
    str,
    typer.Argument(
        metavar="UID", show_default=False, help='Its identity, as "qmctl republish ls" shows it.'
    ),
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
        help="What is parked for that one.",
    ),
]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="At most so many publications.")]
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
  uid, topic, put_time, body_bytes   of the publication
  subscribers, first                 how many are on its list; an array: the
                                     first of them
  awaited                            of these: sent once they are back
  parked, reason, text               when the last came on the list, and why
"""
)
def ls(
    call: Call,
    subscription: Subscription = "",
    where: selecting.Where = "",
    columns: filters.Columns = None,
    limit: Limit = LISTED_MAX,
) -> None:
    """List what is parked: each publication once, with how many are on its list.

    A publication is parked for those who gave it back more often than their redelivery limit; all
    others have had it.

    Examples:
      qmctl republish ls
      qmctl republish ls --subscription BILLING:late
      qmctl republish ls --where "dead_reason = 'no-amount'" -o json
    """
    shown = filters.columns(columns, COLUMNS, LISTED)
    with (
        call.client("list what is parked") as client,
        progress.spinner("looking at what is parked"),
    ):
        parked = client.admin.republish_list(where=where, subscription=subscription)
        found = list(islice(publications(parked), limit + 1))
    rows, is_cut = found[:limit], len(found) > limit
    if call.is_json:
        output.document(rows)
    else:
        output.table(shown, map(_as_row, rows))
    if is_cut:
        tell_cut(limit)


def publications(parked: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield each publication of what is *parked*, which is in their order, with its list."""
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
            "put_time": humane.rfc3339(last["put_us"]),
            "body_bytes": last["bytes"],
            "subscribers": count,
            "first": names,
            "awaited": awaited,
            **_why(last),
        }


def _parked_us(row: Mapping[str, Any]) -> int:
    return int(row["parked_us"] or 0)


def _why(row: Mapping[str, Any]) -> dict[str, Any]:
    parked = humane.rfc3339(row["parked_us"]) if row["parked_us"] else None
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

    us = int(datetime.fromisoformat(time_).timestamp() * humane.US_PER_S)
    return humane.age(us, time.time_ns() // 1_000)


@command()
def show(call: Call, uid: Uid) -> None:
    """Show a publication that is parked: who is on its list, and what each of them said.

    \b
    JSON: an object with
      uid, topic, put_time, body_bytes
      body, body_base64   text, or null where it is none; then body_base64 has it
      subscribers         an array of objects: subscription, parked (RFC 3339),
                          failed, delivered, code, reason, text, republished
                          (how often it was sent once more), awaits_return (it
                          is sent once that is back), attempts (an array: time,
                          code, reason, text, client)

    Examples:
      qmctl republish show NYC.1700000000000001
    """
    wanted = option.uid(uid)
    with call.client(f"show what is parked of {uid}") as client:
        rows = list(client.admin.republish_list(uid=wanted))
        if not rows:
            raise not_parked(f"show what is parked of {uid}", uid)
        body = _body(client, wanted)
    first = rows[0]
    found = {
        "uid": uid,
        "topic": first["topic"],
        "put_time": humane.rfc3339(first["put_us"]),
        "body_bytes": first["bytes"],
        **message_text.body_of(body),
        "subscribers": list(map(_subscriber, rows)),
    }
    if call.is_json:
        output.document(found)
    else:
        _show(found, body)


def _body(client: "Client", uid: Any) -> bytes:
    """Return what was published, as the queue manager keeps it for all who lack it."""
    from qmgrd.core.catalogue.system import PUBLICATIONS

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
    """Return the failure of *doing* something with a publication that is on nobody's list."""
    why, remedy = f"{uid} is not parked for anybody meant", "see: qmctl republish ls"
    return Failure(Exit.NOT_FOUND, f"cannot {doing}", why, remedy)


def _subscriber(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return who is on a list as the help describes it."""
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
                "time": humane.rfc3339(us),
                "code": name_of(code) if code else "",
                "reason": reason,
                "text": text,
                "client": client,
            }
            for us, code, reason, text, client in row["attempts"]
        ],
    }
