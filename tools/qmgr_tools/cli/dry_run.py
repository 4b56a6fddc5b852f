"""--dry-run: reports the changes that a command would make, without making them.

If qmctl can detect that the daemon would refuse the command, the dry run also fails.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_tools.cli import output
from qmgr_tools.cli.command import Call
from qmgr_tools.cli.failure import Exit, Failure
from qmgr_tools.cli.humanize import counted, messages, size

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Show what the command would do; change nothing.")
]


def show(call: Call, row: Mapping[str, Any], words: str) -> None:
    """Prints the effect of the command: *row* as JSON, *words* for people."""
    if call.is_json:
        output.document({"dry_run": True, **row})
    else:
        output.say(f"would {words}; nothing changed")


def delete_queue(call: Call, row: Mapping[str, Any]) -> None:
    """Prints the effect of deleting the queue of *row*.

    Raises:
        Failure: REFUSED if the queue belongs to a link.
    """
    queue, kind = row["queue"], row.get("kind")
    if kind == "transmission":
        raise _of_link(f"delete queue {queue}", queue)
    if kind == "alias":
        counts = {"messages": 0, "bytes": 0, "leased": 0, "consumers": 0}
        kept = f"queue {row.get('alias_of')} is kept"
        show(call, {"queue": queue, **counts}, f"delete alias {queue}; {kept}")
        return
    if kind == "remote":
        kept = f"pending messages on @{row.get('manager')} are kept"
        counts = {"messages": 0, "bytes": 0, "leased": 0, "consumers": 0}
        show(call, {"queue": queue, **counts}, f"delete remote queue {queue}; {kept}")
        return
    keys = {"messages": "depth", "bytes": "bytes", "leased": "leased", "consumers": "consumers"}
    counts = {key: int(row.get(of, 0)) for key, of in keys.items()}
    words = f"delete queue {queue} and {messages(counts['messages'])}, {size(counts['bytes'])}"
    if counts["leased"]:
        words += f", {counts['leased']} of them leased"
    if consumers := counts["consumers"]:
        words += f"; {counted(consumers, 'consumer')} would be closed"
    show(call, {"queue": queue, **counts}, words)


def purge_queue(call: Call, row: Mapping[str, Any]) -> None:
    """Prints the effect of purging the queue of *row*.

    Raises:
        Failure: REFUSED if the queue belongs to a link, or stores no messages itself.
    """
    queue, kind = row["queue"], row.get("kind")
    if kind == "transmission":
        raise _of_link(f"purge queue {queue}", queue)
    if kind == "remote":
        waits_on = row.get("waits_on")
        why = f"it is a remote queue: its messages are on {waits_on}"
        raise Failure(Exit.REFUSED, f"cannot purge queue {queue}", why)
    if kind == "alias":
        target = row.get("alias_of")
        why = f"it is an alias: its messages are on {target}"
        remedy = f"to purge them: qmctl queue purge {target}"
        raise Failure(Exit.REFUSED, f"cannot purge queue {queue}", why, remedy)
    leased, on_it, count = int(row.get("leased", 0)), int(row.get("bytes", 0)), purgeable(row)
    bytes_max = on_it if count else 0
    exact = None if count and leased else bytes_max
    words = f"purge {messages(count)} from queue {queue}, "
    words += size(bytes_max) if exact is not None else f"at most {size(bytes_max)}"
    words += f"; {counted(leased, 'leased message')} would stay" if leased else ""
    counts = {"messages": count, "bytes": exact, "bytes_max": bytes_max, "leased": leased}
    show(call, {"queue": queue, **counts}, words)


def purgeable(row: Mapping[str, Any]) -> int:
    """Returns the number of ready and delayed messages that a purge would remove."""
    return int(row.get("ready", 0)) + int(row.get("delayed", 0))


def _of_link(doing: str, queue: str) -> Failure:
    remedy = f"see: qmctl link delete {queue.removeprefix('@')} --purge --dry-run"
    why = "it is a transmission queue, which is deleted with its link"
    return Failure(Exit.REFUSED, f"cannot {doing}", why, remedy)


def delete_link(call: Call, client: "Client", link: str, row: Mapping[str, Any]) -> None:
    """Prints the effect of deleting *link*, which has this *row*.

    Raises:
        Failure: REFUSED if remote queues use the link.
    """
    users = [
        str(queue["queue"]) for queue in client.admin.queue_list() if queue.get("manager") == link
    ]
    if users:
        why = f"remote queues use it: {', '.join(users[:5])}"
        raise Failure(Exit.REFUSED, f"cannot delete link {link}", why, "delete these queues first")
    keys = {"messages": "waiting", "bytes": "waiting_bytes", "in_flight": "in_flight"}
    counts = {key: int(row.get(of, 0)) for key, of in keys.items()}
    words = f"delete link {link} and {messages(counts['messages'])}, {size(counts['bytes'])}"
    if counts["in_flight"]:
        words += f", {counts['in_flight']} of them sent but not confirmed"
    show(call, {"link": link, **counts}, words)
