"""qmctl republish: send, delete. Starts jobs on parked publications."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, dry_run, option
from qmgr_tools.cli.command import Call, command, confirm
from qmgr_tools.cli.humanize import messages
from qmgr_tools.job import run as job_run
from qmgr_tools.message import selection
from qmgr_tools.queue.queue import Yes
from qmgr_tools.republish import preview as republish_preview
from qmgr_tools.republish import republish
from qmgr_tools.topic import name as topic_name

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Uid = Annotated[
    str | None,
    typer.Argument(
        metavar="UID", show_default=False, help="One publication. Default: all of them."
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
        help="Select publications that are parked for this subscription. Repeatable.",
    ),
]
Max = Annotated[
    int,
    typer.Option(
        "--max", "--limit", metavar="N", min=0, help="Process at most N messages; 0 = all."
    ),
]
NOTHING = "no selected publication is parked"
AS_A_JOB = """
The queue manager runs this command as a job (see: qmctl job ls), which continues after Ctrl-C. The
job ignores publications that are parked later.
"""


@command(
    republish.SELECTORS
    + AS_A_JOB
    + """
\b
JSON: the finished job, as in "qmctl job ls": done counts delivered messages,
skipped those that wait for their subscriber, stayed those without room
  with --dry-run: dry_run (true), messages, awaited, stay (the same counts),
  subscriptions (an array: subscription, messages, bytes, outcome (now, on
  return, no room), first (UIDs))
"""
)
def send(
    call: Call,
    uid: Uid = None,
    where: selection.Where = "",
    to: To = None,
    rate: job_run.Rate = 0,
    max_: Max = 0,
    detach: job_run.Detach = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Deliver parked publications again, only to the subscribers on their lists.

    Other subscribers do not receive them again. A publication keeps its UID and is marked as
    republished. Its failure counts start again at zero. An absent subscriber receives the
    publication when it returns.

    Examples:
      qmctl republish send NYC.1700000000000001
      qmctl republish send --to BILLING:late --rate 10
      qmctl republish send --where "dead_reason = 'no-amount'" --dry-run
      qmctl republish send
    """
    with call.client("deliver parked publications again") as client:
        names = _names(to)
        _check_parked(client, "send", uid, names)
        if dry:
            found = republish_preview.preview(client, uid, where, names, max_)
            republish_preview.show(call, found)
            return
        row = client.admin.republish(
            where=where,
            uid=None if uid is None else option.uid(uid),
            subscriptions=names,
            rate=rate,
            messages_max=max_,
        )
        job_run.run(call, client, row, "delivered", detach=detach, summary=_sent)


@command(
    republish.SELECTORS
    + AS_A_JOB
    + """
\b
JSON: the finished job, as in "qmctl job ls"
  with --dry-run: dry_run (true), messages, subscriptions (an array:
  subscription, messages, bytes, first (UIDs))
"""
)
def delete(
    call: Call,
    uid: Uid = None,
    where: selection.Where = "",
    to: To = None,
    rate: job_run.Rate = 0,
    max_: Max = 0,
    detach: job_run.Detach = False,
    yes: Yes = False,
    dry: dry_run.DryRun = False,
) -> None:
    """Delete parked publications permanently. Asks for confirmation.

    A publication is deleted when its list is empty.

    Examples:
      qmctl republish delete NYC.1700000000000001 --to BILLING:late
      qmctl republish delete --where "topic = 'flights/JFK/UA'" --dry-run
      qmctl republish delete --yes
    """
    doing = "delete parked publications"
    with call.client(doing) as client:
        names = _names(to)
        _check_parked(client, "delete", uid, names)
        if dry or not yes:
            found = republish_preview.preview(client, uid, where, names, max_, is_delete=True)
            if dry:
                republish_preview.show(call, found, is_delete=True)
                return
            word = uid or (names[0] if len(names) == 1 else "all")
            loss = f"{messages(found.now)} will be lost"
            if found.now:
                confirm(word, doing, loss, yes=yes)
        row = client.admin.republish(
            where=where,
            uid=None if uid is None else option.uid(uid),
            subscriptions=names,
            rate=rate,
            messages_max=max_,
            drop=True,
        )
        job_run.run(call, client, row, "deleted", detach=detach, summary=_deleted)


def _names(to: list[str] | None) -> list[str]:
    """Returns the names of subscriptions in *to*.

    Raises:
        RequestError: NAME_INVALID if one of the names is invalid.
    """
    return [topic_name.subscription(name) for name in to or []]


def _check_parked(client: "Client", verb: str, uid: str | None, names: list[str]) -> None:
    """Raises a Failure if publication *uid* is not parked for any selected subscription."""
    if uid is None:
        return
    wanted = option.uid(uid)
    for name in names or [""]:
        if next(iter(client.admin.republish_list(uid=wanted, subscription=name)), None) is not None:
            return
    raise republish.not_parked(f"{verb} {uid}", uid)


def _sent(row: Mapping[str, Any]) -> str:
    if not any(row[count] for count in ("done", "skipped", "stayed")):
        return NOTHING
    words = (
        f"delivering {messages(row['done'])} again" if row["done"] else "delivered no message yet"
    )
    if row["skipped"]:
        words += f"; {republish_preview.wait(row['skipped'], 'waits', 'wait')}"
    return words + (f"; {row['text']}" if row["stayed"] else "")


def _deleted(row: Mapping[str, Any]) -> str:
    count = row["done"]
    return f"deleted {messages(count)} from the parked publications" if count else NOTHING
