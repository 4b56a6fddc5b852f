"""Follows a job that a command started until it ends, or detaches from it."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import RequestError
from qmgr_tools.cli import connect_options, output, progress
from qmgr_tools.cli.command import Call
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import counted, messages
from qmgr_tools.job.job import with_times
from qmgr_tools.message import selector_hint

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

POLL_FIRST_S, POLL_MAX_S = 0.02, 0.5
Detach = Annotated[
    bool, typer.Option("--detach", help="Start the job, and do not wait for its end.")
]
Rate = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=0,
        max=2**32 - 1,
        help="Process at most N messages per second; 0 = no limit.",
    ),
]
Limit = Annotated[
    int, typer.Option(metavar="N", min=0, help="Process at most N messages; 0 = all.")
]


def run(
    call: Call,
    client: "Client",
    row: Mapping[str, Any],
    done: str,
    *,
    detach: bool,
    summary: Callable[[Mapping[str, Any]], str] | None = None,
) -> None:
    """Follows the job of *row* to its end, and prints the result.

    Args:
        done: The result in one word, as in "moved".
        summary: A function that returns the result of a job without a queue.

    Raises:
        Failure: FAILED if the job failed or was cancelled, REFUSED if no message could be moved.
    """
    job = row["job"]
    if not detach:
        row = followed(client, row)
    delayed = 0 if detach or summary else _delayed(client, row)
    if row["state"] == "done" and not (row["done"] or row["skipped"] or row["stayed"]):
        selector_hint.show(client, row["queue"], row["where"])
    row = with_times(row)
    if call.is_json:
        output.document(row)
    elif detach:
        output.say(connect_options.add_to(f"started job {job}; see: qmctl job show {job}"))
    elif row["state"] == "done" and not _all_stayed(row):
        stay = f"; {counted(delayed, 'delayed message')} stayed" if delayed else ""
        output.say(summary(row) if summary else _summary(row, done) + stay)
    if row["state"] in ("failed", "cancelled"):
        why = row["text"] or "the job was cancelled"
        what = f"job {job} ended early; it {done} {messages(row['done'])}"
        raise Failure(Exit.FAILED, what, why)
    if row["state"] == "done" and _all_stayed(row):
        source = f" from {row['queue']}" if row["queue"] else ""
        raise Failure(Exit.REFUSED, f"nothing was {done}{source}", row["text"])


def _delayed(client: "Client", row: Mapping[str, Any]) -> int:
    """Returns the number of delayed messages on the source queue, which the job ignores."""
    try:
        return int(client.admin.queue_show(row["queue"]).get("delayed", 0))
    except RequestError:
        return 0  # The queue was deleted in the meantime.


def followed(client: "Client", row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the row of a job at its end. After Ctrl-C the job continues."""
    job, pause_s, shown = row["job"], POLL_FIRST_S, 0
    limit = row.get("messages_max") or row["total"]
    noted = ""
    try:
        with progress.counted(f"job {job}", min(limit, row["total"])) as advance:
            while row["ended_us"] is None:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, POLL_MAX_S)
                row = client.admin.job_show(job)
                advance(row["done"] - shown)
                shown = row["done"]
                if row["state"] == "waiting" and row["text"] != noted:
                    noted = row["text"]
                    output.note(f"job {job} is waiting: {noted}")
    except KeyboardInterrupt:
        output.note(
            f"job {job} continues; to show it: qmctl job show {job}; "
            f"to cancel it: qmctl job cancel {job}"
        )
        raise
    return row


def _all_stayed(row: Mapping[str, Any]) -> bool:
    awaited = bool(row["skipped"]) and row["kind"] == "republish"
    return not row["done"] and bool(row["stayed"]) and not awaited


def _summary(row: Mapping[str, Any], done: str) -> str:
    to = f" to {row['target']}" if row["target"] else ""
    words = f"{done} {messages(row['done'])} from {row['queue']}{to}"
    if row["skipped"]:
        words += f"; {row['skipped']:,} skipped because they are leased or exist at the target"
    if row["stayed"]:
        words += f"; {row['text']}"
    return words
