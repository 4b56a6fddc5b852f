"""qmctl aside: ls, retry, delete."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import filter as filters
from qmgr_tools.cli import output, watch
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import rfc3339
from qmgr_tools.queue.queue import Yes

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

COLUMNS = (
    output.count("number"),
    output.text("kind"),
    output.text("set_aside"),
    output.name("what"),
    output.name("why"),
    output.name("key"),
    output.size("bytes", "SIZE"),
)
LISTED = ("number", "kind", "set_aside", "what", "why")

Number = Annotated[
    int,
    typer.Argument(
        metavar="NUMBER",
        min=1,
        max=2**63 - 1,
        show_default=False,
        help='The number from "qmctl aside ls".',
    ),
]


@command(watched=True)
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the items that are set aside, oldest first.

    The daemon sets aside work that fails twice because of a bug, and stored rows that it cannot
    read. It continues without these items.

    \b
    JSON: an array of objects with
      number        the number of the item
      kind          row (read at start), due (scheduled), message, job, queue
                    (delivery), groups, link, subscription, fan-out,
                    publication, timer, events, history
      key           the key of the row or the work
      what, why     the item and the reason, in words
      set_aside     time at which the item was set aside, RFC 3339
      bytes         length of the stored row

    Examples:
      qmctl aside ls
      qmctl aside ls --where kind=row --columns number,what,why
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)
    watch.follow(
        call,
        "list the items set aside",
        lambda client: listing.rows([_shown(row) for row in client.admin.aside_list()]),
        listing.show,
    )


@command()
def retry(call: Call, number: Number) -> None:
    """Repeat the work of an item, or restore its row.

    If the daemon reads the row only at start, the retry takes place at the next start. If the
    problem still exists, the item is set aside again.

    \b
    JSON: the item as in "qmctl aside ls"
      with retried: "at once" or "read at the next start"

    Examples:
      qmctl aside retry 3
    """
    with call.client(f"retry item {number}") as client:
        row = client.admin.aside_retry(number)
    if call.is_json:
        output.document(_shown(row))
    else:
        output.say(f"retried item {number}, {row['what']}: {row['retried']}")


@command()
def delete(call: Call, number: Number, yes: Yes = False) -> None:
    """Delete an item with its row or its job. Asks for confirmation.

    If the row defines a queue, the messages of the queue are also deleted.

    \b
    JSON: the item as in "qmctl aside ls"

    Examples:
      qmctl aside delete 3
    """
    with call.client(f"delete item {number}") as client:
        found = _find(client, number)
        doing = f"delete item {number}, {found['what']}"
        confirm(str(number), doing, "its contents are lost permanently", yes=yes)
        row = client.admin.aside_drop(number)
    if call.is_json:
        output.document(_shown(row))
    else:
        output.say(f"deleted item {number}, {row['what']}")


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns an item with the time in RFC 3339."""
    shown = {key: value for key, value in row.items() if key != "set_aside_us"}
    return shown | {"set_aside": rfc3339(int(row.get("set_aside_us", 0)))}


def _find(client: "Client", number: int) -> Mapping[str, Any]:
    for row in client.admin.aside_list():
        if row["number"] == number:
            return row
    raise Failure(
        Exit.NOT_FOUND,
        f"cannot delete item {number}",
        "no item with this number is set aside",
        "see: qmctl aside ls",
    )
