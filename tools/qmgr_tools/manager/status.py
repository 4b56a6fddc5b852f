"""qmctl status: the state of the queue manager."""

from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_config.units import ms_text
from qmgr_tools.cli import humanize, option, output, watch
from qmgr_tools.cli.command import Call, command
from qmgr_tools.manager import journal

if TYPE_CHECKING:
    from qmgr_client.blocking import Client


def _milliseconds(time_us: int) -> str:
    return f"{time_us / 1000:,.1f} ms"


def _in_progress(facts: Any) -> str:
    """Returns the progress of the running snapshot."""
    done, total = humanize.size(facts["done_bytes"]), humanize.size(facts["total_bytes"])
    return f"{facts['phase']} {facts['directory']}: {done} of about {total}"


def _scheduled(facts: Any) -> str:
    """Returns the state of the scheduled snapshots, or "" if no snapshot is scheduled."""
    if not facts["directory"]:
        return ""
    last, failures = facts["last"], facts["failures"]
    text = f"every {ms_text(facts['every_ms'])} to {facts['directory']}"
    text += f", last {humanize.rfc3339(last['taken_us'])}" if last else ", none yet"
    text += f", next {humanize.rfc3339(facts['next_us'])}"
    times = humanize.counted(failures, "time")
    return f"{text}; failed {times}: {facts['why']}" if failures else text


def _certificates(certificates: Any) -> str:
    """Returns the file and the end of each certificate."""
    return ", ".join(f"{row['path']} ends {row['ends'][:10]}" for row in certificates)


def _login(is_open: object) -> str:
    return "open: clients need no user, because no user exists" if is_open else "required"


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
    output.Column("open", "login", _login),
    output.size("store_used_bytes", "store used"),
    output.size("store_map_bytes", "store limit"),
    output.size("disk_free_bytes", "disk free"),
    *journal.FACTS,
    output.Column("snapshot", "snapshot", _in_progress),
    output.Column("snapshots", "snapshots", _scheduled),
    output.duration("cpu_ms", "processor time"),
    output.count("turn"),
    output.Column("turn_longest_us", "longest turn since last status", _milliseconds),
    output.count("boot"),
    output.text("store_id", "store"),
    output.count("pid"),
    output.Column("listening", "listening", output.listed),
    output.Column("certificates", "certificates", _certificates),
)


Wait = Annotated[
    int,
    typer.Option(
        metavar="TIME",
        parser=option.wait,
        show_default=False,
        help=f'Wait up to TIME until the daemon answers, as in "10s"; {option.WAITS}.',
    ),
]


@command(watched=True)
def status(call: Call, wait: Wait = 0) -> None:
    """Show the state of the queue manager.

    With --wait, the command waits for a daemon that is starting.

    If "store used" is near "store limit", or the disk is nearly full, puts are refused. In that
    case "puts refused" shows the reason.

    \b
    JSON: an object with
      name, software, pid, uptime_ms, cpu_ms, listening (an array of addresses)
      certificates                   an array of objects with path, names, ends
                                     (ISO 8601), fingerprint (SHA-256)
      store_id, boot, turn           id of the store; number of starts; number of
                                     durable turns
      queues, subscriptions, messages, leased, producers, connections, jobs
      links, links_up
      store_used_bytes, store_map_bytes, disk_free_bytes
      store_full                     the reason why puts are refused, or ""
      maintenance                    true: started with --maintenance
      open                           true: clients need no user, because no
                                     user exists
      snapshot                       null, or the running snapshot:
                                     directory, phase (starting, writing,
                                     counting, uploading), done_bytes,
                                     total_bytes (about)
      snapshots                      the schedule: directory ("": none), every_ms,
                                     keep, next_us; last (null, or taken_us,
                                     directory, messages, data_bytes); failures
                                     since then, and why
      journal                        place: none, file or postgresql
                                     if postgresql, also: member (the active
                                     one), why, since_us and epoch of its
                                     takeover; record (the last); trouble (why
                                     the server does not answer, or ""); server
                                     (its version) and its settings fsync,
                                     synchronous_commit and
                                     synchronous_standby_names; log_bytes;
                                     base_record (0: no base), base_bytes;
                                     members: an array of member, role (active,
                                     standby, away), record, behind (records),
                                     addresses, seen_ms
      turn_longest_us                the longest turn since the last status
      turn_times_us                  pairs since the start: [time in us, number of
                                     shorter turns]
      context, address               the address in use, and its context or null

    Examples:
      qmctl status
      qmctl status --wait 10s     # after starting a daemon
      qmctl status --watch 5s
      qmctl --context nyc status -o json
    """

    doing = "show the status"
    if wait:
        call.check(doing, wait)
    where = cache(call.where)  # With --data-dir the address is unknown until the daemon runs.

    def ask(client: "Client") -> dict[str, Any]:
        return where() | client.admin.status()

    watch.follow(call, doing, ask, _show)


def _show(row: dict[str, Any]) -> None:
    found = row.get("journal") or {}
    output.facts(FACTS, row | journal.facts(found))
    journal.show_members(found)
