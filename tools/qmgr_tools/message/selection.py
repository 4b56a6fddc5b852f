"""The options that select messages, such as --where. The daemon evaluates the selection."""

from typing import Annotated, Any

import typer

from qmgr_protocol import group_id as group_ids
from qmgr_protocol.record import CORRELATION_MAX_BYTES
from qmgr_tools.cli import completion, option
from qmgr_tools.cli.failure import usage

HELP = """\b
A selector is a condition on fields and headers of messages, such as
"priority > 4 AND color = 'red'". See docs/SELECTORS.md.
"""
Where = Annotated[
    str,
    typer.Option(
        metavar="SELECTOR",
        show_default=False,
        callback=option.given,
        help="Select messages that match this condition; see docs/SELECTORS.md.",
    ),
]
CorrelationId = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        show_default=False,
        callback=option.given,
        help="Select messages with this correlation id.",
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
        help="Select messages of this group; see: qmctl group ls.",
    ),
]
GivenUid = Annotated[
    str | None,
    typer.Option(
        "--uid",
        metavar="ORIGIN.TIMESTAMP",
        show_default=False,
        help="Select the message with this UID.",
    ),
]


def chosen(where: str, correlation_id: str, group_id: str, uid: str | None) -> dict[str, Any]:
    """Returns the client's selection from at most one of the four options.

    Raises:
        Failure: USAGE if more than one option is given, or a value is invalid.
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
    """Returns the correlation id of an option.

    Raises:
        Failure: USAGE if the text is too long.
    """
    found = text.encode(errors="surrogateescape")
    if len(found) > CORRELATION_MAX_BYTES:
        why = f"it has {len(found)} bytes; the limit is {CORRELATION_MAX_BYTES}"
        raise usage("--correlation-id is too long", why)
    return found


def _group(text: str) -> bytes:
    try:
        return group_ids.parsed(text)
    except ValueError as error:
        raise usage(f"invalid group id --group {text[:80]!r}", str(error)) from None


def within(where: str, group: str) -> str:
    """Returns a selector for *where* within *group*. An empty *where* or *group* selects all.

    Raises:
        Failure: USAGE if the group id is invalid.
    """
    if not group:
        return where
    condition = f"group_id = '{_group(group).hex()}'"
    return f"{condition} AND ({where})" if where else condition


def of_uids(uids: list[str]) -> str:
    """Returns a selector for the messages with these UIDs, or "" if there are no UIDs.

    Raises:
        Failure: USAGE if a UID is invalid.
    """
    names = ", ".join(f"'{option.uid(uid)}'" for uid in uids)
    return f"uid IN ({names})" if names else ""
