"""qmctl topic: who-lacks, what-lacks."""

import time
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import filter as filters
from qmgr_tools.cli import humanize, option, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.message.browse import note_cut
from qmgr_tools.subscription.subscription import Name
from qmgr_tools.topic import name as topic_name

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_client.message import Message

LISTED_MAX = 100
Uid = Annotated[
    str,
    typer.Argument(
        metavar="UID", show_default=False, help='The UID of the publication, from "qmctl pub".'
    ),
]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="List at most N publications.")]
SUBSCRIPTIONS = (
    output.whole("subscription"),
    output.text("state"),
    output.count("delivered"),
    output.count("failed"),
)
COLUMNS = (
    output.whole("uid"),
    output.text("topic"),
    output.text("state"),
    output.text("age"),
    output.size("body_bytes", "SIZE"),
    output.count("delivered"),
    output.count("failed"),
    output.name("reason", is_long=True),
    output.text("put_time", "PUBLISHED"),
)
LISTED = ("uid", "topic", "state", "age", "body_bytes", "delivered", "failed", "reason")


@command()
def who_lacks(call: Call, uid: Uid) -> None:
    """List the subscriptions that have not consumed a publication, with its state.

    \b
    JSON: an object with
      uid, topic
      subscriptions   an array of objects: subscription, state (ready, leased,
                      delayed, parked, damaged), delivered, failed

    Examples:
      qmctl topic who-lacks NYC.1700000000000001
    """
    with call.client(f"list the subscriptions that lack publication {uid}") as client:
        row = client.admin.topic_lacks(option.uid(uid))
    if call.is_json:
        output.document(row)
    elif row["subscriptions"]:
        output.table(SUBSCRIPTIONS, row["subscriptions"])
    else:
        output.say(f"no subscription lacks {uid} on {row['topic']}: it is in transit or retained")


@command()
def what_lacks(
    call: Call, name: Name, columns: filters.Columns = None, limit: Limit = LISTED_MAX
) -> None:
    """List the publications that a subscription has not consumed: ready, delayed, parked.

    \b
    JSON: an array of objects with
      uid, topic, state        ready, leased, delayed, parked
      put_time, body_bytes     time of publication (RFC 3339); size
      delivered, failed        number of deliveries; number of failures
      reason                   the consumer's report if it is parked, or ""

    Examples:
      qmctl topic what-lacks BILLING:late
      qmctl topic what-lacks BILLING:late --limit 10 -o json
    """
    shown = filters.columns(columns, COLUMNS, LISTED)
    with call.client(f"list the publications that {name} lacks") as client:
        found = list(islice(_unconsumed(client, topic_name.subscription(name), limit), limit + 1))
    if call.is_json:
        output.document([{k: v for k, v in row.items() if k != "age"} for row in found[:limit]])
    else:
        output.table(shown, found[:limit])
    if len(found) > limit:
        note_cut(limit)


def _unconsumed(client: "Client", name: str, limit: int) -> Iterator[dict[str, Any]]:
    for delayed in (False, True):
        for message in client.browse(name, limit + 1, delayed=delayed):
            yield _row(message, delayed=delayed)
    for row in client.admin.republish_list(subscription=name):
        yield {
            "uid": row["uid"],
            "topic": row["topic"],
            "state": "parked",
            **_published(row["put_us"]),
            "body_bytes": row["bytes"],
            "delivered": row["delivered"],
            "failed": row["failed"],
            "reason": row["reason"],
        }


def _row(message: "Message", *, delayed: bool) -> dict[str, Any]:
    state = "delayed" if delayed else "leased" if message.leased else "ready"
    return {
        "uid": str(message.uid),
        "topic": message.topic,
        "state": state,
        **_published(message.put_us),
        "body_bytes": message.body_bytes,
        "delivered": message.delivered,
        "failed": message.failed,
        "reason": "",
    }


def _published(us: int) -> dict[str, str]:
    return {"put_time": humanize.rfc3339(us), "age": humanize.age(us, time.time_ns() // 1_000)}
