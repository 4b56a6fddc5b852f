"""What put, get and browse say of message groups: which one, which number, in which order."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qmgr_protocol.record import GROUP_NUMBER_MAX
from qmgr_tools.cli import completion, option
from qmgr_tools.cli.failure import usage

if TYPE_CHECKING:
    from qmgr_client.blocking import Client
    from qmgr_client.message import Message, Outgoing


class Order(StrEnum):
    """In which order messages of groups are had."""

    PHYSICAL = "physical"
    LOGICAL = "logical"


PutGroup = Annotated[
    bytes,
    typer.Option(
        "--group",
        metavar="GROUP",
        show_default=False,
        parser=option.group,
        autocompletion=completion.groups,
        help="The group that it belongs to: a text of at most 24 bytes, or 48 digits.",
    ),
]
PutNumber = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        min=1,
        max=GROUP_NUMBER_MAX,
        show_default="1",
        help="Its number there; of --lines that of the first.",
    ),
]
Last = Annotated[bool, typer.Option("--last", help="It ends its group; of --lines the last one.")]
Number = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        min=1,
        max=GROUP_NUMBER_MAX,
        show_default=False,
        help="The one of that number in the group of --group.",
    ),
]
Ordered = Annotated[
    Order,
    typer.Option(
        "--order", help="logical: group by group, each by its numbers; physical: as they came."
    ),
]
AllAvailable = Annotated[
    bool, typer.Option("--all-available", help="Of a group nothing before all of it is there.")
]


def of_put(group: bytes, number: int | None, *, last: bool) -> tuple[bytes, int, bool] | None:
    """Return where in which group a message is put, or None.

    Raises:
        Failure: USAGE, a place in no group.
    """
    if group:
        return group, number or 1, last
    if number or last:
        said = "--number" if number else "--last"
        raise usage(f"{said} needs a group", "no group is named", "name one with --group")
    return None


def numbered(outgoing: "list[Outgoing]", before: int, *, is_end: bool) -> "list[Outgoing]":
    """Return messages that are all put at one place of a group with numbers of their own.

    Args:
        before: how many of them came before these.
        is_end: whether none follow: then the last is what the place says of it.
    """
    if not outgoing or (place := outgoing[0].group) is None:
        return outgoing
    group, first, ends = place
    start, stop = first + before, first + before + len(outgoing)
    return [
        message._replace(group=(group, number, ends and is_end and number == stop - 1))
        for message, number in zip(outgoing, range(start, stop), strict=True)
    ]


def checked(chosen: dict[str, Any], number: int | None) -> None:
    """Raise a Failure, USAGE, where a *number* is of no group that is *chosen*."""
    if number and "group_id" not in chosen:
        raise usage("--number needs a group", "no group is named", "name one with --group")


@contextmanager
def getter(
    client: "Client",
    queue: str,
    chosen: dict[str, Any],
    order: Order,
    number: int | None,
    *,
    all_available: bool,
    wait_ms: int,
    lease_ms: int,
) -> "Iterator[Callable[[int], list[Message]]]":
    """Yield a function that gets up to so many messages more, as soon as there is one.

    Args:
        chosen: what is selected; in logical order that with which a group begins.
        number: of the message of a group that comes first, and in physical order alone.
    """
    if order is Order.PHYSICAL and not number and not all_available:
        yield lambda count: client.get_many(queue, count, wait_ms, lease_ms, **chosen)
        return
    with client.reader(queue, all_available=all_available, lease_ms=lease_ms) as reader:
        physical = chain([number], repeat(0)) if number else repeat(0)

        def one(first_wait_ms: int) -> "Message | None":
            at = next(physical)
            if order is Order.LOGICAL and not at:
                selection = {} if reader.current else chosen
                return reader.get(first_wait_ms, **selection)
            if number and not at:
                return None
            return reader.get_physical(
                first_wait_ms, number=at, all_available=all_available, **chosen
            )

        def several(count: int) -> "list[Message]":
            first = one(wait_ms)
            if first is None:
                return []
            return [first, *islice(iter(lambda: one(0), None), count - 1)]

        yield several
