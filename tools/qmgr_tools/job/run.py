"""A job that a command began: watched until it ends, or left to itself."""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.errors import RequestError
from qmgr_tools.cli import output, progress, same_place
from qmgr_tools.cli.command import Call
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import counted, messages
from qmgr_tools.job.job import with_times
from qmgr_tools.message import selector_hint

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

POLL_FIRST_S, POLL_MAX_S = 0.02, 0.5
Detach = Annotated[bool, typer.Option("--detach", help="Begin it, and do not wait for its end.")]
Rate = Annotated[
    int, typer.Option(metavar="N", min=0, max=2**32 - 1, help="At most so many a second; 0 = any.")
]
Limit = Annotated[int, typer.Option(metavar="N", min=0, help="At most so many; 0 = all.")]


def run(
    call: Call,
    client: "Client",
    row: Mapping[str, Any],
    done: str,
    *,
    detach: bool,
    told: Callable[[Mapping[str, Any]], str] | None = None,
) -> None:
    """Tell how the job of *row* ends, which *done* says in one word, as in "moved".

    Args:
        told: says how the job of a row ended, where it is of no queue.

    Raises:
        Failure: it failed, or somebody cancelled it; REFUSED, all that it was about had to stay.
    """
    job = row["job"]
    if not detach:
        row = watched(client, row)
    delayed = 0 if detach or told else _delayed(client, row)
    if row["state"] == "done" and not (row["done"] or row["skipped"] or row["stayed"]):
        selector_hint.tell(client, row["queue"], row["where"])
    row = with_times(row)
    if call.is_json:
        output.document(row)
    elif detach:
        output.say(same_place.commands(f"job {job} has begun; see: qmctl job show {job}"))
    elif row["state"] == "done" and not _all_stayed(row):
        stay = f"; {counted(delayed, 'delayed message')} stayed" if delayed else ""
        output.say(told(row) if told else _told(row, done) + stay)
    if row["state"] in ("failed", "cancelled"):
        why = row["text"] or "it was cancelled"
        raise Failure(Exit.FAILED, f"job {job} {done} {messages(row['done'])}, then ended", why)
    if row["state"] == "done" and _all_stayed(row):
        source = f" from {row['queue']}" if row["queue"] else ""
        raise Failure(Exit.REFUSED, f"nothing was {done}{source}", row["text"])


def _delayed(client: "Client", row: Mapping[str, Any]) -> int:
    """Return how many delayed messages are on the queue that a job took from: it leaves them."""
    try:
        return int(client.admin.queue_show(row["queue"]).get("delayed", 0))
    except RequestError:
        return 0  # It was deleted meanwhile.


def watched(client: "Client", row: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the row of a job at its end; Ctrl-C leaves it running."""
    job, pause_s, shown = row["job"], POLL_FIRST_S, 0
    limit = row.get("messages_max") or row["total"]
    told = ""
    try:
        with progress.counted(f"job {job}", min(limit, row["total"])) as advance:
            while row["ended_us"] is None:
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, POLL_MAX_S)
                row = client.admin.job_show(job)
                advance(row["done"] - shown)
                shown = row["done"]
                if row["state"] == "waiting" and row["text"] != told:
                    told = row["text"]
                    output.note(f"job {job} waits: {told}")
    except KeyboardInterrupt:
        output.note(
            f"job {job} goes on; look at it with: qmctl job show {job}; "
            f"end it with: qmctl job cancel {job}"
        )
        raise
    return row


def _all_stayed(row: Mapping[str, Any]) -> bool:
    awaited = bool(row["skipped"]) and row["kind"] == "republish"
    return not row["done"] and bool(row["stayed"]) and not awaited


def _told(row: Mapping[str, Any], done: str) -> str:
    to = f" to {row['target']}" if row["target"] else ""
    words = f"{done} {messages(row['done'])} from {row['queue']}{to}"
    if row["skipped"]:
        words += f"; {row['skipped']:,} skipped: leased, or there already"
    if row["stayed"]:
        words += f"; {row['text']}"
    return words
