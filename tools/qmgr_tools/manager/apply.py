"""qmctl apply and dump: apply a file of definitions, and print all definitions."""

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
        help="The file of definitions in TOML.",
    ),
]
Prune = Annotated[
    bool,
    typer.Option(
        "--prune",
        help="Delete objects that the file does not name. Queues and links must be empty.",
    ),
]


@command()
def apply(call: Call, file: File, prune: Prune = False, dry: dry_run.DryRun = False) -> None:
    """Apply the definitions of a file: links, inbound, templates, queues, aliases, roles, users.

    In the file, "links" are outbound links, and "inbound" names the queue managers that may open
    links. The file has the format of "qmctl dump". The whole file is checked before any change.
    Objects that already match stay unchanged. If the file names a queue, options that are not in
    the file are reset to their defaults. Without --prune, objects that the file does not name are
    kept. The command changes neither inhibits nor whether a link is stopped.

    Users and roles need an administrator. A user without a verifier in the file keeps its password;
    a new one has none. --prune deletes users only if the file has a table of users, and roles only
    if it has a table of roles. The first user ends connections without a login, so create it over
    the unix socket or before.

    \b
    JSON: an object with
      changed    whether any definition changed, or would change
      dry_run    true with --dry-run
      steps      an array: action (create, alter, delete), kind (link, inbound,
                 template, queue, alias, role, user), name, changed: [before,
                 after] of each option, null for a default
      unchanged  the number of definitions in the file that already matched
      kept       objects that --prune kept, with the reasons

    Examples:
      qmctl apply -f definitions.toml --dry-run
      qmctl apply -f definitions.toml
      qmctl apply -f definitions.toml --prune
    """
    wanted = definitions.read(file)
    with call.client(f"apply {file}") as client:
        existing = definitions.of_manager(client)
        for conflict in plan.conflicts(wanted, existing):
            raise Failure(Exit.REFUSED, f"cannot apply {file}", conflict, "nothing changed")
        steps = list(plan.steps(wanted, existing))
        unchanged = wanted.count() - len(steps)
        kept: list[str] = []
        if prune:
            depths = {row["queue"]: row.get("depth", 0) for row in client.admin.queue_list()}
            deletions, kept = plan.prunings(wanted, existing, depths)
            steps += deletions
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
    for name in plan.backout_queues_missing(wanted, existing, steps):
        output.note(f"note: {backout.words(name)}")
    for why in kept:
        output.note(f"note: kept: {why}")
    done = "would change" if dry else "changed"
    output.say(f"{counted(len(steps), 'definition')} {done}, {unchanged:,} unchanged")


@command()
def dump(
    call: Call,
    no_secrets: Annotated[
        bool, typer.Option("--no-secrets", help="Leave out the verifiers of passwords.")
    ] = False,
) -> None:
    """Print all definitions for "qmctl apply".

    These are links, inbound, templates, queues and aliases. For an administrator, they are also
    roles and users. Verifiers of passwords are included, from which weak passwords can be guessed.
    Passwords are not known. The format is TOML, or one JSON object with -o json.

    Examples:
      qmctl dump   # to a file: > definitions.toml
      qmctl dump --no-secrets
    """
    with call.client("dump the definitions") as client:
        found = definitions.of_manager(client, with_secrets=not no_secrets)
    if call.is_json:
        output.document(
            {
                "links": found.links,
                "inbound": {name: {"store_id": of} for name, of in found.inbound.items()},
                "templates": found.templates,
                "queues": found.queues,
                "aliases": found.aliases,
                "roles": found.roles,
                "users": found.users,
            }
        )
    else:
        print(definitions.text(found), end="")
