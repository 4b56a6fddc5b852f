# Generated from qmgr_client/aio/unit.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""A unit of work for asyncio: what is put and acknowledged in it is done together, or not at all.

    with queue_manager.unit_of_work() as unit:
        order = unit.get("ORDERS", wait_ms=1_000)
        unit.put("INVOICES", invoice_of(order))

Leaving the block commits, an exception that leaves it backs out.
"""

from collections.abc import Iterable
from types import TracebackType
from typing import Unpack

from qmgr_client.aio import unit as aio_unit
from qmgr_client.blocking.bridge import Bridge, collected
from qmgr_client.duration import Duration
from qmgr_client.message import Message
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult
from qmgr_client.selection import SelectionOrUid
from qmgr_protocol.errors import RequestError


class UnitOfWork(Bridge[aio_unit.UnitOfWork]):
    """Puts and acknowledgements that are committed together, for ``with``.

    It belongs to one connection. If that is lost before its commit was sent, it is backed out, and
    every further step raises UNIT_BACKED_OUT. A commit that was sent has its one answer, however
    often the connection is lost. Steps may be under way at the same time; one that is cancelled may
    be part of the unit, or not: back out then.
    """

    def __enter__(self) -> "UnitOfWork":
        self._call(self._aio.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._leave(self._aio.__aexit__(kind, error, traceback), error)

    @property
    def has_ended(self) -> bool:
        """Whether the caller has ended it, or it was committed; not whether it was lost."""
        return self._aio.has_ended

    @property
    def is_lost(self) -> bool:
        """Whether its connection was lost before its end."""
        return self._aio.is_lost

    def put(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Put a message in the unit: nobody sees it before the commit.

        Raises:
            RequestError: it is refused, and not in the unit; the unit goes on. UNIT_BACKED_OUT,
                UNIT_UNKNOWN: the unit is over.
        """
        return self._call(self._aio.put(queue, body, **options))

    def put_many(self, queue: str, items: Iterable[bytes | Outgoing]) -> list[PutResult]:
        """Put bodies or whole messages; return what became of each, in their order.

        Raises:
            RequestError: the first refusal. Others of *items* may be in the unit by then: an error
                that leaves the block backs them out; who goes on commits them. UNIT_BACKED_OUT,
                UNIT_UNKNOWN: the unit is over.
        """
        return self._call(self._aio.put_many(queue, collected(items)))

    def get(
        self, queue: str, wait_ms: Duration = 0, **selection: Unpack[SelectionOrUid]
    ) -> Message | None:
        """Return the next message, which the commit removes; None where none comes in *wait_ms*."""
        return self._call(self._aio.get(queue, wait_ms, **selection))

    def get_many(
        self,
        queue: str,
        messages_max: int,
        wait_ms: Duration = 0,
        **selection: Unpack[SelectionOrUid],
    ) -> list[Message]:
        """Return up to *messages_max* messages, which the commit removes, as soon as there is one.

        Raises:
            MessageDamaged: one cannot be read, and is leased; none is in the unit.
            RequestError: UNIT_TOO_LARGE, or LEASE_LOST: none is in the unit.
        """
        return self._call(self._aio.get_many(queue, messages_max, wait_ms, **selection))

    def ack(self, message: Message) -> None:
        """Have the commit remove a message that is under lease, from a consumer say.

        Raises:
            RequestError: LEASE_LOST, another may have it by now: it is not in the unit.
        """
        self._call(self._aio.ack(message))

    def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Do so with many; return why not for each that is not in the unit."""
        return self._call(self._aio.ack_many(collected(messages)))

    def commit(self) -> None:
        """Have all of it done; return when it is on disk.

        Raises:
            RequestError: UNIT_BACKED_OUT, nothing of it is done; STORE_FULL, it can be tried again.
            UnknownOutcome: the queue manager cannot tell any more.
        """
        self._call(self._aio.commit())

    def backout(self, reason: str = "", text: str = "") -> None:
        """Have nothing of it done: what was got comes back. Done already where it was lost.

        Args:
            reason, text: why, in a word of at most 64 characters, and for people in at most 1,000;
                kept in the notes of what was got.
        """
        self._call(self._aio.backout(reason, text))
