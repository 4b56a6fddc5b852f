"""Where a job would take messages: refused as the job itself would be, and why that would wait."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli.humanize import messages

if TYPE_CHECKING:
    from qmgr_client.blocking import Client


def source(client: "Client", name: str) -> str:
    """Return the queue whose messages a job on *name* is about: *name*, or of what it is an alias.

    Raises:
        RequestError: QUEUE_UNKNOWN; QUEUE_IS_TRANSMISSION, as the job would be refused.
    """
    row = _behind(client, client.admin.queue_show(name))[-1]
    if row["kind"] == "transmission":
        from qmgrd.core.requests.jobs import numbered  # takes 100 ms

        raise numbered(name, "a move would leave holes")
    return str(row["queue"])


def waits(client: "Client", source_name: str, target: str, count: int) -> str:
    """Return why a job that brings *count* messages to *target* would wait, or nothing.

    Raises:
        RequestError: it would be refused: QUEUE_UNKNOWN, QUEUE_IS_TRANSMISSION, or VALUE_INVALID
            where *target* is *source_name* itself.
    """
    from qmgrd.core.requests.jobs import is_itself, is_transmission  # takes 100 ms

    way = _behind(client, client.admin.queue_show(target))
    if way[-1]["kind"] == "transmission":
        raise is_transmission(target)
    if way[-1]["queue"] == source_name:
        raise is_itself(target, source_name)
    if way[-1]["kind"] == "remote":
        way.append(client.admin.queue_show(f"@{way[-1]['manager']}"))
    for row in way:
        if row.get("put_inhibit"):
            return f"puts are inhibited on {row['queue']}: the job would wait"
    return _without_room(way[-1], count)


def _behind(client: "Client", row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return *row*, and that of the queue of which it is an alias."""
    if row["kind"] != "alias":
        return [row]
    try:
        return [row, client.admin.queue_show(row["alias_of"])]
    except RequestError as error:
        if error.code != ErrorCode.QUEUE_UNKNOWN:
            raise
        from qmgrd.core.catalogue.missing import no_target  # takes 100 ms

        raise no_target(row["queue"], row["alias_of"]) from None


def _without_room(row: Mapping[str, Any], count: int) -> str:
    room = row["depth_max"] - sum(row.get(part, 0) for part in ("depth", "delayed", "held"))
    name = row["queue"]
    if count and (room <= 0 or row["bytes"] >= row["bytes_max"]):
        return f"{name} is full: the job would wait"
    if count > room:
        return f"{name} has room for {messages(room)} more: the job would wait with the rest"
    return ""
