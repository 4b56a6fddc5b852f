"""qmctl connection: ls, close."""

from typing import Annotated

import typer

from qmgr_tools import filter as filters
from qmgr_tools import output
from qmgr_tools.command import Call, command, confirm
from qmgr_tools.failure import Exit, Failure
from qmgr_tools.humane import messages
from qmgr_tools.queue import Yes

HELP = "Connections of clients and links: ls, close."
app = typer.Typer(help=HELP, short_help=HELP, no_args_is_help=True)

COLUMNS = (
    output.count("connection", "ID"),
    output.text("name"),
    output.text("kind"),
    output.text("address"),
    output.duration("open_ms", "OPEN FOR"),
    output.count("consumers"),
    output.count("gets", "WAITING GETS"),
    output.count("leased"),
    output.count("streams"),
    output.count("waiting"),
    output.size("waiting_bytes", "WAITING SIZE"),
    output.size("unsent_bytes", "UNSENT"),
    output.text("software"),
)
LISTED = ("connection", "name", "kind", "address", "open_ms", "consumers", "leased", "waiting")


@command(app, "ls")
def ls(
    call: Call,
    columns: Annotated[
        str | None,
        typer.Option(metavar="A,B,...", help='Which columns; "all" for all.', show_default=False),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="As in 'leased>0'; repeatable.", show_default=False),
    ] = None,
    sort: Annotated[
        str | None,
        typer.Option(metavar="[-]COLUMN", help="-leased: the highest first.", show_default=False),
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="At most so many.", show_default=False)
    ] = None,
) -> None:
    """List the open connections, in order of age. This one is among them.

    \b
    JSON: an array of objects with
      connection                   its number: never used again until a restart
      kind                         client; inbound, outbound: of a link
      name, software, address      as the peer says; where it is
      open_ms                      for how long it is open
      consumers, gets, streams     open; waiting; of numbered puts
      leased                       messages that it holds
      waiting, waiting_bytes       arrived, and in no turn yet
      unsent_bytes                 of answers that it has not fetched
    """
    shown = filters.columns(columns, COLUMNS, LISTED)
    filters.rows([], COLUMNS, where or [], sort, limit)  # What cannot be is said before asking.
    with call.client("list the connections") as client:
        found = client.connection_list()
    rows = filters.rows(found, COLUMNS, where or [], sort, limit)
    if call.is_json:
        output.document(rows)
    else:
        output.table(shown, rows)


@command(app, "close")
def close(
    call: Call,
    connection: Annotated[
        int,
        typer.Argument(
            metavar="ID", min=1, max=2**63 - 1, show_default=False,
            help='As "qmctl connection ls" shows it.',
        ),
    ],
    yes: Yes = False,
) -> None:  # fmt: skip
    """Close a connection; what it has leased comes back. Asks first.

    A client is told to stay away, and what it has open fails; a link dials again.

    JSON: the connection as it was, as "qmctl connection ls" gives it.
    """
    with call.client(f"close connection {connection}") as client:
        found = {row["connection"]: row for row in client.connection_list()}.get(connection)
        if found is None:
            raise Failure(
                Exit.NOT_FOUND, f"cannot close connection {connection}",
                "it is not there, or has ended", "see: qmctl connection ls",
            )  # fmt: skip
        name = str(found.get("name"))
        doing = f"close connection {connection} of {name}"
        confirm(str(connection), doing, f"{messages(found.get('leased', 0))} on it come back",
                yes=yes)  # fmt: skip
        row = client.connection_close(connection)
    if call.is_json:
        output.document(row)
    else:
        back = messages(row.get("leased", 0))
        output.say(f"closed connection {connection} of {name}; {back} of it come back")
