"""qmctl connection: ls, close."""

from typing import Annotated

import typer

from qmgr_tools.cli import completion, dry_run, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import counted, messages
from qmgr_tools.queue.queue import Yes

COLUMNS = (
    output.count("connection", "ID"),
    output.name("name"),
    output.text("user"),
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
    output.text("delayed_by"),
    output.duration("delay_ms", "DELAY"),
    output.duration("token_ms", "TOKEN ENDS IN"),
    output.name("software"),
)
LISTED = (
    "connection",
    "name",
    "user",
    "kind",
    "address",
    "open_ms",
    "consumers",
    "units",
    "leased",
)


@command(watched=True)
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the open connections in order of age, including the connection of this command.

    Conditions support = != < <= > >=. Text matches patterns: --where 'name=app.*'.

    \b
    JSON: an array of objects with
      connection                   number of the connection, which is not reused
                                   until a restart
      kind                         client; inbound, outbound (links)
      name, software, address      as reported by the peer; its address
      user                         the user that logged in, or ""
      open_ms                      time since the connection was opened
      consumers, gets, streams     open consumers; waiting gets; streams of puts
      units                        open units of work
      leased                       leased messages, including those of the units
      waiting, waiting_bytes       requests received, but not processed
      unsent_bytes                 size of the replies that the peer has not read
      delayed_by                   why its next request waits: rate (of its user),
                                   unread (replies of it or its user), or ""
      delay_ms                     for rate: the least time until it continues
      token_ms                     time until its token ends, or null

    Examples:
      qmctl connection ls
      qmctl connection ls --where 'leased>0' --sort -leased --watch
      qmctl connection ls --columns connection,name,software
      qmctl connection ls --columns connection,user,delayed_by,delay_ms,token_ms
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
            help='The id from "qmctl connection ls".',
        ),
    ],
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Close a connection, and return its leased messages. Asks for confirmation.

    The pending requests of a client fail, and the client does not reconnect. A link reconnects.

    \b
    JSON: the connection before the command, as in "qmctl connection ls"
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
                "the connection does not exist or is already closed",
                "see: qmctl connection ls",
            )
        doing = f"close connection {connection} of {found.get('name')}"
        leased = messages(found.get("leased", 0))
        if dry:
            dry_run.show(call, found, f"{doing}, which has leased {leased}")
            return
        leases = counted(found.get("leased", 0), "leased message")
        effect = f"{leases} can be delivered again"
        confirm(str(connection), doing, effect, yes=yes)
        row = client.admin.connection_close(connection)
    if call.is_json:
        output.document(row)
    else:
        back = messages(row.get("leased", 0))
        output.say(f"closed connection {connection} of {row.get('name')}; it had leased {back}")
