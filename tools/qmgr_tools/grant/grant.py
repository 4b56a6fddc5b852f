"""qmctl grant: create, delete, ls."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.need import GRANTED_KINDS
from qmgr_tools.cli import completion, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import usage
from qmgr_tools.grant import merged

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

_WIDTH = max(map(len, GRANTED_KINDS)) + 2
KINDS = "\n".join(
    ["\b", "The rights that exist for each KIND:"]
    + [
        f"  {kind:{_WIDTH}}{' '.join(right.value for right in rights)}"
        for kind, rights in GRANTED_KINDS.items()
    ]
)
MORE_HELP = f"""In PATTERN, * matches any characters. Names that begin with SYSTEM. or contain @
match only patterns that do so, too. For topics, PATTERN is a filter such as flights/#. The kind
manager has no PATTERN.

{KINDS}

To log in as another user for this command, give --user and --password-file before "grant".
"""
User = Annotated[
    str,
    typer.Option(
        "--user",
        metavar="USER",
        show_default=False,
        autocompletion=completion.users,
        help="The user that has the rights.",
    ),
]
Role = Annotated[
    str,
    typer.Option(
        "--role",
        metavar="ROLE",
        show_default=False,
        autocompletion=completion.roles,
        help="The role that has the rights.",
    ),
]
Rights = Annotated[
    str,
    typer.Argument(
        metavar="RIGHT[,RIGHT...]",
        show_default=False,
        autocompletion=completion.rights,
        help="The rights, separated by commas.",
    ),
]
Kind = Annotated[
    str,
    typer.Argument(
        metavar="KIND",
        show_default=False,
        autocompletion=completion.kinds,
        help=f"The kind of objects: {', '.join(GRANTED_KINDS)}.",
    ),
]
Pattern = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN", show_default=False, help="The names of the objects, as in ORDERS.*"
    ),
]
COLUMNS = (output.text("subject"), *merged.COLUMNS)
LISTED = tuple(column.key for column in COLUMNS)


@command(MORE_HELP)
def create(
    call: Call, rights: Rights, kind: Kind, pattern: Pattern = "", user: User = "", role: Role = ""
) -> None:
    """Grant rights to a user, or to all users with a role. They are in force at once.

    JSON: an object as in "qmctl user ls" or "qmctl role ls", after the change.

    Examples:
      qmctl grant create --user billing get,browse queue 'BILL.*'
      qmctl grant create --role gates publish topic 'flights/#'
      qmctl grant create --role gates show manager
    """
    doing = f"grant rights on {_objects(kind, pattern)}"
    wanted = _checked(doing, rights, kind, pattern, user, role)
    with call.client(doing) as client:
        row = client.admin.grant_create(wanted, kind, pattern, user=user, role=role)
    _show(call, row, f"granted {_words(wanted, kind, pattern)} to {_subject(user, role)}")


@command(MORE_HELP)
def delete(
    call: Call, rights: Rights, kind: Kind, pattern: Pattern = "", user: User = "", role: Role = ""
) -> None:
    """Revoke rights of a user or a role. Open connections lose the rights at once.

    KIND and PATTERN must be those of "qmctl grant ls". If one of the rights was not granted, no
    right is revoked.

    JSON: an object as in "qmctl user ls" or "qmctl role ls", after the change.

    Examples:
      qmctl grant delete --user billing browse queue 'BILL.*'
    """
    doing = f"revoke rights on {_objects(kind, pattern)}"
    wanted = _checked(doing, rights, kind, pattern, user, role)
    with call.client(doing) as client:
        row = client.admin.grant_delete(wanted, kind, pattern, user=user, role=role)
    _show(call, row, f"revoked {_words(wanted, kind, pattern)} of {_subject(user, role)}")


def _checked(doing: str, rights: str, kind: str, pattern: str, user: str, role: str) -> list[str]:
    """Returns the names in *rights*.

    Raises:
        Failure: USAGE if not exactly one of *user* and *role* is given, or not exactly one pattern.
    """
    what = f"cannot {doing}"
    if bool(user) == bool(role):
        raise usage(what, "exactly one of --user and --role is required")
    if not pattern and kind in GRANTED_KINDS and kind != "manager":
        every = "'#'" if kind == "topic" else "'*'"
        raise usage(what, f"a PATTERN of names is required for kind {kind}", f"for all: {every}")
    if "," in pattern and kind != "topic":  # No other name has a comma.
        raise usage(what, "each grant has one PATTERN", "repeat the command for each pattern")
    return [right.strip() for right in rights.split(",") if right.strip()]


def _objects(kind: str, pattern: str) -> str:
    return f"{kind} {pattern}" if pattern else f"kind {kind}"


def _words(rights: list[str], kind: str, pattern: str) -> str:
    on = f"{kind} {pattern}" if pattern else "the queue manager itself"
    return f"{output.listed(rights)} on {on}"


def _subject(user: str, role: str) -> str:
    return f"user {user}" if user else f"role {role}"


def _show(call: Call, row: Any, words: str) -> None:
    if call.is_json:
        output.document(row)
    else:
        output.say(words)


@command(watched=True)
def ls(
    call: Call,
    built_in: Annotated[
        bool, typer.Option("--built-in", help="Include the grants of built-in roles.")
    ] = False,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the grants of all users and roles. One row has all rights on the same pattern.

    \b
    JSON: an array of objects with
      subject          user NAME or role NAME
      user, role       the name of the one, and null for the other
      rights           an array of rights
      kind, pattern    the kind and the names of the objects

    Examples:
      qmctl grant ls
      qmctl grant ls --where 'subject=user billing'
      qmctl grant ls --built-in --where 'rights=*put*'
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)

    def ask(client: "Client") -> Any:
        found: list[dict[str, Any]] = []
        for user in client.admin.user_list():
            of_user = {"user": user["user"], "role": None}
            found += _rows(f"user {user['user']}", of_user, user["grants"])
        for role in client.admin.role_list():
            if built_in or not role["built_in"]:
                of_role = {"user": None, "role": role["role"]}
                found += _rows(f"role {role['role']}", of_role, role["grants"])
        return listing.rows(found)

    watch.follow(call, "list the grants", ask, listing.show)


def _rows(subject: str, names: dict[str, Any], grants: list[list[str]]) -> list[dict[str, Any]]:
    return [{"subject": subject, **names, **row} for row in merged.rows(grants)]
