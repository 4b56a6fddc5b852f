"""Which messages a command is for: --where and its like. The daemon picks them."""

from typing import Annotated, Any

import typer

from qmgr_protocol import group_id as group_ids
from qmgr_protocol.record import CORRELATION_MAX_BYTES
from qmgr_tools.cli import completion, option
from qmgr_tools.cli.failure import usage

HELP = """\b
A selector is a condition on messages, as "priority > 4 AND color = 'red'": on
what is known of each, and on its headers by their names: docs/SELECTORS.md.
"""
Where = Annotated[
    str,
    typer.Option(
        metavar="SELECTOR",
        show_default=False,
        callback=option.given,
        help="Those that fit this condition: docs/SELECTORS.md.",
    ),
]
CorrelationId = Annotated[
    str,
    typer.Option(
        metavar="TEXT",
        show_default=False,
        callback=option.given,
        help="Those of that correlation id.",
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
        help='Those of that group; see "qmctl group ls".',
    ),
]
GivenUid = Annotated[
    str | None,
    typer.Option(
        "--uid", metavar="ORIGIN.TIMESTAMP", show_default=False, help="The one of that identity."
    ),
]


def chosen(where: str, correlation_id: str, group_id: str, uid: str | None) -> dict[str, Any]:
    """Return what a client is told to select, at most one of the four.

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
        raise usage(f"cannot select by {' and '.join(names)}", "each selects by itself: give one")
    if where:
        return {"where": where}
    if correlation_id:
        return {"correlation_id": correlation(correlation_id)}
    if group_id:
        return {"group_id": _group(group_id)}
    return {} if uid is None else {"uid": option.uid(uid)}


def correlation(text: str) -> bytes:
    """Return the correlation id of an option.

    Raises:
        Failure: USAGE, it is too long.
    """
    found = text.encode(errors="surrogateescape")
    if len(found) > CORRELATION_MAX_BYTES:
        why = f"it has {len(found)} bytes, at most {CORRELATION_MAX_BYTES}"
        raise usage("--correlation-id is too long", why)
    return found


def _group(text: str) -> bytes:
    try:
        return group_ids.parsed(text)
    except ValueError as error:
        raise usage(f"--group {text[:80]!r} is no group", str(error)) from None


def within(where: str, group: str) -> str:
    """Return a selector of what *where* selects of a *group*; either may be empty, for all.

    Raises:
        Failure: USAGE, it is no group.
    """
    if not group:
        return where
    condition = f"group_id = '{_group(group).hex()}'"
    return f"{condition} AND ({where})" if where else condition


def of_uids(uids: list[str]) -> str:
    """Return a selector of the messages of these UIDs; nothing for none.

    Raises:
        Failure: USAGE, one of them is none.
    """
    names = ", ".join(f"'{option.uid(uid)}'" for uid in uids)
    return f"uid IN ({names})" if names else ""
