"""qmctl browse."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from qmgr_tools.cli import completion, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.message import grouping, selecting, selector_hint
from qmgr_tools.message import text as message_text

if TYPE_CHECKING:
    from qmgr_client.message import Message

BROWSED = 20

Browsed = Annotated[
    str,
    typer.Argument(
        metavar="QUEUE",
        show_default=False,
        autocompletion=completion.browsable_queues,
        help="A queue, or @MANAGER for what waits for a link.",
    ),
]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="At most so many.")]
Delayed = Annotated[
    bool, typer.Option("--delayed", help="Those that wait for their time, not those to be got.")
]


@command(message_text.LISTED_HELP)
def browse(
    call: Call,
    queue: Browsed,
    limit: Limit = BROWSED,
    where: selecting.Where = "",
    correlation_id: selecting.CorrelationId = "",
    group_id: selecting.GroupId = "",
    uid: selecting.GivenUid = None,
    delayed: Delayed = False,
    order: grouping.Ordered = grouping.Order.PHYSICAL,
    all_available: grouping.AllAvailable = False,
) -> None:
    """List the next messages of a queue, and leave them where they are.

    Examples:
      qmctl browse ORDERS
      qmctl browse ORDERS --where "priority > 4 AND customer = 'ann'"
      qmctl browse ORDERS --limit 100 -o json
      qmctl browse FLIGHTS --order logical
    """
    chosen = selecting.chosen(where, correlation_id, group_id, uid)
    with call.client(f"browse {queue}", queue) as client:
        browsing = client.browse(
            queue,
            limit + 1,
            delayed=delayed,
            order=order.value,
            all_available=all_available,
            **chosen,
        )
        found, is_cut = first(browsing, limit)
        if not found:
            selector_hint.tell(client, queue, where)
    if call.is_json:
        output.document(list(map(message_text.as_object, found)))
    else:
        rows = list(map(message_text.as_row, found))
        output.table(message_text.columns_of(rows, delayed=delayed), rows)
    if is_cut:
        tell_cut(limit)


def first(found: "Iterable[Message]", limit: int) -> "tuple[list[Message], bool]":
    """Return at most *limit* of what was *found*, and whether there are more."""
    shown = list(islice(found, limit + 1))
    return shown[:limit], len(shown) > limit


def tell_cut(limit: int) -> None:
    """Say that a list ended at its limit."""
    output.flush()  # On a terminal it is to be read below the list.
    output.note(f"{limit:,} shown, there are more: see --limit")
