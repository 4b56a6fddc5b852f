"""A unit of work without async; aio_unit says more of each verb.

with client.unit_of_work() as unit:
    order = unit.get("ORDERS", wait_ms=1_000)
    unit.put("INVOICES", invoice_of(order))
"""

from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Unpack

from qmgr_client import aio
from qmgr_client.blocking.bridge import Caller
from qmgr_client.duration import Duration
from qmgr_client.message import Message, checked_messages
from qmgr_client.outgoing import Outgoing, PutOptions, PutResult, each_outgoing
from qmgr_client.selection import SelectionOrUid
from qmgr_protocol.errors import ErrorCode, RequestError


class UnitOfWork:
    """Puts and acknowledgements that are committed together, for ``with``."""

    def __init__(self, call: Caller, manager: aio.QueueManager) -> None:
        self._call = call
        self._manager = manager
        self._unit: aio.UnitOfWork | None = None

    @classmethod
    def of(cls, call: Caller, manager: aio.QueueManager, unit: aio.UnitOfWork) -> "UnitOfWork":
        """Return one that is *unit*, which was begun elsewhere."""
        self = cls(call, manager)
        self._unit = unit
        return self

    def __enter__(self) -> "UnitOfWork":
        async def begun() -> aio.UnitOfWork:
            return await self._manager.unit_of_work().__aenter__()

        self._unit = self._call(begun())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        ending = self.begun.__aexit__(kind, error, traceback)
        if error is None:
            self._call(ending)
            return
        with suppress(RequestError):  # What left the block matters more.
            self._call(ending)

    @property
    def begun(self) -> aio.UnitOfWork:
        """The unit of work on the client's own thread."""
        if self._unit is None:
            text = "the unit of work is not begun: use it in a with"
            raise RequestError(ErrorCode.UNIT_UNKNOWN, text)
        return self._unit

    @property
    def has_ended(self) -> bool:
        """Whether the caller has ended it, or it was committed; not whether it was lost."""
        return self.begun.has_ended

    def put(self, queue: str, body: bytes, **options: Unpack[PutOptions]) -> PutResult:
        """Put a message in the unit: nobody sees it before the commit."""
        return self._call(self.begun.put(queue, body, **options))

    def put_many(self, queue: str, items: Iterable[bytes | Outgoing]) -> list[PutResult]:
        """Put bodies or whole messages; return what became of each; raise the first refusal."""
        return self._call(self.begun.put_many(queue, list(each_outgoing("put_many", items))))

    def get(
        self, queue: str, wait_ms: Duration = 0, **selection: Unpack[SelectionOrUid]
    ) -> Message | None:
        """Return the next message, which the commit removes; None where none comes in *wait_ms*."""
        return self._call(self.begun.get(queue, wait_ms, **selection))

    def get_many(
        self,
        queue: str,
        messages_max: int,
        wait_ms: Duration = 0,
        **selection: Unpack[SelectionOrUid],
    ) -> list[Message]:
        """Return up to *messages_max* messages, which the commit removes, once there is one."""
        return self._call(self.begun.get_many(queue, messages_max, wait_ms, **selection))

    def ack(self, message: Message) -> None:
        """Have the commit remove a message that is under lease, from a consumer say."""
        self._call(self.begun.ack(message))

    def ack_many(self, messages: Iterable[Message]) -> list[RequestError | None]:
        """Do so with many; return why not for each that is not in the unit."""
        return self._call(self.begun.ack_many(checked_messages("ack_many", messages)))

    def commit(self) -> None:
        """Have all of it done; return when it is on disk."""
        self._call(self.begun.commit())

    def backout(self, reason: str = "", text: str = "") -> None:
        """Have nothing of it done: what was got comes back, and *reason* and *text* say why."""
        self._call(self.begun.backout(reason, text))
