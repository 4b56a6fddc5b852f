"""--dry-run: what a command would destroy or change, and nothing done.

What the command itself would be refused is refused here, too: exit code 0 says that it would go.
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
    bool, typer.Option("--dry-run", help="Say what it would do, and change nothing.")
]


def tell(call: Call, row: Mapping[str, Any], words: str) -> None:
    """Print what would be done: *row* as JSON, *words* for people."""
    if call.is_json:
        output.document({"dry_run": True, **row})
    else:
        output.say(f"would {words}; nothing is changed")


def delete_queue(call: Call, row: Mapping[str, Any]) -> None:
    """Tell what would go with the queue of *row*.

    Raises:
        Failure: REFUSED, it is of a link.
    """
    queue, kind = row["queue"], row.get("kind")
    if kind == "transmission":
        raise _of_link(f"delete queue {queue}", queue)
    if kind == "alias":
        counts = {"messages": 0, "bytes": 0, "leased": 0, "consumers": 0}
        stays = f"queue {row.get('alias_of')} stays"
        tell(call, {"queue": queue, **counts}, f"delete the alias {queue}; {stays}")
        return
    if kind == "remote":
        waiting = f"; what waits on @{row.get('manager')} stays"
        counts = {"messages": 0, "bytes": 0, "leased": 0, "consumers": 0}
        tell(call, {"queue": queue, **counts}, f"delete the remote queue {queue}{waiting}")
        return
    keys = {"messages": "depth", "bytes": "bytes", "leased": "leased", "consumers": "consumers"}
    counts = {key: int(row.get(of, 0)) for key, of in keys.items()}
    words = f"delete queue {queue} and {messages(counts['messages'])}, {size(counts['bytes'])}"
    if counts["leased"]:
        words += f", {counts['leased']} of them leased"
    if consumers := counts["consumers"]:
        words += f"; {counted(consumers, 'consumer')} would lose it"
    tell(call, {"queue": queue, **counts}, words)


def purge_queue(call: Call, row: Mapping[str, Any]) -> None:
    """Tell what a purge would remove from the queue of *row*.

    Raises:
        Failure: REFUSED, it is of a link, or has no messages of its own.
    """
    queue, kind = row["queue"], row.get("kind")
    if kind == "transmission":
        raise _of_link(f"purge queue {queue}", queue)
    if kind == "remote":
        why = f"it is remote: its messages wait on {row.get('waits_on')}"
        raise Failure(Exit.REFUSED, f"cannot purge queue {queue}", why)
    if kind == "alias":
        why = f"it is an alias: its messages are on {row.get('alias_of')}"
        raise Failure(Exit.REFUSED, f"cannot purge queue {queue}", why)
    leased, on_it, count = int(row.get("leased", 0)), int(row.get("bytes", 0)), purgeable(row)
    bytes_max = on_it if count else 0
    exact = None if count and leased else bytes_max
    words = f"purge {messages(count)} from queue {queue}, "
    words += size(bytes_max) if exact is not None else f"at most {size(bytes_max)}"
    words += f"; {leased} leased would stay" if leased else ""
    counts = {"messages": count, "bytes": exact, "bytes_max": bytes_max, "leased": leased}
    tell(call, {"queue": queue, **counts}, words)


def purgeable(row: Mapping[str, Any]) -> int:
    """Return how many messages a purge would remove from the queue of *row*: delayed ones, too."""
    return int(row.get("ready", 0)) + int(row.get("delayed", 0))


def _of_link(doing: str, queue: str) -> Failure:
    remedy = f"see: qmctl link delete {queue.removeprefix('@')} --purge --dry-run"
    return Failure(Exit.REFUSED, f"cannot {doing}", "it goes with its link", remedy)


def delete_link(call: Call, client: "Client", link: str, row: Mapping[str, Any]) -> None:
    """Tell what would go with *link*, whose row is given.

    Raises:
        Failure: REFUSED, remote queues use it.
    """
    users = [
        str(queue["queue"]) for queue in client.admin.queue_list() if queue.get("manager") == link
    ]
    if users:
        why = f"link {link} is used by {', '.join(users[:5])}"
        raise Failure(Exit.REFUSED, f"cannot delete link {link}", why, "delete these first")
    keys = {"messages": "waiting", "bytes": "waiting_bytes", "in_flight": "in_flight"}
    counts = {key: int(row.get(of, 0)) for key, of in keys.items()}
    words = f"delete link {link} and {messages(counts['messages'])}, {size(counts['bytes'])}"
    if counts["in_flight"]:
        words += f", {counts['in_flight']} of them sent and not confirmed"
    tell(call, {"link": link, **counts}, words)
