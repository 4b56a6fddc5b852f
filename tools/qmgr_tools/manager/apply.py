"""qmctl apply and dump: what is defined at a queue manager, from a file and to one."""

from pathlib import Path
from typing import Annotated

import typer

from qmgr_tools.cli import completion, dry_run, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import counted
from qmgr_tools.manager import definitions, plan
from qmgr_tools.queue import backout

File = Annotated[
    Path,
    typer.Option(
        "--file",
        "-f",
        metavar="FILE",
        show_default=False,
        autocompletion=completion.files,
        help="The definitions, in TOML.",
    ),
]
Prune = Annotated[
    bool, typer.Option("--prune", help="Delete what the file does not name; queues only if empty.")
]


@command()
def apply(call: Call, file: File, prune: Prune = False, dry: dry_run.DryRun = False) -> None:
    """Make a queue manager have what a file defines: links, templates, queues, aliases.

    "links" lead from here; "inbound" names the queue managers that may open links to here.
    The file is as "qmctl dump" writes it. All of it is checked before anything is changed. What is
    so already stays as it is; of a queue that the file names, options that it does not give go back
    to their defaults. What it does not name stays, unless --prune is given. Inhibits, and whether a
    link is stopped, are states that nothing here changes.

    \b
    JSON: an object with
      changed    whether anything was, or would be, another
      dry_run    whether it would be only
      steps      an array: action (create, alter, delete), kind (link, inbound,
                 template, queue, alias), name, changed: [before, after] of
                 each option, null for a default
      unchanged  how many definitions of the file were so already
      kept       what --prune leaves, and why

    Examples:
      qmctl apply -f definitions.toml --dry-run
      qmctl apply -f definitions.toml
      qmctl apply -f definitions.toml --prune
    """
    wanted = definitions.read(file)
    with call.client(f"apply {file}") as client:
        there = definitions.of_manager(client)
        for conflict in plan.conflicts(wanted, there):
            raise Failure(Exit.REFUSED, f"cannot apply {file}", conflict, "nothing is changed")
        steps = list(plan.steps(wanted, there))
        unchanged = wanted.count() - len(steps)
        kept: list[str] = []
        if prune:
            depths = {row["queue"]: row.get("depth", 0) for row in client.admin.queue_list()}
            gone, kept = plan.prunings(wanted, there, depths)
            steps += gone
        for step in steps:
            if not dry:
                step.do(client)
            if not call.is_json:
                output.say(f"{'would ' * dry}{step.words()}")
    if call.is_json:
        rows = [step.row() for step in steps]
        head = {"changed": bool(steps), "dry_run": dry, "steps": rows}
        output.document({**head, "unchanged": unchanged, "kept": kept})
        return
    for name in plan.backout_queues_missing(wanted, there, steps):
        output.note(f"note: {backout.words(name)}")
    for why in kept:
        output.note(f"note: kept: {why}")
    done = "would be changed" if dry else "changed"
    output.say(f"{counted(len(steps), 'definition')} {done}, {unchanged:,} as they are")


@command()
def dump(call: Call) -> None:
    """Print what is defined, as "qmctl apply" takes it: links, templates, queues, aliases.

    TOML, whatever -o says but json: then the same as one object.

    Examples:
      qmctl dump   # behind it: > definitions.toml
    """
    with call.client("dump the definitions") as client:
        found = definitions.of_manager(client)
    if call.is_json:
        output.document(
            {
                "links": found.links,
                "inbound": {name: {"store_id": of} for name, of in found.inbound.items()},
                "templates": found.templates,
                "queues": found.queues,
                "aliases": found.aliases,
            }
        )
    else:
        print(definitions.text(found), end="")
