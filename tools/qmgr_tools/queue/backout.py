"""Backout queues that are not there: nothing is refused for it, and people would not know."""

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_tools.cli import output

if TYPE_CHECKING:
    from qmgr_client.blocking import Client

DEAD_LETTERS = "SYSTEM.DEAD.LETTERS"
SYSTEM = (DEAD_LETTERS, "SYSTEM.EVENTS")  # there as soon as they are named


def note_missing(client: "Client", name: str | None) -> None:
    """Tell people where dead letters go if the backout queue *name* is given, and not there."""
    if name and not _is_there(client, name):
        output.note(f"note: {words(name)}")


def words(name: str) -> str:
    """Return what comes of it that the backout queue *name* is not there."""
    return f"backout queue {name} does not exist: dead letters go to {DEAD_LETTERS} until it does"


def missing(
    given: Iterable[Mapping[str, Any]], queues: Iterable[str], aliases: Mapping[str, str]
) -> Iterator[str]:
    """Yield the backout queues of the attributes *given* that are neither in *queues* nor aliases.

    Args:
        aliases: to the queues that they are of.
    """
    known = {*queues, *SYSTEM}
    known |= {alias for alias, target in aliases.items() if target in known}
    names = {attributes.get("backout_queue") or "" for attributes in given}
    yield from sorted(names - known - {""})


def _is_there(client: "Client", name: str) -> bool:
    try:
        row = client.admin.queue_show(name)
        if row["kind"] == "alias":
            client.admin.queue_show(row["alias_of"])
    except RequestError as error:
        if error.code != ErrorCode.QUEUE_UNKNOWN:
            raise
        return False
    return True
