# Generated from qmgr_client/aio/admin.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""What operators ask of a queue manager, without asyncio: ``queue_manager.admin``.

    queue_manager.admin.queue_create("ORDERS", depth_max=10_000)

attributes.py has what may be given, rows.py and manager_rows.py what is returned.
"""

from typing import Any, Unpack

from qmgr_client.attributes import QueueAttributes, TemplateAttributes
from qmgr_client.blocking.groups_admin import GroupsAdmin
from qmgr_client.blocking.history import History
from qmgr_client.blocking.links_admin import LinksAdmin
from qmgr_client.blocking.topics_admin import TopicsAdmin
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


class Admin(History, TopicsAdmin, LinksAdmin, GroupsAdmin):
    """What an operator asks of a queue manager."""

    def queue_create(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueRow:
        """Define a queue, or QUEUE@MANAGER behind a link; the same again changes nothing.

        With ``alias_of`` it is an alias. Returns the row.

        Raises:
            RequestError: QUEUE_EXISTS, with other attributes; VALUE_INVALID; LINK_UNKNOWN;
                QUEUES_EXHAUSTED.
        """
        return self._call(self._aio.queue_create(queue, **attributes))

    def queue_alter(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueAltered:
        """Change attributes of a queue for good; the others stay as they are.

        None stands for what its template has, else the queue manager. Returns the row, with what is
        other than before under "changed": attribute to [before, after]; nothing, if it was so
        already.

        Raises:
            RequestError: QUEUE_UNKNOWN; VALUE_INVALID: an attribute that this kind of queue has
                not, or out of range: then none is changed.
        """
        return self._call(self._aio.queue_alter(queue, **attributes))

    def queue_ensure(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueEnsured:
        """Create a queue with these attributes, or alter it if it exists and has others.

        Attributes that are not given stay as they are. Returns the row with "created", whether the
        queue is new, and "changed" as :meth:`queue_alter`. Safe to call at each start of an
        application, by several of them at once.

        Raises:
            RequestError: VALUE_INVALID, LINK_UNKNOWN, QUEUES_EXHAUSTED.
        """
        return self._call(self._aio.queue_ensure(queue, **attributes))

    def queue_delete(self, queue: str, *, purge: bool = False) -> Removed:
        """Delete a queue, with *purge* also one that holds messages; "messages" says how many.

        Where the answer was lost with a connection the number is None.

        Raises:
            RequestError: QUEUE_NOT_EMPTY, without *purge*; QUEUE_IS_SYSTEM.
        """
        return self._call(self._aio.queue_delete(queue, purge=purge))

    def queue_list(self) -> list[QueueRow]:
        """Return the rows of all queues, in order of name."""
        return self._call(self._aio.queue_list())

    def queue_show(self, queue: str, origins_after: str = "") -> QueueRow:
        """Return a queue's row, with a page of its origins; the next begins at "origins_next"."""
        return self._call(self._aio.queue_show(queue, origins_after))

    def browse_arrivals(
        self, queue: str, after: int = 0, messages_max: int = 1000, bytes_max: int = 2**20
    ) -> dict[str, Any]:
        """Return a page of a queue in the order of arrival, behind one; delayed messages, too.

        Its items are as in deliveries; "next" ends with None. Who goes on behind the "arrived" of
        the queue's row meets each message once that is still there then.

        Raises:
            RequestError: QUEUE_UNKNOWN, QUEUE_IS_REMOTE.
        """
        return self._call(self._aio.browse_arrivals(queue, after, messages_max, bytes_max))

    def queue_purge(self, queue: str, where: str = "", messages_max: int = 0) -> Removed:
        """Remove what is on a queue now and not leased; "messages" says how many that were.

        Of those that the selector *where* meets, and at most *messages_max*; 0 is any number.
        Returns when all of it is done, which a job does.

        Raises:
            RequestError: SELECTOR_INVALID; JOBS_EXHAUSTED; CANCELLED, the job was, half way.
        """
        return self._call(self._aio.queue_purge(queue, where, messages_max))

    def queue_move(
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
        return self._call(
            self._aio.queue_move(
                queue,
                target,
                where=where,
                messages_max=messages_max,
                rate=rate,
                copy=copy,
                retries_max=retries_max,
            )
        )

    def job_list(self) -> list[JobRow]:
        """Return the rows of all jobs, those that ended within the hour too."""
        return self._call(self._aio.job_list())

    def job_show(self, job: int) -> JobRow:
        """Return a job's row.

        Raises:
            RequestError: JOB_UNKNOWN.
        """
        return self._call(self._aio.job_show(job))

    def job_cancel(self, job: int) -> JobRow:
        """End a job where it stands: what it did stays done. Returns its row.

        Raises:
            RequestError: JOB_UNKNOWN; VALUE_INVALID, the queue manager needs it itself.
        """
        return self._call(self._aio.job_cancel(job))

    def template_set(self, pattern: str, **attributes: Unpack[TemplateAttributes]) -> TemplateSet:
        """Define what all local queues have whose names fit *pattern*, as ``APP.*``.

        The *attributes* are all that the template has from now on. Returns its row, with whether it
        is "created" and what is "changed": attribute to [before, after].

        Raises:
            RequestError: NAME_INVALID: it is no pattern; VALUE_INVALID; TEMPLATES_EXHAUSTED.
        """
        return self._call(self._aio.template_set(pattern, **attributes))

    def template_delete(self, pattern: str) -> TemplateDeleted:
        """Delete a template; tells for how many queues it was in force.

        Where the answer was lost with a connection that is not known.

        Raises:
            RequestError: TEMPLATE_UNKNOWN.
        """
        return self._call(self._aio.template_delete(pattern))

    def template_list(self) -> list[TemplateRow]:
        """Return the rows of all templates, in order of their patterns."""
        return self._call(self._aio.template_list())

    def status(self) -> Status:
        """Return how the queue manager is."""
        return self._call(self._aio.status())

    def connection_list(self) -> list[ConnectionRow]:
        """Return the rows of all open connections, in order of number."""
        return self._call(self._aio.connection_list())

    def connection_close(self, connection: int) -> ConnectionRow:
        """Close another connection: its client is told to stay away. Returns its row.

        Raises:
            RequestError: CONNECTION_UNKNOWN; VALUE_INVALID: it is this very connection.
        """
        return self._call(self._aio.connection_close(connection))

    def aside_list(self) -> list[AsideRow]:
        """Return all items of what is set aside, in order of number."""
        return self._call(self._aio.aside_list())

    def aside_retry(self, number: int) -> AsideRow:
        """Have the work of an item done again; returns the item, and when in ``retried``.

        Raises:
            RequestError: ASIDE_UNKNOWN; VALUE_INVALID: the row that it holds has no place any more.
        """
        return self._call(self._aio.aside_retry(number))

    def aside_drop(self, number: int) -> AsideRow:
        """Delete an item with the row or the job that it holds, for good; returns the item.

        Raises:
            RequestError: ASIDE_UNKNOWN; VALUE_INVALID: it holds nothing that may be deleted.
        """
        return self._call(self._aio.aside_drop(number))

    def snapshot(self, directory: str, rate_bytes: int = 0) -> dict[str, Any]:
        """Write a snapshot to a new directory of the queue manager's host; return its manifest.

        Args:
            directory: an absolute path, or a URL.
            rate_bytes: the most to write in a second; 0: as configured.
        """
        return self._call(self._aio.snapshot(directory, rate_bytes))
