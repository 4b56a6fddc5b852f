"""qmctl status: how the queue manager is."""

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_config.units import ms_text
from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli import option, output, watch
from qmgr_tools.cli.command import Call, command

if TYPE_CHECKING:
    from qmgr_client.blocking import Client


def _milliseconds(time_us: int) -> str:
    return f"{time_us / 1000:,.1f} ms"


def _being_made(facts: Any) -> str:
    """Return how far the snapshot is that is being made."""
    done, total = humane.size(facts["done_bytes"]), humane.size(facts["total_bytes"])
    return f"{facts['phase']} {facts['directory']}: {done} of about {total}"


def _scheduled(facts: Any) -> str:
    """Return how the daemon's own snapshots stand; nothing where it takes none."""
    if not facts["directory"]:
        return ""
    last, failures = facts["last"], facts["failures"]
    told = f"every {ms_text(facts['every_ms'])} to {facts['directory']}"
    told += f", last {humane.rfc3339(last['taken_us'])}" if last else ", none yet"
    told += f", next {humane.rfc3339(facts['next_us'])}"
    times = humane.counted(failures, "time")
    return f"{told}; failed {times}: {facts['why']}" if failures else told


FACTS = (
    output.text("context"),
    output.text("address"),
    output.text("name", "queue manager"),
    output.text("software"),
    output.duration("uptime_ms", "up for"),
    output.count("messages"),
    output.count("leased"),
    output.count("queues"),
    output.count("subscriptions"),
    output.count("links"),
    output.count("links_up", "links up"),
    output.count("connections"),
    output.count("producers"),
    output.count("jobs"),
    output.text("store_full", "puts refused"),
    output.Column("maintenance", "maintenance", output.flag),
    output.size("store_used_bytes", "store used"),
    output.size("store_map_bytes", "store at most"),
    output.size("disk_free_bytes", "disk free"),
    output.Column("snapshot", "snapshot", _being_made),
    output.Column("snapshots", "snapshots", _scheduled),
    output.duration("cpu_ms", "processor time"),
    output.count("turn"),
    output.Column("turn_longest_us", "longest turn since asked", _milliseconds),
    output.count("boot"),
    output.text("store_id", "store"),
    output.count("pid"),
    output.Column("listening", "listening", output.listed),
)


Wait = Annotated[
    int,
    typer.Option(
        metavar="TIME",
        parser=option.wait,
        show_default=False,
        help=f'Until it answers, as in "10s"; {option.WAITS}.',
    ),
]


@command(watched=True)
def status(call: Call, wait: Wait = 0) -> None:
    """Show how the queue manager is.

    With --wait a daemon that is starting is waited for.

    "store used" of "store at most" is what the messages take; past its limits puts are refused,
    and "puts refused" says why.

    \b
    JSON: an object with
      name, software, pid, uptime_ms, cpu_ms, listening (an array of addresses)
      store_id, boot, turn           the store's identity, starts, durable turns
      queues, subscriptions, messages, leased, producers, connections, jobs
      links, links_up
      store_used_bytes, store_map_bytes, disk_free_bytes
      store_full                     why puts are refused, or ""
      maintenance                    true: it does only what it is asked
      snapshot                       null, or of the one that is being made:
                                     directory, phase (starting, writing,
                                     counting, uploading), done_bytes,
                                     total_bytes (about)
      snapshots                      the schedule: directory ("": none), every_ms,
                                     keep, next_us; last (null, or taken_us,
                                     directory, messages, data_bytes); failures
                                     since then, why
      turn_longest_us                the longest turn since somebody last asked
      turn_times_us                  [below so many us, turns], since the start
      context, address               where this came from; context may be null

    Examples:
      qmctl status
      qmctl status --wait 10s     # a daemon that was started just now
      qmctl status --watch 5s
      qmctl --context nyc status -o json
    """

    doing = "ask for the status"
    if wait:
        call.check(doing, wait)
    where = cache(call.where)  # once it is reached: --data-dir tells only then

    def ask(client: "Client") -> dict[str, Any]:
        return where() | client.admin.status()

    watch.follow(call, doing, ask, lambda row: output.facts(FACTS, row))
