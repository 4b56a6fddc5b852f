"""qmctl republish: send, drop. Jobs of the queue manager, on what is parked."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, dry_run, option
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.humanize import messages
from qmgr_tools.job import run as job_run
from qmgr_tools.message import selecting
from qmgr_tools.queue.queue import Yes
from qmgr_tools.republish import preview as republish_preview
from qmgr_tools.republish import republish
from qmgr_tools.topic import name as topic_name

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Uid = Annotated[
    str | None,
    typer.Argument(
        metavar="UID", show_default=False, help="One publication; without it all that is parked."
    ),
]
To = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        "--subscription",
        metavar="NAME",
        show_default=False,
        autocompletion=completion.subscriptions,
        help="What is parked for that subscription alone. Repeatable.",
    ),
]
Max = Annotated[
    int, typer.Option("--max", "--limit", metavar="N", min=0, help="At most so many; 0 = all.")
]
NOTHING = "nothing that is meant is parked"
AS_A_JOB = """
The queue manager does it, as a job (see: qmctl job ls): Ctrl-C leaves it running. What is parked
from now on is not its own.
"""


@command(
    republish.SELECTORS
    + AS_A_JOB
    + """
\b
JSON: the job at its end, as "qmctl job ls" gives it: done were sent, skipped
wait for their subscriber's return, stayed had no room
  with --dry-run: dry_run (true), messages, awaited, stay (how many of each),
  subscriptions (an array: subscription, messages, bytes, outcome (now, on
  return, no room), first (UIDs))
"""
)
def send(
    call: Call,
    uid: Uid = None,
    where: selecting.Where = "",
    to: To = None,
    rate: job_run.Rate = 0,
    max_: Max = 0,
    detach: job_run.Detach = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Deliver what is parked once more, to those alone who are on its list.

    Who has had a publication gets nothing. It keeps its UID, is marked as republished, and its
    counts start anew. Of a subscriber who is away it waits for the return, and is sent then.

    Examples:
      qmctl republish send NYC.1700000000000001
      qmctl republish send --to BILLING:late --rate 10
      qmctl republish send --where "dead_reason = 'no-amount'" --dry-run
      qmctl republish send
    """
    with call.client("send what is parked") as client:
        names = _names(to)
        _check_there(client, "send", uid, names)
        if dry:
            found = republish_preview.preview(client, uid, where, names, max_)
            republish_preview.tell(call, found)
            return
        row = client.admin.republish(
            where=where,
            uid=None if uid is None else option.uid(uid),
            subscriptions=names,
            rate=rate,
            messages_max=max_,
        )
        job_run.run(call, client, row, "sent", detach=detach, told=_told_sent)


@command(
    republish.SELECTORS
    + AS_A_JOB
    + """
\b
JSON: the job at its end, as "qmctl job ls" gives it
  with --dry-run: dry_run (true), messages, subscriptions (an array:
  subscription, messages, bytes, first (UIDs))
"""
)
def drop(
    call: Call,
    uid: Uid = None,
    where: selecting.Where = "",
    to: To = None,
    rate: job_run.Rate = 0,
    max_: Max = 0,
    detach: job_run.Detach = False,
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Forget what is parked, for good; asks first.

    Once nobody is on the list of a publication, that is gone.

    Examples:
      qmctl republish drop NYC.1700000000000001 --to BILLING:late
      qmctl republish drop --where "topic = 'flights/JFK/UA'" --dry-run
      qmctl republish drop --yes
    """
    with call.client("drop what is parked") as client:
        names = _names(to)
        _check_there(client, "drop", uid, names)
        if dry or not yes:
            found = republish_preview.preview(client, uid, where, names, max_, is_drop=True)
            if dry:
                republish_preview.tell(call, found, is_drop=True)
                return
            word = uid or (names[0] if len(names) == 1 else "all")
            loss = f"{messages(found.now)} will be lost"
            if found.now:
                confirm(word, "drop what is parked", loss, yes=yes)
        row = client.admin.republish(
            where=where,
            uid=None if uid is None else option.uid(uid),
            subscriptions=names,
            rate=rate,
            messages_max=max_,
            drop=True,
        )
        job_run.run(call, client, row, "dropped", detach=detach, told=_told_dropped)


def _names(to: list[str] | None) -> list[str]:
    """Return these names of subscriptions.

    Raises:
        RequestError: NAME_INVALID.
    """
    return [topic_name.subscription(name) for name in to or []]


def _check_there(client: "Client", verb: str, uid: str | None, names: list[str]) -> None:
    """Raise a Failure where a publication that is named is parked for nobody who is meant."""
    if uid is None:
        return
    wanted = option.uid(uid)
    for name in names or [""]:
        if next(iter(client.admin.republish_list(uid=wanted, subscription=name)), None) is not None:
            return
    raise republish.not_parked(f"{verb} {uid}", uid)


def _told_sent(row: Mapping[str, Any]) -> str:
    if not any(row[count] for count in ("done", "skipped", "stayed")):
        return NOTHING
    words = f"sent {messages(row['done'])} again" if row["done"] else "sent nothing yet"
    if row["skipped"]:
        words += f"; {republish_preview.wait(row['skipped'], 'waits', 'wait')}"
    return words + (f"; {row['text']}" if row["stayed"] else "")


def _told_dropped(row: Mapping[str, Any]) -> str:
    count = row["done"]
    were = "was" if count == 1 else "were"
    return f"dropped {messages(count)} that {were} parked" if count else NOTHING
