"""Getting messages and returning unwanted messages, for asyncio."""

import asyncio
from collections.abc import Iterable
from typing import Any

from qmgr_client.aio.session import Session
from qmgr_client.duration import Duration, in_ms
from qmgr_client.errors import MessageDamaged
from qmgr_client.message import Message
from qmgr_client.sansio.units import Unit
from qmgr_protocol import messages as m

BYTES_MAX: int = m.Get._field_defaults["bytes_max"]
UNGROUPED = (m.PHYSICAL, False, 0, 0)


async def get_many(
    session: Session,
    queue: str,
    messages_max: int,
    wait_ms: Duration,
    lease_ms: Duration,
    selection: tuple[str, bytes, bytes, bytes],
    unit: Unit | None = None,
    groups: tuple[int, bool, int, int] = UNGROUPED,
) -> list[Message]:
    """Leases up to *messages_max* messages and returns them as soon as one is available.

    *groups* has the order, all_available, the number and the reader. The get ends when its *unit*
    of work ends. The messages are not part of the unit yet.

    Raises:
        MessageDamaged: The record of one message cannot be read. The other messages are returned
            unread.
    """
    times = in_ms("wait_ms", wait_ms), in_ms("lease_ms", lease_ms)
    fields = (queue, messages_max, *times, BYTES_MAX, *selection, *groups)
    ticket, future = session.request(m.Get, *fields, unit=unit)
    try:
        found: list[Message] = await future
    except asyncio.CancelledError:
        session.abandon(ticket)
        give_back(session, future.result() if has_result(future) else [])
        raise
    for message in found:
        if message.damage:
            give_back(session, (other for other in found if other is not message))
            raise MessageDamaged(message)
    return found


def give_back(session: Session, messages: Iterable[Message]) -> None:
    """Returns *messages* to their queue unread, as if they had not been delivered."""
    if session.core.failed is None:
        for message in messages:
            session.settle(message, m.UNREAD)


def has_result(future: "asyncio.Future[Any]") -> bool:
    """Returns whether *future* has a result, although the waiting task was cancelled."""
    return future.done() and not future.cancelled() and future.exception() is None
