"""The errors of interventions in groups. A dry run raises the same ones."""

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import shown


def not_ahead(group_id: bytes, due: int) -> RequestError:
    """A skip to *due*, or to a number before it, skips nothing."""
    return RequestError(
        ErrorCode.VALUE_INVALID, f"group {shown(group_id)} is at number {due}; skip to a higher one"
    )


def beyond_end(group_id: bytes, number: int, last: int) -> RequestError:
    """A skip to *number* is beyond the end of the group."""
    return RequestError(
        ErrorCode.VALUE_INVALID,
        f"group {shown(group_id)} ends with number {last}, so it cannot continue with {number}; "
        f"skip to {last + 1} at most, which ends the group",
    )


def nothing_here(group_id: bytes) -> RequestError:
    """A skip without a number has no member to go to."""
    return RequestError(
        ErrorCode.VALUE_INVALID,
        f"group {shown(group_id)} has no messages on the queue; name the number to skip to",
    )


def leased(queue: str, group_id: bytes, number: int, client: str) -> RequestError:
    """A skip would take *number* from *client*, which has leased it."""
    name, who = shown(group_id), client or "a client without a name"
    return RequestError(
        ErrorCode.GROUP_IN_USE,
        f"number {number} of group {name} on queue {queue} is leased to {who}; skip it after the "
        "lease ends: pause the group until then, or close the connection of a client that hangs",
    )


def no_reader(queue: str, connection: int) -> RequestError:
    """A group cannot be reassigned: *connection*, or any other with 0, reads no groups."""
    fact = (
        f"connection {connection} reads no groups of {queue}"
        if connection
        else f"nobody else reads groups of {queue}"
    )
    return RequestError(ErrorCode.GROUP_NO_READER, f"{fact}; start a consumer of groups")
