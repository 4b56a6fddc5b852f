"""Checks in a dry run whether a job would be refused or would wait because of its target."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli.humanize import messages

if TYPE_CHECKING:
    from qmgr_client.blocking import Client


def source(client: "Client", name: str) -> str:
    """Returns the queue from which a job on *name* removes messages, after resolving an alias.

    Raises:
        RequestError: QUEUE_UNKNOWN if the queue or the alias's target does not exist.
            QUEUE_IS_TRANSMISSION if the queue belongs to a link.
    """
    row = _resolved(client, client.admin.queue_show(name))[-1]
    if row["kind"] == "transmission":
        why = "its messages are numbered, so a move would leave gaps"
        raise _transmission_error(
            f"{name} is a transmission queue: {why}; delete the link and its messages instead"
        )
    return str(row["queue"])


def waits(client: "Client", source_name: str, target: str, count: int) -> str:
    """Returns the reason why a job that moves *count* messages to *target* would wait, or "".

    Raises:
        RequestError: QUEUE_UNKNOWN, QUEUE_IS_TRANSMISSION, or VALUE_INVALID if *target* is
            *source_name* itself. The job would be refused.
    """
    path = _resolved(client, client.admin.queue_show(target))
    if path[-1]["kind"] == "transmission":
        remedy = f"name a remote queue, such as QUEUE{target}"
        raise _transmission_error(f"{target} is a transmission queue; {remedy}")
    if path[-1]["queue"] == source_name:
        why = f"{target} is queue {source_name} itself; choose another target"
        raise RequestError(ErrorCode.VALUE_INVALID, why)
    if path[-1]["kind"] == "remote":
        path.append(client.admin.queue_show(f"@{path[-1]['manager']}"))
    for row in path:
        if row.get("put_inhibit"):
            return f"puts are inhibited on {row['queue']}: the job would wait"
    return _without_room(path[-1], count)


def _transmission_error(text: str) -> RequestError:
    return RequestError(ErrorCode.QUEUE_IS_TRANSMISSION, text)


def _resolved(client: "Client", row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Returns *row*, followed by the row of its target if *row* is an alias.

    Raises:
        RequestError: QUEUE_UNKNOWN if the target of the alias does not exist.
    """
    if row["kind"] != "alias":
        return [row]
    try:
        return [row, client.admin.queue_show(row["alias_of"])]
    except RequestError as error:
        if error.code == ErrorCode.QUEUE_UNKNOWN:
            list(client.browse(row["queue"], 1))  # Raises the daemon's error about the alias.
        raise


def _without_room(row: Mapping[str, Any], count: int) -> str:
    room = row["depth_max"] - sum(row.get(part, 0) for part in ("depth", "delayed", "held"))
    name = row["queue"]
    if count and (room <= 0 or row["bytes"] >= row["bytes_max"]):
        return f"{name} is full: the job would wait"
    if count > room:
        return f"{name} has room for only {messages(room)}: the job would wait with the rest"
    return ""
