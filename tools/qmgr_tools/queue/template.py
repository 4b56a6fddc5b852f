"""qmctl template: ls, show, set, delete."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, output
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import counted
from qmgr_tools.queue import attribute as queue_attribute
from qmgr_tools.queue import backout

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Pattern = Annotated[
    str,
    typer.Argument(
        metavar="PATTERN",
        show_default=False,
        autocompletion=completion.templates,
        help="A pattern for queue names; * matches any characters: 'APP.*'.",
    ),
]
FLAT = (output.text("pattern"), output.count("queues"))
COLUMNS = (*FLAT, *queue_attribute.COLUMNS)
LISTED = ("pattern", "queues", "gives")


def _gives(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the row of a template with its attributes, separately and as one string."""
    given = row["attributes"]
    words = (
        f"{queue_attribute.label(column.key)} {column.cell(given)}"
        for column in queue_attribute.COLUMNS
        if column.key in given
    )
    return {**row, **given, "gives": "; ".join(words)}


@command()
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the templates in order of their patterns.

    JSON: an array of objects as in "qmctl template show".

    Examples:
      qmctl template ls
      qmctl template ls --where 'queues=0'
    """
    listing = filters.Listing(
        (*COLUMNS, output.long_text("gives")), LISTED, columns, where or [], sort, limit
    )
    with call.client("list the templates") as client:
        rows = listing.rows(map(_gives, client.admin.template_list()))
    if call.is_json:
        output.document(
            [{key: row[key] for key in ("pattern", "queues", "attributes")} for row in rows]
        )
    else:
        listing.show(rows)


@command()
def show(call: Call, pattern: Pattern) -> None:
    """Show a template: its attributes, and the number of queues that use it.

    \b
    JSON: an object with
      pattern
      queues      the number of queues to which it applies
      attributes  an object: the attributes, with the keys of "qmctl queue show"

    Examples:
      qmctl template show 'APP.*'
    """
    with call.client(f"show template {pattern}") as client:
        row = _found(client, pattern)
    if call.is_json:
        output.document(row)
        return
    output.facts(FLAT, row)
    for section, columns in queue_attribute.SECTIONS.items():
        if any(column.key in row["attributes"] for column in columns):
            output.facts(columns, row["attributes"], f"\n{section}")


def _found(client: "Client", pattern: str) -> Mapping[str, Any]:
    for row in client.admin.template_list():
        if row["pattern"] == pattern:
            return row
    raise Failure(
        Exit.NOT_FOUND,
        f"cannot show template {pattern}",
        "the template does not exist",
        "see: qmctl template ls",
    )


@command(options=queue_attribute.options(takes_default=False))
def set_(call: Call, pattern: Pattern, **attributes: Any) -> None:
    """Set options for all present and future local queues whose names match a pattern.

    The given options replace the options of the template immediately. If several templates match a
    name, only the template with the most characters other than * applies. Options of a queue
    override the options of its template. Names that start with SYSTEM. match only patterns that
    start with SYSTEM.

    \b
    JSON: the template as in "qmctl template show", and
      created  whether the template is new
      changed  an object: [before, after] of each changed option

    Examples:
      qmctl template set 'APP.*' --depth-max 100000 --retry-initial 1s
      qmctl template set '*' --expiry-max 30d
    """
    with call.client(f"set template {pattern}") as client:
        given = queue_attribute.given(attributes)
        row = client.admin.template_set(pattern, **given)
        if not call.is_json:
            backout.note_missing(client, given.get("backout_queue"))
    if call.is_json:
        output.document(row)
        return
    queues = counted(row["queues"], "queue")
    if not row["created"] and not row["changed"]:
        output.say(f"template {pattern} is unchanged; it applies to {queues}")
        return
    verb = "created" if row["created"] else "altered"
    changes = "; ".join(queue_attribute.changes(row["changed"]))
    output.say(
        f"{verb} template {pattern}, which applies to {queues}{': ' * bool(changes)}{changes}"
    )


@command()
def delete(call: Call, pattern: Pattern) -> None:
    """Delete a template. Its queues use the next matching template, or the defaults.

    JSON: an object with pattern and queues (the number of queues to which it applied).

    Examples:
      qmctl template delete 'APP.*'
    """
    with call.client(f"delete template {pattern}") as client:
        row = client.admin.template_delete(pattern)
    if call.is_json:
        output.document({"pattern": pattern, "queues": row["queues"]})
    else:
        used = "" if row["queues"] is None else f"; it applied to {counted(row['queues'], 'queue')}"
        output.say(f"deleted template {pattern}{used}")
