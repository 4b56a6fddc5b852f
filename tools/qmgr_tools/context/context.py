"""qmctl context: create, ls, use, show, delete."""

import os
from typing import Annotated

import typer

from qmgr_protocol.name import NAME_MAX, is_name
from qmgr_tools.cli import completion, dry_run, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure, usage
from qmgr_tools.context import file as context_file
from qmgr_tools.context.target import CONTEXT_ENVIRONMENT, DEFAULT, ENVIRONMENT, ORDER, checked

MORE_HELP = f"""A command connects to the address in the first of these settings that is present:

\b
{ORDER}

Contexts are stored in $XDG_CONFIG_HOME/qmctl/contexts.json. The default directory is ~/.config.
"""

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        show_default=False,
        autocompletion=completion.contexts,
        help=f"A name of 1 to {NAME_MAX} characters: A-Z a-z 0-9 . _ -",
    ),
]
COLUMNS = (output.text("mark", "CURRENT"), output.text("context"), output.text("address"))
FACTS = (output.text("context"), output.text("address"), output.text("source", "chosen by"))


@command(local=True)
def create(
    call: Call,
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            help=f"A name of 1 to {NAME_MAX} characters: A-Z a-z 0-9 . _ -",
        ),
    ],
    address: Annotated[
        str, typer.Argument(metavar="ADDRESS", show_default=False, help="HOST:PORT or unix:/PATH.")
    ],
    use: Annotated[bool, typer.Option("--use", help="Make this the current context.")] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Replace the address of an existing context.")
    ] = False,
) -> None:
    """Create a context: a name for an address.

    JSON: an object with context, address, current (true or false).

    Examples:
      qmctl context create nyc 10.0.0.5:7470 --use
      qmctl context create here unix:/var/lib/qmgrd/qmgrd.sock
    """
    if not is_name(name):
        why = f"a name has 1 to {NAME_MAX} characters: A-Z a-z 0-9 . _ -"
        raise usage(f"cannot create context {name[:80]!r}", why)
    address = checked(address, "ADDRESS")
    with context_file.change(os.environ) as contexts:
        before = contexts.addresses.get(name, address)
        if before != address and not replace:
            raise Failure(
                Exit.REFUSED,
                f"cannot create context {name}",
                f"it already exists, with address {before}",
                "use --replace, or choose another name",
            )
        contexts.addresses[name] = address
        contexts.current = name if use else contexts.current
    is_current = contexts.current == name
    words = f"context {name} has address {address}"
    hint = "" if is_current else f"; to make it the current context: qmctl context use {name}"
    words += " and is the current context" if use else hint
    _show(call, name, address, is_current, words)


@command(local=True)
def ls(call: Call) -> None:
    """List the contexts; * marks the current one.

    JSON: an array of objects with context, address, current (true or false).

    Examples:
      qmctl context ls
      qmctl context ls -o json
    """
    contexts = context_file.load(os.environ)
    rows = [_row(name, at, contexts.current) for name, at in sorted(contexts.addresses.items())]
    if call.is_json:
        output.document(rows)
        return
    output.table(COLUMNS, [row | {"mark": "*" if row["current"] else ""} for row in rows])
    for variable in (ENVIRONMENT, CONTEXT_ENVIRONMENT):
        if value := os.environ.get(variable):
            output.note(f"{variable}={value} overrides the current context")
            break


@command(local=True)
def use(
    call: Call,
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            show_default=False,
            autocompletion=completion.contexts,
            help="An existing context.",
        ),
    ] = None,
    none: Annotated[
        bool, typer.Option("--none", help=f"Use no context. The default is {DEFAULT} again.")
    ] = False,
) -> None:
    """Make a context the current one: later commands connect to its address.

    JSON: an object with context, address, current; with --none they are null, null, false.

    Examples:
      qmctl context use nyc
      qmctl context use --none
    """
    if none == (name is not None):
        raise usage("cannot select a context", "exactly one of NAME and --none is required")
    with context_file.change(os.environ) as contexts:
        address = None if name is None else contexts.address(name)
        contexts.current = name or ""
    words = f"the current context is {name}: {address}" if name else "there is no current context"
    _show(call, name, address, name is not None, words)


@command()
def show(call: Call) -> None:
    """Show the address to which commands connect, and its source. This command does not connect.

    JSON: an object with context (or null), address, source (the setting that is used).

    Examples:
      qmctl context show
      qmctl context show --context nyc
    """
    found = call.target()
    row = {"context": found.context or None, "address": found.address, "source": found.source}
    if call.is_json:
        output.document(row)
    else:
        output.facts(FACTS, row)


@command(local=True)
def delete(call: Call, name: Name, dry: dry_run.DryRun = False) -> None:
    """Delete a context. The queue manager is not affected.

    JSON: an object with context, address, current (whether it was the current one).

    Examples:
      qmctl context delete nyc
      qmctl context delete nyc --dry-run
    """
    if dry:
        contexts = context_file.load(os.environ)
        row = _row(name, contexts.address(name), contexts.current)
        dry_run.show(call, row, f"delete context {name}, with address {row['address']}")
        return
    with context_file.change(os.environ) as contexts:
        address = contexts.address(name)
        was_current = contexts.current == name
        del contexts.addresses[name]
        contexts.current = "" if was_current else contexts.current
    words = f"deleted context {name}, with address {address}"
    words += "; there is no current context" if was_current else ""
    _show(call, name, address, was_current, words)


def _row(name: str | None, address: str | None, current: str) -> dict[str, object]:
    return {"context": name, "address": address, "current": name is not None and name == current}


def _show(call: Call, name: str | None, address: str | None, is_current: bool, words: str) -> None:
    if call.is_json:
        output.document({"context": name, "address": address, "current": is_current})
    else:
        output.say(words)
