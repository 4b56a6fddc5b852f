"""Writes notes about backout queues that do not exist, which the daemon accepts."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import output
from qmgr_tools.queue import system

if TYPE_CHECKING:
    from qmgr_client.blocking import Client


def note_missing(client: "Client", name: str | None) -> None:
    """Writes a note if the backout queue *name* is given but does not exist."""
    if name and not _exists(client, name):
        output.note(f"note: {words(name)}")


def words(name: str) -> str:
    """Returns the effect of the missing backout queue *name*."""
    return (
        f"backout queue {name} does not exist; "
        f"until it is created, dead letters go to {system.DEAD_LETTERS}"
    )


def missing(
    given: Iterable[Mapping[str, Any]], queues: Iterable[str], aliases: Mapping[str, str]
) -> Iterator[str]:
    """Yields the backout queues of the attributes *given* that are neither queues nor aliases.

    Args:
        aliases: The target queues of aliases by name.
    """
    known = {*queues, *system.QUEUES}
    known |= {alias for alias, target in aliases.items() if target in known}
    names = {attributes.get("backout_queue") or "" for attributes in given}
    yield from sorted(names - known - {""})


def _exists(client: "Client", name: str) -> bool:
    try:
        row = client.admin.queue_show(name)
        if row["kind"] == "alias":
            client.admin.queue_show(row["alias_of"])
    except RequestError as error:
        if error.code != ErrorCode.QUEUE_UNKNOWN:
            raise
        return False
    return True
