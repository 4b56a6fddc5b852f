"""Finding, claiming, replacing and removing the status message of a run, for asyncio.

If two runs start at the same time, exactly one of them receives the claim, regardless of the order
of their steps:

1. The UID of the first status is derived from the run (``claim``). While this status is on the
   queue or in a unit of work, the queue refuses a second status with the same UID.
2. The second unit replaces this status with a status that has another UID. The queue would then
   accept the claim again. Therefore, after putting the claim, a run checks that the queue has no
   status. Until a run has ended, the queue has its status.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, NamedTuple, Protocol

from qmgr_client.aio.unit import UnitOfWork
from qmgr_client.groups import status as group_status
from qmgr_client.groups.status import GroupRun, GroupStatus
from qmgr_client.message import Message
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.record import Uid

WAIT_MS = 5_000  # time for the queue manager to return or back out messages
PAUSE_MS = 100
_DUPLICATE = ErrorCode.DUPLICATE_MESSAGE, ErrorCode.DUPLICATE_UNCOMMITTED


class StatusManager(Protocol):
    """The methods of a queue manager that a status uses."""

    async def _ask(self, kind: type[m.RequestWithId], *fields: Any) -> Any: ...
    def browse(
        self, queue: str, limit: int | None = None, *, correlation_id: bytes
    ) -> AsyncGenerator[Message, None]: ...


class StoredStatus(NamedTuple):
    """A status message on the queue, and its UID."""

    uid: Uid
    status: GroupStatus


class RunStatus:
    """The status of one run. Invariant: ``now`` is the last status known to be committed."""

    def __init__(self, manager: StatusManager, queue: str, run: GroupRun) -> None:
        self.run = run
        self.queue = queue
        self._key = run.key
        self._manager = manager
        self._found: StoredStatus | None = None
        self._next: StoredStatus | None = None  # status after the commit of the unit

    @property
    def now(self) -> GroupStatus | None:
        """The progress of the group. None if the group has not started or is complete."""
        return None if self._found is None else self._found.status

    @property
    def removal(self) -> str:
        """The command that removes the status."""
        return "" if self._found is None else self._removal(self._found.uid)

    def _removal(self, uid: Uid) -> str:
        return f"qmctl get {self.queue} --uid {uid}"

    async def find(self) -> GroupStatus | None:
        """Returns the status of an earlier run, or None.

        Raises:
            RequestError: VALUE_INVALID if the queue has more than one status of the run.
        """
        found = await self._browse()
        if len(found) > 1:
            each = "; ".join(f"{status} ({self._removal(uid)})" for uid, status in found)
            text = (
                f"{self.queue} has {len(found)} statuses of {self.run}, but a run has only one: "
                f"keep that of the group to resume, remove the others, and call again: {each}"
            )
            raise RequestError(ErrorCode.VALUE_INVALID, text)
        if found:
            self._found = found[0]
        return self.now

    async def replace(self, unit: UnitOfWork, status: GroupStatus | None) -> None:
        """Replaces the status with *status* in *unit*. If *status* is None, removes the status.

        Raises:
            RequestError: LEASE_LOST if another call has continued the group or started a group.
        """
        self._next = None
        if self._found is not None:
            await self._take(unit, self._found.uid)
        if status is not None:
            is_first = self._found is None
            uid = await (self._claim(unit, status) if is_first else self._put(unit, status, None))
            self._next = StoredStatus(uid, status)

    def committed(self) -> None:
        """Records that the unit of the last :meth:`replace` is committed."""
        self._found = self._next

    async def _take(self, unit: UnitOfWork, uid: Uid) -> None:
        message = await unit.get(self.queue, uid=uid)
        if message is None and any(found.uid == uid for found in await self._browse()):
            # A dead connection holds the message.
            message = await unit.get(self.queue, WAIT_MS, uid=uid)
        if message is None:
            text = (
                f"{self.run}: another call has taken the status from {self.queue} and continues "
                "the group: only one call at a time may use a name"
            )
            raise RequestError(ErrorCode.LEASE_LOST, text)

    async def _claim(self, unit: UnitOfWork, status: GroupStatus) -> Uid:
        """Puts the first status, unless another call has done so."""
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
                    f"{self.run}: another call has started this run (status {uid} on {self.queue}: "
                    f"{other}): only one call at a time may use a name. Wait until the other call "
                    "ends. If its program has died, call again to continue the group"
                )
                raise RequestError(ErrorCode.LEASE_LOST, text)
            if refusal is None:
                return self.run.claim
            if not left:
                raise self._unclaimed_error(refusal)
            await asyncio.sleep(PAUSE_MS / 1_000)  # The unit of the claim may end or be backed out.
        raise AssertionError("the loop runs at least once")

    def _unclaimed_error(self, refusal: RequestError) -> RequestError:
        if refusal.code == ErrorCode.DUPLICATE_UNCOMMITTED:
            text = (
                f"{self.run}: another call has just started this run: only one call at a time may "
                "use a name. Wait until the other call ends. If its program has died, call again"
            )
            return RequestError(ErrorCode.LEASE_LOST, text)
        text = (
            f"{self.run}: {refusal.text}, but no such status exists: the queue still remembers "
            "UIDs from a time when dedup_retention_ms was set. Use another name or status queue"
        )
        return RequestError(ErrorCode.VALUE_INVALID, text)

    async def _check_forgets(self) -> None:
        """Raises VALUE_INVALID if the queue would remember the UID of a removed claim."""
        row = await self._manager._ask(m.QueueShow, self.queue)
        if retention_ms := row.get("dedup_retention_ms"):
            text = (
                f"{self.queue} cannot store the status of {self.run}: its dedup_retention_ms is "
                f"{retention_ms}, so the next group could not use this name. Use another queue, or "
                f"run: qmctl queue alter {self.queue} --dedup-retention 0"
            )
            raise RequestError(ErrorCode.VALUE_INVALID, text)

    async def _put(self, unit: UnitOfWork, status: GroupStatus, uid: Uid | None) -> Uid:
        outgoing = group_status.outgoing(self.run, status)._replace(uid=uid)
        (result,) = await unit.put_many(self.queue, [outgoing])
        assert result.uid is not None, "a put in a unit of work is never sent again"
        return result.uid

    async def _browse(self) -> list[StoredStatus]:
        """Returns the committed statuses of the run."""
        found: list[StoredStatus] = []
        async for message in self._manager.browse(self.queue, correlation_id=self._key):
            run, status = group_status.read(message)
            if run == self.run and message.uid is not None:
                found.append(StoredStatus(message.uid, status))
        return found
