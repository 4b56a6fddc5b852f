"""qmctl aside: ls, retry, drop."""

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
        help='As "qmctl aside ls" shows it.',
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
    """List work and rows that are set aside, the oldest first.

    Work that fails twice by a bug is set aside, and so is a stored row that
    makes no sense. The daemon goes on without it.

    \b
    JSON: an array of objects with
      number        of the item
      kind          row: a start reads it; due: of the schedule; message, job,
                    queue (delivery from it), groups, link, subscription,
                    fan-out, publication, timer, events, history
      key           of the row or the work
      what, why     in words
      set_aside     when
      bytes         length of the row that the item holds

    Examples:
      qmctl aside ls
      qmctl aside ls --where kind=row --columns number,what,why
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)
    watch.follow(
        call,
        "list what is set aside",
        lambda client: listing.rows([_shown(row) for row in client.admin.aside_list()]),
        listing.show,
    )


@command()
def retry(call: Call, number: Number) -> None:
    """Do the work of an item again, or put back the row that it holds.

    A row that a start reads is read again at the next start. If the fault is
    still there, it is set aside again.

    \b
    JSON: the item, as "qmctl aside ls" gives it
      with retried  "at once", or "read at the next start"

    Examples:
      qmctl aside retry 3
    """
    with call.client(f"retry item {number}") as client:
        row = client.admin.aside_retry(number)
    if call.is_json:
        output.document(_shown(row))
    else:
        output.say(f"item {number}, {row['what']}: retried {row['retried']}")


@command()
def drop(call: Call, number: Number, yes: Yes = False) -> None:
    """Delete an item with the row or the job that it holds. Asks first.

    If it is the definition of a queue, the messages of that are deleted, too.

    \b
    JSON: the item, as "qmctl aside ls" gives it

    Examples:
      qmctl aside drop 3
    """
    with call.client(f"drop item {number}") as client:
        found = _find(client, number)
        doing = f"delete item {number}, {found['what']}"
        confirm(str(number), doing, "what it holds is gone for good", yes=yes)
        row = client.admin.aside_drop(number)
    if call.is_json:
        output.document(_shown(row))
    else:
        output.say(f"deleted item {number}, {row['what']}")


def _shown(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an item with its time as people and scripts read it."""
    shown = {key: value for key, value in row.items() if key != "set_aside_us"}
    return shown | {"set_aside": rfc3339(int(row.get("set_aside_us", 0)))}


def _find(client: "Client", number: int) -> Mapping[str, Any]:
    for row in client.admin.aside_list():
        if row["number"] == number:
            return row
    raise Failure(
        Exit.NOT_FOUND,
        f"cannot drop item {number}",
        "nothing of that number is set aside",
        "see: qmctl aside ls",
    )
