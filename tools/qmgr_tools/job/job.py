"""qmctl job: ls, show, cancel. And what a job that just ended is told as."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import completion, output, watch
from qmgr_tools.cli import filter as filters
from qmgr_tools.cli.command import Call, command
from qmgr_tools.cli.humanize import messages, rfc3339
from qmgr_tools.dlq import retry as dlq_retry

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

Job = Annotated[
    int,
    typer.Argument(
        metavar="JOB",
        min=1,
        max=2**63 - 1,
        show_default=False,
        autocompletion=completion.jobs,
        help='Its number, as "qmctl job ls" shows it.',
    ),
]
COLUMNS = (
    output.count("job"),
    output.text("kind"),
    output.text("state"),
    output.text("queue"),
    output.text("target"),
    output.count("done"),
    output.count("skipped"),
    output.count("stayed"),
    output.count("examined"),
    output.count("total", "ON QUEUE"),
    output.count("messages_max"),
    output.count("rate"),
    output.count("retries_max"),
    output.text("started"),
    output.text("ended"),
    output.text("by"),
    output.long_text("where"),
    output.long_text("text"),
)
LISTED = ("job", "kind", "state", "queue", "target", "done", "skipped", "stayed", "total", "text")
KEYS = """\
  job                     its number
  kind                    move, copy, retry, purge, republish,
                          republish-drop; the daemon's own: drop, sweep,
                          retention, origins, group, retained, watch
  state                   running, waiting, done, cancelled, failed
  queue, target, where    what it works on, as it was asked for; target of a
                          republish: why: schedule, healthy, returned, or ""
  by                      the client that asked for it, or ""
  messages_max, rate      its limits: in all, in a second; 0 = none
  retries_max             dead letters that went back so often stay
  total                   messages on the queue when it began, or parked (ON
                          QUEUE): with a "where" not all of them are meant
  examined, done          looked at; moved or removed
  skipped, stayed         leased, or there already, or their subscriber is
                          away; could not go
  started, ended          RFC 3339; ended is null while it is not over
  text                    why it waits, failed, or messages stayed
"""


def with_times(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row of a job as the help describes it."""
    shown = {key: value for key, value in row.items() if not key.endswith("_us")}
    ended_us = row.get("ended_us")
    if shown.get("kind") == "move" and dlq_retry.is_of_dead(shown):
        shown["kind"] = "retry"
    return shown | {
        "started": rfc3339(int(row.get("started_us", 0))),
        "ended": rfc3339(int(ended_us)) if ended_us else None,
    }


@command("\b\nJSON: an array of objects with\n" + KEYS, watched=True)
def ls(
    call: Call,
    columns: filters.Columns = None,
    where: filters.Where = None,
    sort: filters.Sort = None,
    limit: filters.Limit = None,
) -> None:
    """List the jobs, those that ended within the last hour too.

    Conditions know = != < <= > >=; text fits patterns: --where 'state=done'.

    Examples:
      qmctl job ls
      qmctl job ls --where 'state=waiting' --watch
    """
    listing = filters.Listing(COLUMNS, LISTED, columns, where or [], sort, limit)
    watch.follow(
        call,
        "list the jobs",
        lambda client: listing.rows(map(with_times, client.admin.job_list())),
        listing.show,
    )


@command('JSON: an object, as "qmctl job ls" gives it.', watched=True)
def show(call: Call, job: Job) -> None:
    """Show a job: how far it is, and why it waits.

    Examples:
      qmctl job show 1099511627777
      qmctl job show 1099511627777 --watch
    """

    def ask(client: "Client") -> dict[str, Any]:
        return with_times(client.admin.job_show(job))

    watch.follow(call, f"show job {job}", ask, lambda row: output.facts(COLUMNS, row))


@command('JSON: the job as it is now, as "qmctl job ls" gives it.')
def cancel(call: Call, job: Job) -> None:
    """End a job where it stands: what it has done stays done, the rest stays where it is.

    Examples:
      qmctl job cancel 1099511627777
    """
    with call.client(f"cancel job {job}") as client:
        row = with_times(client.admin.job_cancel(job))
    if call.is_json:
        output.document(row)
    else:
        of = "of a queue with" if row["queue"] else "of those parked,"
        told = f"it did {messages(row['done'])} {of} {row['total']:,}"
        output.say(f"job {job} is {row['state']}; {told}")
