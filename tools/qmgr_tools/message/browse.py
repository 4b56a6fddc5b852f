"""qmctl browse."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from qmgr_tools.cli import completion, output
from qmgr_tools.cli.command import Call, command
from qmgr_tools.message import grouping, selection, selector_hint
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
        help="A queue, or @MANAGER for the messages of a link.",
    ),
]
Limit = Annotated[int, typer.Option(metavar="N", min=1, help="List at most N messages.")]
Delayed = Annotated[
    bool, typer.Option("--delayed", help="List the delayed messages instead of the ready ones.")
]


@command(message_text.LISTED_HELP)
def browse(
    call: Call,
    queue: Browsed,
    limit: Limit = BROWSED,
    where: selection.Where = "",
    correlation_id: selection.CorrelationId = "",
    group_id: selection.GroupId = "",
    uid: selection.GivenUid = None,
    delayed: Delayed = False,
    order: grouping.Ordered = grouping.GroupOrder.PHYSICAL,
    all_available: grouping.AllAvailable = False,
) -> None:
    """List the next messages of a queue without removing them.

    Examples:
      qmctl browse ORDERS
      qmctl browse ORDERS --where "priority > 4 AND customer = 'ann'"
      qmctl browse ORDERS --limit 100 -o json
      qmctl browse FLIGHTS --order logical
    """
    chosen = selection.chosen(where, correlation_id, group_id, uid)
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
            selector_hint.show(client, queue, where)
    if call.is_json:
        output.document(list(map(message_text.as_object, found)))
    else:
        rows = list(map(message_text.as_row, found))
        output.table(message_text.columns_of(rows, delayed=delayed), rows)
    if is_cut:
        note_cut(limit)


def first(found: "Iterable[Message]", limit: int) -> "tuple[list[Message], bool]":
    """Returns at most *limit* items of *found*, and whether more items exist."""
    shown = list(islice(found, limit + 1))
    return shown[:limit], len(shown) > limit


def note_cut(limit: int) -> None:
    """Writes a note that a list was cut at *limit*."""
    output.flush()  # The note must appear below the list.
    output.note(f"only the first {limit:,} are shown; to show more: --limit")
