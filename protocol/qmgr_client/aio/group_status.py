"""The status of a run on its queue, for asyncio: found, claimed, replaced and removed in units.

Of two runs that begin at once one has the claim, however they interleave:

1. The first status of a run has a UID that comes of the run (``claim``). While one is on the queue,
   or in a unit of work, no other is taken.
2. Its second unit gets that status, and puts one of another UID: then the claim would be taken
   again. So who has put it looks whether a status is there; one always is, until a run has ended.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, Protocol

from qmgr_client.aio.unit import UnitOfWork
from qmgr_client.groups import status as group_status
from qmgr_client.groups.status import GroupStatus, Run
from qmgr_client.message import Message
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid

WAIT_MS = 5_000  # for what the queue manager has still to give back, or back out
PAUSE_MS = 100
_DUPLICATE = ErrorCode.DUPLICATE_MESSAGE, ErrorCode.DUPLICATE_UNCOMMITTED


class Manager(Protocol):
    """What is needed of a queue manager."""

    async def _ask(self, kind: type[Any], *fields: Any) -> Any: ...
    def browse(
        self, queue: str, limit: int | None = None, *, correlation_id: bytes
    ) -> AsyncGenerator[Message, None]: ...


class Found(NamedTuple):
    """A status that is on the queue."""

    uid: Uid
    status: GroupStatus


class RunStatus:
    """The status of one run. Invariant: ``now`` is what is committed, as far as known."""

    def __init__(self, manager: Manager, queue: str, run: Run) -> None:
        self.run = run
        self.queue = queue
        self._key = run.key
        self._manager = manager
        self._found: Found | None = None
        self._next: Found | None = None  # if the unit commits

    @property
    def now(self) -> GroupStatus | None:
        """How far the group has come; None where it is not begun, or whole."""
        return None if self._found is None else self._found.status

    @property
    def removal(self) -> str:
        """The command that removes the status."""
        return "" if self._found is None else self._removal(self._found.uid)

    def _removal(self, uid: Uid) -> str:
        return f"qmctl get {self.queue} --uid {uid}"

    async def find(self) -> GroupStatus | None:
        """Return what an earlier run has left, if it did.

        Raises:
            RequestError: VALUE_INVALID, there is more than one.
        """
        found = await self._browse()
        if len(found) > 1:
            each = "; ".join(f"{status} ({self._removal(uid)})" for uid, status in found)
            text = (
                f"{self.queue} has {len(found)} statuses of {self.run}, and a run has one: remove "
                f"all but that of the group to go on with, each by its command, and call again: "
                f"{each}"
            )
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        if found:
            self._found = found[0]
        return self.now

    async def replace(self, unit: UnitOfWork, status: GroupStatus | None) -> None:
        """Have *unit* put *status* in the place of what is there; None leaves nothing.

        Raises:
            RequestError: LEASE_LOST, another call goes on with the group, or has begun one.
        """
        self._next = None
        if self._found is not None:
            await self._take(unit, self._found.uid)
        if status is not None:
            is_first = self._found is None
            uid = await (self._claim(unit, status) if is_first else self._put(unit, status, None))
            self._next = Found(uid, status)

    def committed(self) -> None:
        """Take note that the unit of the last :meth:`replace` is committed."""
        self._found = self._next

    async def _take(self, unit: UnitOfWork, uid: Uid) -> None:
        message = await unit.get(self.queue, uid=uid)
        if message is None and any(found.uid == uid for found in await self._browse()):
            message = await unit.get(self.queue, WAIT_MS, uid=uid)  # A dead connection has it.
        if message is None:
            text = (
                f"{self.run}: another call took its status off {self.queue} and goes on with the "
                "group: one at a time may work under a name. What that one has done is done"
            )
            raise RequestError(ErrorCode.LEASE_LOST, text)

    async def _claim(self, unit: UnitOfWork, status: GroupStatus) -> Uid:
        """Put the first status, unless another call has."""
        await self._check_forgets()
        for left in reversed(range(WAIT_MS // PAUSE_MS)):
            refusal: RequestError | None = None
            try:
                await self._put(unit, status, self.run.claim)
            except RequestError as error:
                if error.code not in _DUPLICATE:
                    raise
                refusal = error
            for uid, other in await self._browse():
                text = (
                    f"{self.run}: another call has begun it, and got to {other}, by its status "
                    f"{uid} on {self.queue}: one at a time may work under a name. Let that one "
                    "end; if it has died, call again, which goes on with it"
                )
                raise RequestError(ErrorCode.LEASE_LOST, text)
            if refusal is None:
                return self.run.claim
            if not left:
                raise self._unclaimed(refusal)
            await asyncio.sleep(PAUSE_MS / 1_000)  # Its unit ends, or is backed out.
        raise AssertionError("it is tried once at least")

    def _unclaimed(self, refusal: RequestError) -> RequestError:
        if refusal.code == ErrorCode.DUPLICATE_UNCOMMITTED:
            text = (
                f"{self.run}: another call has just begun it: one at a time may work under a name. "
                "Let that one end; if it has died, call again"
            )
            return RequestError(ErrorCode.LEASE_LOST, text)
        text = (
            f"{self.run}: {refusal.text}, and nobody sees it: UIDs that were remembered when that "
            "was switched off are forgotten in their time; use another name, or status queue"
        )
        return RequestError(ErrorCode.VALUE_INVALID, text)

    async def _check_forgets(self) -> None:
        """Raise VALUE_INVALID where the queue would remember a claim that was removed."""
        row = await self._manager._ask(m.QueueShow, self.queue)
        if retention_ms := row.get("dedup_retention_ms"):
            text = (
                f"{self.queue} is no queue for the status of {self.run}: its dedup_retention_ms, "
                f"{retention_ms}, would keep the name from the next group; use another queue, or: "
                f"qmctl queue alter {self.queue} --dedup-retention 0"
            )
            raise RequestError(ErrorCode.VALUE_INVALID, text)

    async def _put(self, unit: UnitOfWork, status: GroupStatus, uid: Uid | None) -> Uid:
        outgoing = group_status.outgoing(self.run, status)._replace(uid=uid)
        (result,) = await unit.put_many(self.queue, [outgoing])
        assert result.uid is not None, "a put of a unit of work is never sent again"
        return result.uid

    async def _browse(self) -> list[Found]:
        """Return the statuses of the run that are committed."""
        found: list[Found] = []
        async for message in self._manager.browse(self.queue, correlation_id=self._key):
            run, status = group_status.read(message)
            if run == self.run and message.uid is not None:
                found.append(Found(message.uid, status))
        return found
