"""qmctl job: ls, show, cancel."""

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
        help='The number from "qmctl job ls".',
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
  job                     the number of the job
  kind                    move, copy, retry, purge, republish,
                          republish-drop; internal jobs: drop, sweep,
                          retention, origins, group, retained, watch
  state                   running, waiting, done, cancelled, failed
  queue, target, where    as requested; the target of a republish is the
                          trigger: schedule, healthy, returned, or ""
  by                      the client that requested the job, or ""
  messages_max, rate      limits: messages in total, per second; 0: no limit
  retries_max             the most retries of a dead letter
  total                   messages on the queue, or parked, when the job began
                          (ON QUEUE); "where" may select fewer
  examined, done          examined messages; moved or deleted messages
  skipped                 messages that were leased, existed at the target, or
                          belong to an absent subscriber
  stayed                  messages that could not be moved
  started, ended          RFC 3339; ended is null until the job ends
  text                    the reason why the job waits, failed, or messages
                          stayed
"""


def with_times(row: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the row of a job, as described in the help."""
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
    """List the jobs, including those that ended within the last hour.

    Conditions support = != < <= > >=. Text matches patterns: --where 'state=done'.

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


@command('JSON: an object as in "qmctl job ls".', watched=True)
def show(call: Call, job: Job) -> None:
    """Show a job: its progress, and the reason if it waits.

    Examples:
      qmctl job show 1099511627777
      qmctl job show 1099511627777 --watch
    """

    def ask(client: "Client") -> dict[str, Any]:
        return with_times(client.admin.job_show(job))

    watch.follow(call, f"show job {job}", ask, lambda row: output.facts(COLUMNS, row))


@command('JSON: the job after the command, as in "qmctl job ls".')
def cancel(call: Call, job: Job) -> None:
    """Cancel a job. Messages that were already moved stay at the target.

    Examples:
      qmctl job cancel 1099511627777
    """
    with call.client(f"cancel job {job}") as client:
        row = with_times(client.admin.job_cancel(job))
    if call.is_json:
        output.document(row)
    else:
        where = "on the queue" if row["queue"] else "parked"
        done = f"it processed {messages(row['done'])} of {row['total']:,} {where}"
        output.say(f"job {job} is {row['state']}; {done}")
