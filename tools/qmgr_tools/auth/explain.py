"""qmctl auth explain: the grants that decide whether a user may send a request."""

from collections.abc import Sequence
from typing import Annotated, Any

import typer

from qmgr_tools.auth.request_field import FieldUse, fields, spelled
from qmgr_tools.cli import completion, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, usage
from qmgr_tools.user.user import User

YES, NO = ("true", "yes"), ("false", "no")


COLUMNS = (
    output.text("right"),
    output.text("kind"),
    output.text("name"),
    output.Column("allowed", "ALLOWED", output.flag),
    output.text("by"),
)


@command()
def explain(
    call: Call,
    user: User,
    operation: Annotated[
        str,
        typer.Argument(
            metavar="OPERATION",
            show_default=False,
            autocompletion=completion.operations,
            help="A request of the protocol, such as Put or QueueMove, in any case.",
        ),
    ],
    values: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FIELD=VALUE",
            show_default=False,
            autocompletion=completion.fields,
            help="The fields of the request that name objects; repeat a FIELD for a list. "
            "LinkOpen and LinkFetch: manager=NAME, by default the queue manager of the user.",
        ),
    ] = None,
) -> None:
    """Show the rights that a request needs, whether a user has them, and by which grant.

    The exit code is 0 if the user may send the request, else 4. The command does not send the
    request.

    \b
    JSON: an object with
      user, enabled     the name; whether the user may log in
      operation         the request
      allowed           true or false
      decisions         an array of objects with right, kind, name (of the object,
                        * for all), allowed, and by (the grant, or the role
                        administrator; empty if the right is lacking)

    Examples:
      qmctl auth explain billing Put queue=ORDERS
      qmctl auth explain billing QueueMove queue=BILLS target=OLD.BILLS
      qmctl auth explain alice QueueDelete queue=ORDERS purge=yes
      qmctl auth explain EWR LinkOpen manager=EWR
    """
    operation = spelled(operation)
    doing = f"explain {operation}"
    wanted = _values(doing, operation, values or ())
    with call.client(doing) as client:
        row: Any = client.admin.access_explain(user, operation, wanted)
    if call.is_json:
        output.document(row)
    else:
        _show(row)
    if not row["allowed"]:
        raise typer.Exit(Exit.NOT_ALLOWED)


def _show(row: Any) -> None:
    user, operation = row["user"], row["operation"]
    if row["decisions"]:
        output.table(COLUMNS, row["decisions"])
    else:
        output.say(f"{operation} needs no right on these objects")
    if not row["enabled"]:
        output.say(f"user {user} may not send {operation}, because the user is disabled")
    elif not row["allowed"]:
        output.say(f"user {user} may not send {operation}")
    else:
        output.say(f"user {user} may send {operation}")


def _values(doing: str, operation: str, given: Sequence[str]) -> dict[str, Any]:
    """Returns the values of FIELD=VALUE words. A repeated field has a list of values.

    Raises:
        Failure: USAGE if a word is invalid, the request has no such field, or a field is missing.
    """
    found: dict[str, Any] = {}
    known = fields(operation)
    for word in given:
        field, mark, value = word.partition("=")
        if not mark:
            raise usage(f"cannot {doing}", f"{word[:80]!r} is not FIELD=VALUE")
        if known is not None and field not in known:
            why = f"no object of {operation} is named by a field {field[:80]!r}"
            raise usage(f"cannot {doing}", why, _shown(known))
        if known is not None and known[field] is FieldUse.FLAG:
            found[field] = _flag(doing, word, value)
        elif field in found:
            before = found[field]
            found[field] = [*(before if isinstance(before, list) else [before]), value]
        else:
            found[field] = value
    required = [field for field, use in (known or {}).items() if use is FieldUse.REQUIRED]
    if required and not any(field in found for field in required):
        why = f"{operation} names an object in the field {' or '.join(required)}"
        raise usage(f"cannot {doing}", why, f"add {required[0]}=NAME")
    return found


def _shown(known: dict[str, FieldUse]) -> str:
    return f"the fields are: {', '.join(known)}" if known else "this request names no object"


def _flag(doing: str, word: str, value: str) -> bool:
    if value not in YES + NO:
        raise usage(f"cannot {doing}", f"{word[:80]} is neither yes nor no")
    return value in YES
