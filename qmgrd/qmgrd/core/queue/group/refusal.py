"""Why an intervention in a group is refused; who asks what it would do is told the same."""

from shlex import quote

from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.group_id import shown


def not_ahead(group_id: bytes, due: int) -> RequestError:
    """Return that a skip to *due*, or to a number before it, skips nothing."""
    return RequestError(
        ErrorCode.VALUE_INVALID,
        f"group {shown(group_id)} is at number {due}; a skip goes to a higher one",
    )


def beyond_end(group_id: bytes, number: int, last: int) -> RequestError:
    """Return that a skip to *number* promises what is not kept: the group is over before that."""
    return RequestError(
        ErrorCode.VALUE_INVALID,
        f"group {shown(group_id)} ends with number {last}, so it cannot go on with {number}; "
        f"skip to {last + 1} at most, which ends the group",
    )


def nothing_here(group_id: bytes) -> RequestError:
    """Return that a skip that names no number has none to go to."""
    return RequestError(
        ErrorCode.VALUE_INVALID,
        f"nothing of group {shown(group_id)} is here; say the number to skip to",
    )


def leased(queue: str, group_id: bytes, number: int, client: str) -> RequestError:
    """Return that a skip would take *number* away from *client*, which has it leased."""
    name, who = shown(group_id), client or "a client without a name"
    return RequestError(
        ErrorCode.GROUP_IN_USE,
        f"number {number} of group {name} is leased to {who}; skip once that is settled: pause the "
        f"group until then (qmctl group pause {queue} {quote(name)}), or close the connection of "
        "who hangs (qmctl connection ls)",
    )


def no_reader(queue: str, connection: int) -> RequestError:
    """Return that a group cannot be reassigned, to *connection* or, with 0, to anyone else."""
    fact = (
        f"connection {connection} reads no groups of {queue}"
        if connection
        else f"nobody else reads groups of {queue}"
    )
    return RequestError(
        ErrorCode.GROUP_NO_READER, f"{fact}; start a consumer of groups; see: qmctl connection ls"
    )
