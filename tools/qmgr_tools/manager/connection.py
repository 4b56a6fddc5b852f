"""qmctl connection: ls, close."""

from typing import Annotated

import typer

from qmgr_tools.cli import completion, dry_run, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import messages
from qmgr_tools.queue.queue import Yes

COLUMNS = (
    output.count("connection", "ID"),
    output.name("name"),
    output.text("kind"),
    output.name("address"),
    output.duration("open_ms", "OPEN FOR"),
    output.count("consumers"),
    output.count("gets", "WAITING GETS"),
    output.count("units"),
    output.count("leased"),
    output.count("streams"),
    output.count("waiting"),
    output.size("waiting_bytes", "WAITING SIZE"),
    output.size("unsent_bytes", "UNSENT"),
    output.name("software"),
)
LISTED = ("connection", "name", "kind", "address", "open_ms", "consumers", "units", "leased")


@command(watched=True)
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the open connections, in order of age. This one is among them.

    Conditions know = != < <= > >=; text fits patterns: --where 'name=app.*'.

    \b
    JSON: an array of objects with
      connection                   its number: never used again until a restart
      kind                         client; inbound, outbound: of a link
      name, software, address      as the peer says; where it is
      open_ms                      for how long it is open
      consumers, gets, streams     open; waiting; of numbered puts
      units                        units of work that are open
      leased                       messages that it holds, those of its units too
      waiting, waiting_bytes       arrived, and in no turn yet
      unsent_bytes                 of answers that it has not fetched

    Examples:
      qmctl connection ls
      qmctl connection ls --where 'leased>0' --sort -leased --watch
      qmctl connection ls --columns connection,name,software
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)
    watch.follow(
        call,
        "list the connections",
        lambda client: listing.rows(client.admin.connection_list()),
        listing.show,
    )


@command()
def close(
    call: Call,
    connection: Annotated[
        int,
        typer.Argument(
            metavar="ID",
            min=1,
            max=2**63 - 1,
            show_default=False,
            autocompletion=completion.connections,
            help='As "qmctl connection ls" shows it.',
        ),
    ],
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Close a connection; what it has leased comes back. Asks first.

    A client is told to stay away, and what it has open fails; a link dials again.

    \b
    JSON: the connection as it was, as "qmctl connection ls" gives it
      with --dry-run also dry_run (true)

    Examples:
      qmctl connection close 17 --dry-run
      qmctl connection close 17
    """
    with call.client(f"close connection {connection}") as client:
        found = {row["connection"]: row for row in client.admin.connection_list()}.get(connection)
        if found is None:
            raise Failure(
                Exit.NOT_FOUND,
                f"cannot close connection {connection}",
                "it is not there, or has ended",
                "see: qmctl connection ls",
            )
        doing = f"close connection {connection} of {found.get('name')}"
        leased = messages(found.get("leased", 0))
        if dry:
            dry_run.tell(call, found, f"{doing}, which holds {leased}")
            return
        confirm(str(connection), doing, f"it holds {leased}, which others get then", yes=yes)
        row = client.admin.connection_close(connection)
    if call.is_json:
        output.document(row)
    else:
        back = messages(row.get("leased", 0))
        output.say(f"closed connection {connection} of {row.get('name')}; it held {back}")
