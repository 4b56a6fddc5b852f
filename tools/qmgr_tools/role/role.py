"""qmctl role: create, ls, show, delete."""

from typing import Annotated, Any

import typer

from qmgr_tools.cli import completion, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.humanize import counted
from qmgr_tools.grant import merged

Role = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        autocompletion=completion.roles,
        help="The name of the role.",
    ),
]
NewRole = Annotated[
    str, typer.Argument(metavar="NAME", show_default=False, help="The name of the new role.")
]
COLUMNS = (
    output.text("role"),
    output.Column("built_in", "BUILT IN", output.flag),
    output.Column("grants", "GRANTS", lambda grants: str(len(grants)), is_number=True),
    output.count("users"),
)
LISTED = tuple(column.key for column in COLUMNS)
FACTS = tuple(column for column in COLUMNS if column.key != "grants")


@command()
def create(call: Call, name: NewRole) -> None:
    """Create a role without grants.

    JSON: an object as in "qmctl role ls".

    Examples:
      qmctl role create gates
    """
    with call.client(f"create role {name}") as client:
        row = client.admin.role_create(name)
    hint = f"to grant it rights: qmctl grant create --role {name} RIGHT KIND PATTERN"
    _show(call, row, f"created role {name}; {hint}")


@command(watched=True)
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the roles. Built-in roles cannot be changed.

    The role administrator has no grants: its users have all rights, also on users and roles.

    \b
    JSON: an array of objects with
      role, built_in    the name; whether the role is built in
      grants            an array of [right, kind, pattern]
      users             number of users who have the role

    Examples:
      qmctl role ls
      qmctl role ls --where built_in=no
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)
    watch.follow(
        call, "list the roles", lambda client: listing.rows(client.admin.role_list()), listing.show
    )


@command(watched=True)
def show(call: Call, name: Role) -> None:
    """Show a role and its grants.

    JSON: an object as in "qmctl role ls".

    Examples:
      qmctl role show operator
    """

    def write(row: Any) -> None:
        output.facts(FACTS, row)
        merged.show(row["grants"])

    watch.follow(call, f"show role {name}", lambda client: client.admin.role_show(name), write)


@command()
def delete(call: Call, name: Role) -> None:
    """Delete a role and its grants. The role must not have users.

    JSON: the role before the command, as in "qmctl role ls".

    Examples:
      qmctl role delete gates
    """
    with call.client(f"delete role {name}") as client:
        row: Any = client.admin.role_delete(name)
    _show(call, row, f"deleted role {name}, with {counted(len(row['grants']), 'grant')}")


def _show(call: Call, row: Any, words: str) -> None:
    if call.is_json:
        output.document(row)
    else:
        output.say(words)
