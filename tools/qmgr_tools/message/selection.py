"""Options that select messages, such as --where. The daemon evaluates them."""

from typing import Annotated, Any

import typer

from qmgr_protocol import group_id as group_ids
from qmgr_protocol.record import CORRELATION_MAX_BYTES
from qmgr_tools.cli import completion, option
from qmgr_tools.cli.failure import usage

HELP = """\b
A selector is a condition on fields and headers of messages, such as
"priority > 4 AND color = 'red'": docs/SELECTORS.md.
"""
Where = Annotated[
    str,
    typer.Option(
        metavar="SELECTOR",
        show_default=False,
        callback=option.given,
        help="Only messages that match this condition: docs/SELECTORS.md.",
    ),
]
CorrelationId = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        show_default=False,
        callback=option.given,
        help="Only messages with this correlation id.",
    ),
]
GroupId = Annotated[
    str,
    typer.Option(
        "--group",
        "--group-id",
        metavar="GROUP",
        show_default=False,
        callback=option.given,
        autocompletion=completion.groups,
        help="Only messages of this group; see: qmctl group ls.",
    ),
]
GivenUid = Annotated[
    str | None,
    typer.Option(
        "--uid", metavar="ORIGIN.TIMESTAMP", show_default=False, help="The message with this UID."
    ),
]


def chosen(where: str, correlation_id: str, group_id: str, uid: str | None) -> dict[str, Any]:
    """Return the selection for a client: at most one of the four.

    Raises:
        Failure: USAGE.
    """
    given = {
        "--where": bool(where),
        "--correlation-id": bool(correlation_id),
        "--group": bool(group_id),
        "--uid": uid is not None,
    }
    names = [name for name, is_given in given.items() if is_given]
    if len(names) > 1:
        raise usage(f"conflicting options {' and '.join(names)}", "they exclude each other")
    if where:
        return {"where": where}
    if correlation_id:
        return {"correlation_id": correlation(correlation_id)}
    if group_id:
        return {"group_id": _group(group_id)}
    return {} if uid is None else {"uid": option.uid(uid)}


def correlation(text: str) -> bytes:
    """Return the correlation id from an option.

    Raises:
        Failure: USAGE, it is too long.
    """
    found = text.encode(errors="surrogateescape")
    if len(found) > CORRELATION_MAX_BYTES:
        why = f"it has {len(found)} bytes; the maximum is {CORRELATION_MAX_BYTES}"
        raise usage("--correlation-id is too long", why)
    return found


def _group(text: str) -> bytes:
    try:
        return group_ids.parsed(text)
    except ValueError as error:
        raise usage(f"invalid group id --group {text[:80]!r}", str(error)) from None


def within(where: str, group: str) -> str:
    """Return a selector for *where* within *group*; either may be empty, for all.

    Raises:
        Failure: USAGE, the group id is invalid.
    """
    if not group:
        return where
    condition = f"group_id = '{_group(group).hex()}'"
    return f"{condition} AND ({where})" if where else condition


def of_uids(uids: list[str]) -> str:
    """Return a selector of the messages with these UIDs; empty for none.

    Raises:
        Failure: USAGE, a UID is invalid.
    """
    names = ", ".join(f"'{option.uid(uid)}'" for uid in uids)
    return f"uid IN ({names})" if names else ""
