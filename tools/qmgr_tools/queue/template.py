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
        help="What names hold, and * for any run of it: 'APP.*'.",
    ),
]
FLAT = (output.text("pattern"), output.count("queues"))
COLUMNS = (*FLAT, *queue_attribute.COLUMNS)
LISTED = ("pattern", "queues", "gives")


def _gives(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a template with what it gives, in words, and each of that by its name."""
    given = row["attributes"]
    words = (
        f"{queue_attribute.said(column.key)} {column.cell(given)}"
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
    """List the templates, in order of their patterns.

    JSON: an array of objects: the templates, as "qmctl template show" gives them.

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
    """Show a template: what it gives, and how many queues have it.

    \b
    JSON: an object with
      pattern
      queues      for how many queues it is the one in force
      attributes  an object: what it gives, by the names of "qmctl queue show"

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
        f"there is no template {pattern}",
        "see: qmctl template ls",
    )


@command(options=queue_attribute.options(takes_default=False))
def set_(call: Call, pattern: Pattern, **attributes: Any) -> None:
    """Give options to all local queues whose names fit a pattern, those to come as well.

    The template has just these options from now on, in force at once. Of several templates that fit
    a name the one with the most characters beside * is in force, and gives all. What a queue was
    given itself goes before. Names that start with SYSTEM. fit only patterns that start so.

    \b
    JSON: the template, as "qmctl template show" gives it, and
      created  whether there was none
      changed  an object: [before, after] of each option that is another now

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
        output.say(f"nothing to change in template {pattern}, in force for {queues}")
        return
    verb = "created" if row["created"] else "altered"
    told = "; ".join(queue_attribute.changes(row["changed"]))
    output.say(f"{verb} template {pattern}, in force for {queues}{': ' * bool(told)}{told}")


@command()
def delete(call: Call, pattern: Pattern) -> None:
    """Delete a template; its queues have the next one that fits, or the defaults.

    JSON: an object with pattern and queues, for how many it was in force.

    Examples:
      qmctl template delete 'APP.*'
    """
    with call.client(f"delete template {pattern}") as client:
        row = client.admin.template_delete(pattern)
    if call.is_json:
        output.document({"pattern": pattern, "queues": row["queues"]})
    else:
        held = "" if row["queues"] is None else f", which {counted(row['queues'], 'queue')} had"
        output.say(f"deleted template {pattern}{held}")
