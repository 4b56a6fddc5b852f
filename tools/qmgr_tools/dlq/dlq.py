"""qmctl dlq: ls, show, retry, drop."""

from typing import TYPE_CHECKING, Annotated

import typer

from qmgr_tools.cli import completion, dry_run, option, output, preview
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.failure import Exit, Failure, usage
from qmgr_tools.cli.humanize import messages
from qmgr_tools.dlq import retry as dlq_retry
from qmgr_tools.dlq import text as dlq_text
from qmgr_tools.job import run as job_run
from qmgr_tools.message import selecting, selector_hint
from qmgr_tools.message.browse import first, tell_cut
from qmgr_tools.queue.queue import Yes
from qmgrd.core.catalogue.system import DEAD_LETTERS

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

LISTED_MAX = 100
COLUMNS = dlq_text.COLUMNS
SELECTORS = """\b
A selector, as "dead_queue = 'ORDERS' AND dead_retries < 2", knows of dead
letters dead_code, dead_reason, dead_text, dead_queue, dead_manager, dead_us,
dead_failed, dead_delivered, dead_retries, and all that docs/SELECTORS.md has.
"""

Queue = Annotated[
    str,
    typer.Option(
        "--queue",
        metavar="QUEUE",
        autocompletion=completion.local_queues,
        help="Or a backout queue.",
    ),
]
Uid = Annotated[
    str,
    typer.Argument(
        metavar="UID", show_default=False, help='Its identity, as "qmctl dlq ls" shows it.'
    ),
]
Uids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[UID]...", show_default=False, help="Those of these identities."),
]
All = Annotated[bool, typer.Option("--all", help="All of them.")]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")]


@command(
    SELECTORS + '\n\b\nJSON: an array of objects as of "qmctl browse", with\n' + dlq_text.JSON_KEYS
)
def ls(
    call: Call,
    queue: Queue = DEAD_LETTERS,
    where: selecting.Where = "",
    group: selecting.GroupId = "",
    columns: filters.Columns = None,
    limit: Limit = LISTED_MAX,
) -> None:
    """List the dead letters: what could not be consumed, and why.

    Examples:
      qmctl dlq ls
      qmctl dlq ls --where "dead_queue = 'ORDERS'"
      qmctl dlq ls --queue ORDERS.BAD --columns uid,reason,text
      qmctl dlq ls --group N12345 --columns uid,group,number,code
    """
    selector = selecting.within(where, group)
    shown = filters.columns(columns, COLUMNS, dlq_text.LISTED)
    with call.client("list the dead letters", queue) as client:
        found, is_cut = first(client.browse(queue, limit + 1, where=selector or None), limit)
        if not found:
            selector_hint.tell(client, queue, selector)
    if call.is_json:
        output.document(list(map(dlq_text.as_object, found)))
    else:
        output.table(shown, map(dlq_text.as_row, found))
    if is_cut:
        tell_cut(limit)


@command('\b\nJSON: an object as of "qmctl browse", with\n' + dlq_text.JSON_KEYS)
def show(call: Call, uid: Uid, queue: Queue = DEAD_LETTERS) -> None:
    """Show a dead letter: why it is one, each of its failures, and the message.

    Examples:
      qmctl dlq show QM1.1700000000000001
    """
    wanted = option.uid(uid)
    with call.client(f"show dead letter {uid}", queue) as client:
        found = next(iter(client.browse(queue, 1, uid=wanted)), None)
    if found is None:
        raise Failure(
            Exit.NOT_FOUND,
            f"cannot show dead letter {uid}",
            f"it is not on {queue}",
            "see: qmctl dlq ls",
        )
    if call.is_json:
        output.document(dlq_text.as_object(found))
    else:
        dlq_text.show(found)


