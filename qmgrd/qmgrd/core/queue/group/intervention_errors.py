"""The errors of interventions in groups. A dry run raises the same errors."""

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import shown


def not_ahead_error(group_id: bytes, due: int) -> RequestError:
    """Returns the error for a skip to *due* or to a lower number, which would skip nothing."""
    return RequestError(
        ErrorCode.VALUE_INVALID, f"group {shown(group_id)} is at number {due}; skip to a higher one"
    )


def beyond_end_error(group_id: bytes, number: int, last: int) -> RequestError:
    """Returns the error for a skip to *number* beyond the end of the group."""
    return RequestError(
        ErrorCode.VALUE_INVALID,
        f"group {shown(group_id)} ends with number {last}, so it cannot continue with {number}; "
        f"skip to {last + 1} at most, which ends the group",
    )


def no_members_error(group_id: bytes) -> RequestError:
    """Returns the error for a skip without a number in a group without members."""
    return RequestError(
        ErrorCode.VALUE_INVALID,
        f"group {shown(group_id)} has no messages on the queue; name the number to skip to",
    )


def leased_member_error(queue: str, group_id: bytes, number: int, client: str) -> RequestError:
    """Returns the error for a skip of *number*, which is leased to *client*."""
    name, who = shown(group_id), client or "a client without a name"
    return RequestError(
        ErrorCode.GROUP_IN_USE,
        f"number {number} of group {name} on queue {queue} is leased to {who}; skip it after the "
        "lease ends: pause the group until then, or close the connection of a client that hangs",
    )


def no_reader_error(queue: str, connection: int) -> RequestError:
    """Returns the error for a reassignment to a connection that reads no groups.

    Args:
        queue: The name of the queue.
        connection: The connection; 0 for any connection other than the current reader.
    """
    fact = (
        f"connection {connection} reads no groups of {queue}"
        if connection
        else f"no other connection reads groups of {queue}"
    )
    return RequestError(ErrorCode.GROUP_NO_READER, f"{fact}; start a consumer of groups")
