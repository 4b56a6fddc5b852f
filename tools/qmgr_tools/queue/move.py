"""qmctl move, copy."""

from typing import TYPE_CHECKING, Annotated

import typer

from qmgr_tools.cli import completion, destination, dry_run, preview
from qmgr_tools.cli.command import Call, command
from qmgr_tools.job import run as job_run
from qmgr_tools.message import selection

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Source = Annotated[
    str,
    typer.Argument(
        metavar="FROM",
        show_default=False,
        autocompletion=completion.local_queues,
        help="A queue of this queue manager.",
    ),
]
Target = Annotated[
    str,
    typer.Argument(
        metavar="TO",
        show_default=False,
        autocompletion=completion.definitions,
        help="NAME, or NAME@MANAGER for a queue of another queue manager.",
    ),
]
MORE_HELP = (
    selection.HELP
    + """
The queue manager runs this command as a job, which continues after Ctrl-C and across restarts. If
the target queue is full, the job waits. Leased and delayed messages stay on their queue.

\b
JSON: the finished job, as in "qmctl job ls"
  with --dry-run: dry_run (true), from, to, waits (the reason why the job
  would wait, or null), delayed (messages that would stay), messages, leased,
  first (UIDs)
"""
)


@command(MORE_HELP)
def move(
    call: Call,
    source: Source,
    target: Target,
    where: selection.Where = "",
    limit: job_run.Limit = 0,
    rate: job_run.Rate = 0,
    detach: job_run.Detach = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Move messages from one queue to another, in order and with their UIDs.

    Examples:
      qmctl move ORDERS ORDERS.OLD
      qmctl move ORDERS PARIS --where "city = 'Paris'" --dry-run
      qmctl move ORDERS ORDERS@NYC --limit 1000 --rate 50
    """
    _start(call, source, target, where, limit, rate, detach=detach, dry=dry, is_copy=False)


@command(MORE_HELP)
def copy(
    call: Call,
    source: Source,
    target: Target,
    where: selection.Where = "",
    limit: job_run.Limit = 0,
    rate: job_run.Rate = 0,
    detach: job_run.Detach = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Copy messages from one queue to another with their UIDs, except existing ones.

    Examples:
      qmctl copy ORDERS ORDERS.TEST --limit 100
      qmctl copy ORDERS AUDIT --where 'size > 100000' --detach
    """
    _start(call, source, target, where, limit, rate, detach=detach, dry=dry, is_copy=True)


def _start(
    call: Call,
    source: str,
    target: str,
    where: str,
    limit: int,
    rate: int,
    *,
    detach: bool,
    dry: bool,
    is_copy: bool,
) -> None:
    verb, done = ("copy", "copied") if is_copy else ("move", "moved")
    with call.client(f"{verb} from {source} to {target}", source) as client:
        if dry:
            _preview(call, client, verb, source, target, where, limit)
            return
        row = client.admin.queue_move(
            source, target, where=where, messages_max=limit, rate=rate, copy=is_copy, retries_max=0
        )
        job_run.run(call, client, row, done, detach=detach)


def _preview(
    call: Call, client: "Client", verb: str, source: str, target: str, where: str, limit: int
) -> None:
    """Prints the messages that the job would move."""
    local = destination.source(client, source)
    destination.waits(client, local, target, 0)  # Check the target before reading the source.
    found = preview.preview(client, local, where, limit)
    waits = destination.waits(client, local, target, found.messages)
    delayed = int(client.admin.queue_show(local).get("delayed", 0))
    facts = {"from": source, "to": target, "waits": waits or None, "delayed": delayed}
    found = found._replace(stay={"they are delayed": delayed} if delayed else {})
    preview.show(call, found, facts, f"{verb} {{messages}} from {source} to {target}", waits)
