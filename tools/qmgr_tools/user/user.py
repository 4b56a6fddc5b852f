"""qmctl user: ls, show, delete."""

from typing import Annotated, Any

import typer

from qmgr_tools.cli import completion, dry_run, humanize, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.humanize import counted
from qmgr_tools.grant import merged
from qmgr_tools.queue.queue import Yes
from qmgr_tools.user import limits

User = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        autocompletion=completion.users,
        help="The name of the user.",
    ),
]


def _moment(time_us: Any) -> str:
    return humanize.rfc3339(time_us) if time_us else ""


COLUMNS = (
    output.text("user"),
    output.Column("enabled", "ENABLED", output.flag),
    output.Column("has_password", "PASSWORD", output.flag),
    output.Column("roles", "ROLES", output.listed),
    output.Column("grants", "GRANTS", lambda grants: str(len(grants)), is_number=True),
    output.text("queue_manager"),
    output.Column("created_us", "CREATED", _moment),
    output.Column("password_us", "PASSWORD SET", _moment),
)
LISTED = ("user", "enabled", "has_password", "roles", "grants", "password_us")
FACTS = tuple(column for column in COLUMNS if column.key != "grants")


@command(watched=True)
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the users. GRANTS is the number of rights in addition to those of the roles.

    \b
    JSON: an array of objects with
      user, enabled              the name; whether the user may log in
      has_password               whether the user has a password
      roles                      an array of names
      grants                     an array of [right, kind, pattern], without the
                                 grants of the roles
      queue_manager              the queue manager of the user, or ""
      created_us, password_us    times of creation and of the last new password,
                                 in microseconds since 1970; 0 means never
      limits                     the limits in force; 0 is unlimited
      given                      an array of the limits that were set

    Examples:
      qmctl user ls
      qmctl user ls --where enabled=no
      qmctl user ls --where 'roles=*administrator*'
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)
    watch.follow(
        call, "list the users", lambda client: listing.rows(client.admin.user_list()), listing.show
    )


@command(watched=True)
def show(call: Call, name: User) -> None:
    """Show a user, its limits with their present use, and its grants.

    The grants of its roles: see qmctl role show. Without a limit, a line has only the present use.

    \b
    JSON: an object as in "qmctl user ls", and
      use    an object with the present use, by the names of limits without _max

    Examples:
      qmctl user show alice
    """

    def write(row: Any) -> None:
        output.facts((*FACTS, *limits.COLUMNS), row | limits.lines(row))
        merged.show(row["grants"])

    watch.follow(call, f"show user {name}", lambda client: client.admin.user_show(name), write)


@command()
def delete(call: Call, name: User, yes: Yes = False, dry: dry_run.DryRun = False) -> None:
    """Delete a user and its grants, and close its connections. Asks for confirmation.

    The last administrator can be deleted only as the last user. After that, no login is required.

    \b
    JSON: an object as in "qmctl user ls", and
      connections    number of closed connections
      with --dry-run also dry_run (true), but not connections

    Examples:
      qmctl user delete alice --dry-run
      qmctl user delete alice
    """
    doing = f"delete user {name}"
    with call.client(doing) as client:
        row: Any = client.admin.user_show(name)
        if dry:
            dry_run.show(call, row, f"{doing} with {counted(len(row['grants']), 'grant')}")
            return
        confirm(name, doing, "its grants are deleted, and its connections are closed", yes=yes)
        row = client.admin.user_delete(name)
    if call.is_json:
        output.document(row)
    else:
        output.say(f"deleted user {name}; closed {closed(row)}")


def closed(row: Any) -> str:
    """Returns the number of closed connections in words."""
    count = row.get("connections")
    return "its connections" if count is None else counted(count, "connection")
