"""The options of put, get and browse for message groups: group, number and order."""

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


class GroupOrder(StrEnum):
    """The order in which messages of groups are returned."""

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
        help="The group of the message: text of at most 24 bytes, or 48 hexadecimal digits.",
    ),
]
PutNumber = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        min=1,
        max=GROUP_NUMBER_MAX,
        show_default="1",
        help="The number of the message in the group; with --lines, the number of the first line.",
    ),
]
Last = Annotated[
    bool,
    typer.Option(
        "--last", help="The message, or with --lines the last line, is the last of its group."
    ),
]
Number = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER",
        min=1,
        max=GROUP_NUMBER_MAX,
        show_default=False,
        help="Get the message with this number of --group.",
    ),
]
Ordered = Annotated[
    GroupOrder,
    typer.Option("--order", help="logical: each group in sequence; physical: order of arrival."),
]
AllAvailable = Annotated[
    bool,
    typer.Option("--all-available", help="Select only groups whose messages have all arrived."),
]


def of_put(group: bytes, number: int | None, *, last: bool) -> tuple[bytes, int, bool] | None:
    """Returns the group, the number and the last flag of a message to put, or None.

    Raises:
        Failure: USAGE if a number or the last flag is given without a group.
    """
    if group:
        return group, number or 1, last
    if number or last:
        given = "--number" if number else "--last"
        raise usage(f"{given} needs a group", "no group is given", "add --group GROUP")
    return None


def numbered(outgoing: "list[Outgoing]", before: int, *, is_end: bool) -> "list[Outgoing]":
    """Returns the messages of a group with consecutive numbers.

    Args:
        before: The number of earlier messages.
        is_end: Whether no messages follow. Only then may the last message end the group.
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
    """Raises a Failure with USAGE if *number* is given without a group."""
    if number and "group_id" not in chosen:
        raise usage("--number needs a group", "no group is given", "add --group GROUP")


@contextmanager
def getter(
    client: "Client",
    queue: str,
    chosen: dict[str, Any],
    order: GroupOrder,
    number: int | None,
    *,
    all_available: bool,
    wait_ms: int,
    lease_ms: int,
) -> "Iterator[Callable[[int], list[Message]]]":
    """Yields a function that waits for a message and returns up to N messages.

    Args:
        chosen: The selection. In logical order it selects the first message of a group.
        number: The number of the first message; in physical order, of the only message.
    """
    if order is GroupOrder.PHYSICAL and not number and not all_available:
        yield lambda count: client.get_many(queue, count, wait_ms, lease_ms, **chosen)
        return
    with client.reader(queue, all_available=all_available, lease_ms=lease_ms) as reader:
        physical = chain([number], repeat(0)) if number else repeat(0)

        def one(first_wait_ms: int) -> "Message | None":
            at = next(physical)
            if order is GroupOrder.LOGICAL and not at:
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
