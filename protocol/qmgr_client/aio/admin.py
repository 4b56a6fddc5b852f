"""What operators ask of a queue manager, for asyncio: ``queue_manager.admin``.

    await queue_manager.admin.queue_create("ORDERS", depth_max=10_000)

attributes.py has what may be given, rows.py and manager_rows.py what is returned.
"""

from typing import Any, Unpack

from qmgr_client.aio.groups_admin import GroupsAdmin
from qmgr_client.aio.history import History
from qmgr_client.aio.links_admin import LinksAdmin
from qmgr_client.aio.topics_admin import TopicsAdmin
from qmgr_client.attributes import QueueAttributes, TemplateAttributes, encoded, given
from qmgr_client.errors import QueueUnknown
from qmgr_client.manager_rows import AsideRow, ConnectionRow, Status
from qmgr_client.rows import (
    JobRow,
    QueueAltered,
    QueueEnsured,
    QueueRow,
    Removed,
    TemplateDeleted,
    TemplateRow,
    TemplateSet,
)
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError


class Admin(History, TopicsAdmin, LinksAdmin, GroupsAdmin):
    """What an operator asks of a queue manager."""

    async def queue_create(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueRow:
        """Define a queue, or QUEUE@MANAGER behind a link; the same again changes nothing.

        With ``alias_of`` it is an alias. Returns the row.

        Raises:
            RequestError: QUEUE_EXISTS, with other attributes; VALUE_INVALID; LINK_UNKNOWN;
                QUEUES_EXHAUSTED.
        """
        return await self._row(QueueRow, m.QueueCreate, queue, given(attributes))

    async def queue_alter(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueAltered:
        """Change attributes of a queue for good; the others stay as they are.

        None stands for what its template has, else the queue manager. Returns the row, with what is
        other than before under "changed": attribute to [before, after]; nothing, if it was so
        already.

        Raises:
            RequestError: QUEUE_UNKNOWN; VALUE_INVALID: an attribute that this kind of queue has
                not, or out of range: then none is changed.
        """
        return await self._row(QueueAltered, m.QueueAlter, queue, encoded(attributes))

    async def queue_ensure(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueEnsured:
        """Create a queue with these attributes, or alter it if it exists and has others.

        Attributes that are not given stay as they are. Returns the row with "created", whether the
        queue is new, and "changed" as :meth:`queue_alter`. Safe to call at each start of an
        application, by several of them at once.

        Raises:
            RequestError: VALUE_INVALID, LINK_UNKNOWN, QUEUES_EXHAUSTED.
        """
        try:
            return {**await self.queue_alter(queue, **attributes), "created": False}
        except QueueUnknown:
            pass
        try:
            return {**await self.queue_create(queue, **attributes), "changed": {}, "created": True}
        except RequestError as error:
            if error.code != ErrorCode.QUEUE_EXISTS:  # Another client created it meanwhile.
                raise
        return {**await self.queue_alter(queue, **attributes), "created": False}

    async def queue_delete(self, queue: str, *, purge: bool = False) -> Removed:
        """Delete a queue, with *purge* also one that holds messages; "messages" says how many.

        Where the answer was lost with a connection the number is None.

        Raises:
            RequestError: QUEUE_NOT_EMPTY, without *purge*; QUEUE_IS_SYSTEM.
        """
        return await self._row(Removed, m.QueueDelete, queue, purge)

    async def queue_list(self) -> list[QueueRow]:
        """Return the rows of all queues, in order of name."""
        rows: list[QueueRow] = []
        after: str | None = ""
        while after is not None:
            value = await self._row(dict[str, Any], m.QueueList, after)
            rows += value["queues"]
            after = value["next"]
        return rows

    async def queue_show(self, queue: str, origins_after: str = "") -> QueueRow:
        """Return a queue's row, with a page of its origins; the next begins at "origins_next"."""
        return await self._row(QueueRow, m.QueueShow, queue, origins_after)

    async def browse_arrivals(
        self, queue: str, after: int = 0, messages_max: int = 1_000, bytes_max: int = 2**20
    ) -> dict[str, Any]:
        """Return a page of a queue in the order of arrival, behind one; delayed messages, too.

        Its items are as in deliveries; "next" ends with None. Who goes on behind the "arrived" of
        the queue's row meets each message once that is still there then.

        Raises:
            RequestError: QUEUE_UNKNOWN, QUEUE_IS_REMOTE.
        """
        place = [0, after, 0, m.ARRIVAL]
        wanted = m.Browse(1, queue, place, messages_max, bytes_max, order=m.ARRIVAL)
        return await self._row(dict[str, Any], m.Browse, *wanted[1:])

    async def queue_purge(self, queue: str, where: str = "", messages_max: int = 0) -> Removed:
        """Remove what is on a queue now and not leased; "messages" says how many that were.

        Of those that the selector *where* meets, and at most *messages_max*; 0 is any number.
        Returns when all of it is done, which a job does.

        Raises:
            RequestError: SELECTOR_INVALID; JOBS_EXHAUSTED; CANCELLED, the job was, half way.
        """
        return await self._row(Removed, m.QueuePurge, queue, where, messages_max)

    async def queue_move(
        self,
        queue: str,
        target: str = "",
        *,
        where: str = "",
        messages_max: int = 0,
        rate: int = 0,
        copy: bool = False,
        retries_max: int = 3,
    ) -> JobRow:
        """Have what is on a queue now and not leased moved; return the row of the job that does it.

        Args:
            target: the queue to move them to; without it dead letters go back, each to the queue
                that it comes from.
            where: a selector of those to move.
            messages_max: how many at most; 0 is any number.
            rate: how many at most in a second; 0 is any number.
            copy: whether they stay, and copies are put on the target.
            retries_max: dead letters that went back so often already stay. 0 with a target: they
                stay dead letters there.

        Raises:
            RequestError: QUEUE_UNKNOWN, one of the two; SELECTOR_INVALID; JOBS_EXHAUSTED.
        """
        return await self._row(
            JobRow, m.QueueMove, queue, target, where, messages_max, rate, copy, retries_max
        )

    async def job_list(self) -> list[JobRow]:
        """Return the rows of all jobs, those that ended within the hour too."""
        rows: list[JobRow] = (await self._row(dict[str, Any], m.JobList))["jobs"]
        return rows

    async def job_show(self, job: int) -> JobRow:
        """Return a job's row.

        Raises:
            RequestError: JOB_UNKNOWN.
        """
        return await self._row(JobRow, m.JobShow, job)

    async def job_cancel(self, job: int) -> JobRow:
        """End a job where it stands: what it did stays done. Returns its row.

        Raises:
            RequestError: JOB_UNKNOWN; VALUE_INVALID, the queue manager needs it itself.
        """
        return await self._row(JobRow, m.JobCancel, job)

    async def template_set(
        self, pattern: str, **attributes: Unpack[TemplateAttributes]
    ) -> TemplateSet:
        """Define what all local queues have whose names fit *pattern*, as ``APP.*``.

        The *attributes* are all that the template has from now on. Returns its row, with whether it
        is "created" and what is "changed": attribute to [before, after].

        Raises:
            RequestError: NAME_INVALID: it is no pattern; VALUE_INVALID; TEMPLATES_EXHAUSTED.
        """
        return await self._row(TemplateSet, m.TemplateSet, pattern, given(attributes))

    async def template_delete(self, pattern: str) -> TemplateDeleted:
        """Delete a template; tells for how many queues it was in force.

        Where the answer was lost with a connection that is not known.

        Raises:
            RequestError: TEMPLATE_UNKNOWN.
        """
        return await self._row(TemplateDeleted, m.TemplateDelete, pattern)

    async def template_list(self) -> list[TemplateRow]:
        """Return the rows of all templates, in order of their patterns."""
        rows: list[TemplateRow] = (await self._row(dict[str, Any], m.TemplateList))["templates"]
        return rows

    async def status(self) -> Status:
        """Return how the queue manager is."""
        return await self._row(Status, m.Status)

    async def connection_list(self) -> list[ConnectionRow]:
        """Return the rows of all open connections, in order of number."""
        rows: list[ConnectionRow] = []
        after: int | None = 0
        while after is not None:
            value = await self._row(dict[str, Any], m.ConnectionList, after)
            rows += value["connections"]
            after = value["next"]
        return rows

    async def connection_close(self, connection: int) -> ConnectionRow:
        """Close another connection: its client is told to stay away. Returns its row.

        Raises:
            RequestError: CONNECTION_UNKNOWN; VALUE_INVALID: it is this very connection.
        """
        return await self._row(ConnectionRow, m.ConnectionClose, connection)

    async def aside_list(self) -> list[AsideRow]:
        """Return all items of what is set aside, in order of number."""
        rows: list[AsideRow] = []
        after: int | None = 0
        while after is not None:
            value = await self._row(dict[str, Any], m.AsideList, after)
            rows += value["items"]
            after = value["next"]
        return rows

    async def aside_retry(self, number: int) -> AsideRow:
        """Have the work of an item done again; returns the item, and when in ``retried``.

        Raises:
            RequestError: ASIDE_UNKNOWN; VALUE_INVALID: the row that it holds has no place any more.
        """
        return await self._row(AsideRow, m.AsideRetry, number)

    async def aside_drop(self, number: int) -> AsideRow:
        """Delete an item with the row or the job that it holds, for good; returns the item.

        Raises:
            RequestError: ASIDE_UNKNOWN; VALUE_INVALID: it holds nothing that may be deleted.
        """
        return await self._row(AsideRow, m.AsideDrop, number)

    async def snapshot(self, directory: str, rate_bytes: int = 0) -> dict[str, Any]:
        """Write a snapshot to a new directory of the queue manager's host; return its manifest.

        Args:
            directory: an absolute path, or a URL.
            rate_bytes: the most to write in a second; 0: as configured.
        """
        return await self._row(dict[str, Any], m.Snapshot, directory, rate_bytes)