@command(
    SELECTORS
    + """
The queue manager does it, as a job (see: qmctl job ls). Counts start anew, and the time that a
message had left is what it lives from now on.

\b
JSON: the job at its end, as "qmctl job ls" gives it
  with --dry-run: dry_run (true), queue, to, waits (why it would, or null),
  stay (an object: why some would, and how many), messages, leased,
  first (UIDs)
"""
)
def retry(
    call: Call,
    uids: Uids = None,
    queue: Queue = DEAD_LETTERS,
    where: selecting.Where = "",
    group: selecting.GroupId = "",
    all_: All = False,
    to: Annotated[
        str,
        typer.Option(
            metavar="QUEUE",
            show_default=False,
            autocompletion=completion.definitions,
            help="Instead of the queue that each comes from.",
        ),
    ] = "",
    max_retries: Annotated[
        int, typer.Option(metavar="N", min=1, max=65_535, help="What went back so often stays.")
    ] = 3,
    limit: job_run.Limit = 0,
    rate: job_run.Rate = 0,
    detach: job_run.Detach = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Send dead letters back to the queues that they come from.

    Examples:
      qmctl dlq retry QM1.1700000000000001
      qmctl dlq retry --where "dead_queue = 'ORDERS'" --rate 10
      qmctl dlq retry --queue FLIGHTS.BAD --group N12345
      qmctl dlq retry --all --to ORDERS.LATER --dry-run
    """
    selector = _selected("retry", uids or [], selecting.within(where, group), all_=all_)
    with call.client(f"retry the dead letters of {queue}", queue) as client:
        _check_there(client, queue, uids or [])
        if dry:
            dlq_retry.preview_retry(call, client, queue, to, selector, max_retries, limit)
            return
        row = client.admin.queue_move(
            queue,
            to,
            where=dlq_retry.dead(selector) if to else selector,
            messages_max=limit,
            rate=rate,
            retries_max=max_retries,
        )
        job_run.run(call, client, row, "sent back", detach=detach)


@command(
    SELECTORS
    + """
\b
JSON: an object with queue and messages, how many were removed
  with --dry-run: dry_run (true), queue, messages, leased, first (UIDs)
"""
)
def drop(
    call: Call,
    uids: Uids = None,
    queue: Queue = DEAD_LETTERS,
    where: selecting.Where = "",
    group: selecting.GroupId = "",
    all_: All = False,
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Remove dead letters for good; asks first. Other messages of the queue stay.

    Examples:
      qmctl dlq drop QM1.1700000000000001
      qmctl dlq drop --where "dead_code = 'MESSAGE_EXPIRED'" --dry-run
    """
    selected = _selected("drop", uids or [], selecting.within(where, group), all_=all_)
    selector = dlq_retry.dead(selected)
    with call.client(f"drop dead letters of {queue}", queue) as client:
        _check_there(client, queue, uids or [])
        others = dlq_retry.no_dead_letters(client, queue, selected)
        if dry or not yes:
            found = preview.preview(client, queue, selector)._replace(stay=others)
            if dry:
                words = f"remove {{messages}} from {queue}"
                preview.tell(call, found, {"queue": queue}, words)
                return
            confirm(
                queue,
                f"drop dead letters of {queue}",
                f"{messages(found.messages)} will be lost",
                yes=yes,
            )
        count = selector_hint.purged(client, queue, selector)
    if call.is_json:
        output.document({"queue": queue, "messages": count})
    else:
        output.say(f"dropped {messages(count)} from {queue}")
        for why, stayed in others.items():
            remedy = f"remove such with: qmctl queue purge {queue}"
            output.note(f"note: {messages(stayed)} stayed: {why}; {remedy}")


def _selected(verb: str, uids: list[str], where: str, *, all_: bool) -> str:
    """Return the selector of what was named, empty for all.

    Raises:
        Failure: USAGE, nothing was, or in two ways.
    """
    if bool(uids) + bool(where) + all_ != 1:
        remedy = "name one or more UIDs, or a --where, a --group, or --all"
        raise usage(f"cannot {verb} dead letters", "which ones is said in exactly one way", remedy)
    return selecting.of_uids(uids) or where


def _check_there(client: "Client", queue: str, uids: list[str]) -> None:
    """Raise a Failure where one of *uids* is no dead letter on *queue*: nothing is done to any."""
    for uid in uids:
        found = next(iter(client.browse(queue, 1, uid=option.uid(uid))), None)
        if found is None or found.dead is None:
            why = f"{uid} is not there" if found is None else f"{uid} is no dead letter"
            raise Failure(
                Exit.NOT_FOUND,
                f"did nothing to the dead letters of {queue}",
                why,
                "see: qmctl dlq ls",
            )
