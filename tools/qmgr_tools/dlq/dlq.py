"""qmctl dlq: ls, show, retry, delete."""

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
from qmgr_tools.message import selection, selector_hint
from qmgr_tools.message.browse import first, note_cut
from qmgr_tools.queue.queue import Yes
from qmgr_tools.queue.system import DEAD_LETTERS

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

LISTED_MAX = 100
COLUMNS = dlq_text.COLUMNS
SELECTORS = """\b
A selector such as "dead_queue = 'ORDERS' AND dead_retries < 2" can use
dead_code, dead_reason, dead_text, dead_queue, dead_manager, dead_us,
dead_failed, dead_delivered, dead_retries, and all fields described in
docs/SELECTORS.md.
"""

Queue = Annotated[
    str,
    typer.Option(
        "--queue",
        metavar="QUEUE",
        autocompletion=completion.local_queues,
        help="The queue of the dead letters, which may be a backout queue.",
    ),
]
Uid = Annotated[
    str, typer.Argument(metavar="UID", show_default=False, help='The UID from "qmctl dlq ls".')
]
Uids = Annotated[
    list[str] | None,
    typer.Argument(metavar="[UID]...", show_default=False, help='UIDs from "qmctl dlq ls".'),
]
All = Annotated[bool, typer.Option("--all", help="Select all dead letters.")]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="List at most N dead letters.")]


@command(
    SELECTORS + '\n\b\nJSON: an array of objects as in "qmctl browse", with\n' + dlq_text.JSON_KEYS
)
def ls(
    call: Call,
    queue: Queue = DEAD_LETTERS,
    where: selection.Where = "",
    group: selection.GroupId = "",
    columns: filters.Columns = None,
    limit: Limit = LISTED_MAX,
) -> None:
    """List the dead letters: messages that could not be consumed, and the reasons.

    Examples:
      qmctl dlq ls
      qmctl dlq ls --where "dead_queue = 'ORDERS'"
      qmctl dlq ls --queue ORDERS.BAD --columns uid,reason,text
      qmctl dlq ls --group N12345 --columns uid,group,number,code
    """
    selector = selection.within(where, group)
    shown = filters.columns(columns, COLUMNS, dlq_text.LISTED)
    with call.client("list the dead letters", queue) as client:
        found, is_cut = first(client.browse(queue, limit + 1, where=selector or None), limit)
        if not found:
            selector_hint.show(client, queue, selector)
    if call.is_json:
        output.document(list(map(dlq_text.as_object, found)))
    else:
        output.table(shown, map(dlq_text.as_row, found))
    if is_cut:
        note_cut(limit)


@command('\b\nJSON: an object as in "qmctl browse", with\n' + dlq_text.JSON_KEYS)
def show(call: Call, uid: Uid, queue: Queue = DEAD_LETTERS) -> None:
    """Show a dead letter: its reason, each of its failures, and the message.

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
            f"queue {queue} has no message with this UID",
            "see: qmctl dlq ls",
        )
    if call.is_json:
        output.document(dlq_text.as_object(found))
    else:
        dlq_text.show(found)


@command(
    SELECTORS
    + """
The queue manager runs this command as a job (see: qmctl job ls). The failure counts of a message
start again at zero, and its expiry continues with the remaining time.

\b
JSON: the finished job, as in "qmctl job ls"
  with --dry-run: dry_run (true), queue, to, waits (the reason why the job
  would wait, or null), stay (an object: the number of messages that would
  stay, by reason), messages, leased, first (UIDs)
"""
)
def retry(
    call: Call,
    uids: Uids = None,
    queue: Queue = DEAD_LETTERS,
    where: selection.Where = "",
    group: selection.GroupId = "",
    all_: All = False,
    to: Annotated[
        str,
        typer.Option(
            metavar="QUEUE",
            show_default=False,
            autocompletion=completion.definitions,
            help="Move the messages to this queue instead of their original queues.",
        ),
    ] = "",
    max_retries: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, max=65_535, help="Skip messages that were already retried N times."
        ),
    ] = 3,
    limit: job_run.Limit = 0,
    rate: job_run.Rate = 0,
    detach: job_run.Detach = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Move dead letters back to their original queues.

    Examples:
      qmctl dlq retry QM1.1700000000000001
      qmctl dlq retry --where "dead_queue = 'ORDERS'" --rate 10
      qmctl dlq retry --queue FLIGHTS.BAD --group N12345
      qmctl dlq retry --all --to ORDERS.LATER --dry-run
    """
    selector = _selected("retry", uids or [], selection.within(where, group), all_=all_)
    with call.client(f"retry the dead letters of {queue}", queue) as client:
        _check_exist(client, queue, uids or [])
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
        job_run.run(call, client, row, "moved back", detach=detach)


@command(
    SELECTORS
    + """
\b
JSON: an object with queue and messages (the number of deleted messages)
  with --dry-run: dry_run (true), queue, messages, leased, first (UIDs)
"""
)
def delete(
    call: Call,
    uids: Uids = None,
    queue: Queue = DEAD_LETTERS,
    where: selection.Where = "",
    group: selection.GroupId = "",
    all_: All = False,
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Delete dead letters permanently. Asks for confirmation. Other messages of the queue stay.

    Examples:
      qmctl dlq delete QM1.1700000000000001
      qmctl dlq delete --where "dead_code = 'MESSAGE_EXPIRED'" --dry-run
    """
    selected = _selected("delete", uids or [], selection.within(where, group), all_=all_)
    selector = dlq_retry.dead(selected)
    with call.client(f"delete dead letters of {queue}", queue) as client:
        _check_exist(client, queue, uids or [])
        others = dlq_retry.no_dead_letters(client, queue, selected)
        if dry or not yes:
            found = preview.preview(client, queue, selector)._replace(stay=others)
            if dry:
                words = f"delete {{messages}} from {queue}"
                preview.show(call, found, {"queue": queue}, words)
                return
            confirm(
                queue,
                f"delete dead letters of {queue}",
                f"{messages(found.messages)} will be lost",
                yes=yes,
            )
        count = selector_hint.purged(client, queue, selector)
    if call.is_json:
        output.document({"queue": queue, "messages": count})
    else:
        output.say(f"deleted {messages(count)} from {queue}")
        for why, stayed in others.items():
            remedy = f"to delete all messages: qmctl queue purge {queue}"
            output.note(f"note: {messages(stayed)} stayed: {why}; {remedy}")


def _selected(verb: str, uids: list[str], where: str, *, all_: bool) -> str:
    """Returns the selector of the selected dead letters, or "" for all.

    Raises:
        Failure: USAGE unless exactly one method of selection is used.
    """
    if bool(uids) + bool(where) + all_ != 1:
        remedy = "use one or more UIDs, or --where, or --group, or --all"
        raise usage(
            f"cannot {verb} dead letters", "exactly one method of selection is required", remedy
        )
    return selection.of_uids(uids) or where


def _check_exist(client: "Client", queue: str, uids: list[str]) -> None:
    """Raises a Failure before any change if one of *uids* is not a dead letter on *queue*."""
    for uid in uids:
        found = next(iter(client.browse(queue, 1, uid=option.uid(uid))), None)
        if found is None or found.dead is None:
            why = f"{uid} {'does not exist' if found is None else 'is not a dead letter'}"
            raise Failure(
                Exit.NOT_FOUND, f"cannot change dead letters of {queue}", why, "see: qmctl dlq ls"
            )
