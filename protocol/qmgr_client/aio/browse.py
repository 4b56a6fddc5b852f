"""Browsing a queue page by page, for asyncio. A browse does not change the queue."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from qmgr_client.message import Message, decode, decode_cut
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError

_ORDERS = {m.PHYSICAL: "physical", m.LOGICAL: "logical"}
PAGE_MESSAGES = 100
PAGE_BYTES: int = m.Browse._field_defaults["bytes_max"]


async def browse(
    ask: Callable[..., Awaitable[Any]],
    queue: str,
    limit: int | None,
    after: Message | None,
    selection: tuple[str, bytes, bytes, bytes],
    delayed: bool,
    groups: tuple[int, bool],
) -> AsyncGenerator[Message, None]:
    """Yields at most *limit* messages that come after *after*.

    Raises:
        RequestError: The errors of :func:`_place_of`, or a refusal of the queue manager.
    """
    place = None if after is None else _place_of(after, groups[0])
    count = 0
    while limit is None or count != limit:  # The daemon refuses a negative page size.
        page = PAGE_MESSAGES if limit is None else min(PAGE_MESSAGES, limit - count)
        value = await ask(m.Browse, queue, place, page, PAGE_BYTES, *selection, delayed, *groups)
        cut = dict(row[:2] for row in value.get("cut", ()))
        for index, item in enumerate(value["items"]):
            found = decode_cut(item, queue, cut[index]) if index in cut else decode(item, queue, 0)
            yield found._replace(browse_order=groups[0])
        count += len(value["items"])
        place = value["next"]
        if place is None:  # A page is empty if none of its messages match.
            return


def _place_of(message: Message, order: int) -> list[int]:
    """Returns the position from which a browse in *order* continues after *message*.

    In logical order, the position of a group is the position of its due message. Other messages of
    the group do not contain this position.

    Raises:
        RequestError: INCONSISTENT_BROWSE if *message* was browsed in another order. VALUE_INVALID
            if the order is logical and *message* is part of a group.
    """
    if message.browse_order not in (None, order):
        was, is_ = _ORDERS[message.browse_order or m.PHYSICAL], _ORDERS[order]
        text = f"the message was browsed in {was} order: continue in that order, not in {is_} order"
        raise RequestError(ErrorCode.INCONSISTENT_BROWSE, text)
    place = list(m.HANDLE.unpack(message.handle)[:2])
    if order == m.PHYSICAL:
        return place
    if message.group is not None:
        text = (
            "a browse in logical order cannot continue after a message of a group: browse again "
            "from the start"
        )
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return [*place, 0, order]
