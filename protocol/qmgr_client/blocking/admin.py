# Generated from qmgr_client/aio/admin.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Administration of a queue manager, without asyncio: ``queue_manager.admin``.

    queue_manager.admin.queue_create("ORDERS", depth_max=10_000)

attributes.py defines the arguments of these methods. rows.py and manager_rows.py define their
results.
"""

from typing import Any, Unpack

from qmgr_client.attributes import QueueAttributes, TemplateAttributes
from qmgr_client.blocking.groups_admin import GroupsAdmin
from qmgr_client.blocking.history import History
from qmgr_client.blocking.links_admin import LinksAdmin
from qmgr_client.blocking.topics_admin import TopicsAdmin
from qmgr_client.blocking.users_admin import UsersAdmin
from qmgr_client.manager_rows import AsideRow, ConnectionRow, ManagerStatus
from qmgr_client.rows import (
    JobRow,
    QueueAltered,
    QueueEnsured,
    QueueRow,
    Removed,
    TemplateDefined,
    TemplateDeleted,
    TemplateRow,
)


class Admin(History, TopicsAdmin, LinksAdmin, GroupsAdmin, UsersAdmin):
    """The requests of operators for queues, templates, jobs, links, topics, users and so on."""

    def queue_create(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueRow:
        """Creates a queue and returns its row. Creating the same queue again changes nothing.

        Args:
            queue: The name of a local queue, or ``QUEUE@MANAGER`` for a queue behind a link.
            attributes: The attributes of the queue. With ``alias_of``, the queue is an alias.

        Raises:
            RequestError: QUEUE_EXISTS if the queue exists with other attributes. Also
                VALUE_INVALID, LINK_UNKNOWN or QUEUES_EXHAUSTED.
        """
        return self._call(self._aio.queue_create(queue, **attributes))

    def queue_alter(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueAltered:
        """Changes attributes of a queue permanently. Other attributes keep their values.

        Args:
            queue: The name of the queue.
            attributes: The new values. None restores the default, which the template of the queue
                or the queue manager defines.

        Returns:
            The row of the queue. Its ``changed`` maps each attribute that changed to
            [before, after].

        Raises:
            RequestError: QUEUE_UNKNOWN, or VALUE_INVALID if a value is out of range or this kind of
                queue does not have the attribute. After an error, no attribute has changed.
        """
        return self._call(self._aio.queue_alter(queue, **attributes))

    def queue_ensure(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueEnsured:
        """Creates a queue with these attributes, or alters the queue if it exists.

        Applications can call this method at each start. Several applications may do this at the
        same time. Attributes that you omit keep their values.

        Returns:
            The row of the queue. ``created`` states whether the queue is new. ``changed`` is the
            same as in :meth:`queue_alter`.

        Raises:
            RequestError: VALUE_INVALID, LINK_UNKNOWN or QUEUES_EXHAUSTED.
        """
        return self._call(self._aio.queue_ensure(queue, **attributes))

    def queue_delete(self, queue: str, *, purge: bool = False) -> Removed:
        """Deletes a queue.

        Args:
            queue: The name of the queue.
            purge: Whether to delete the queue even if it has messages.

        Returns:
            The number of deleted messages, in ``messages``. The number is None if the answer was
            lost with a connection.

        Raises:
            RequestError: QUEUE_NOT_EMPTY if the queue has messages and *purge* is false. Also
                QUEUE_UNKNOWN or QUEUE_IS_SYSTEM.
        """
        return self._call(self._aio.queue_delete(queue, purge=purge))

    def queue_list(self) -> list[QueueRow]:
        """Returns the rows of all queues, in the order of their names."""
        return self._call(self._aio.queue_list())

    def queue_show(self, queue: str, origins_after: str = "") -> QueueRow:
        """Returns the row of a queue, with a page of its origins.

        Args:
            queue: The name of the queue.
            origins_after: The start of the page of origins: the ``origins_next`` of the previous
                page, or ``""`` for the first page.

        Raises:
            RequestError: QUEUE_UNKNOWN if the queue does not exist.
        """
        return self._call(self._aio.queue_show(queue, origins_after))

    def browse_arrivals(
        self,
        queue: str,
        after: int = 0,
        messages_max: int = 1000,
        bytes_max: int = 2**20,
        where: str = "",
    ) -> dict[str, Any]:
        """Returns a page of a queue in the order of arrival, including delayed messages.

        Use this method to read a queue in several steps. Each message that stays on the queue is
        returned once. No message is leased.

        Args:
            queue: The name of the queue.
            after: Return messages that arrived after this arrival number. To return only messages
                that arrive from now on, use the ``arrived`` of the queue's row.
            messages_max: The maximum number of messages to return.
            bytes_max: The maximum number of bytes to return.
            where: A selector. Only messages that match are returned, so a page may be empty
                although ``next`` is not None.

        Returns:
            A dictionary. ``items`` has the messages in the format of deliveries. ``next`` is the
            start of the next page, or None after the last page.

        Raises:
            RequestError: QUEUE_UNKNOWN or QUEUE_IS_REMOTE.
        """
        return self._call(self._aio.browse_arrivals(queue, after, messages_max, bytes_max, where))

    def queue_purge(self, queue: str, where: str = "", messages_max: int = 0) -> Removed:
        """Deletes the messages that are now on a queue and are not leased.

        A job deletes the messages. The call returns when the job has ended.

        Args:
            queue: The name of the queue.
            where: A selector. Only messages that match it are deleted.
            messages_max: The maximum number of messages to delete. 0 means unlimited.

        Returns:
            The number of deleted messages, in ``messages``.

        Raises:
            RequestError: CANCELLED if an operator cancelled the job. Also QUEUE_UNKNOWN,
                SELECTOR_INVALID or JOBS_EXHAUSTED.
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
        """Moves the messages that are now on a queue and are not leased.

        A job moves the messages. The call returns when the job has started.

        Args:
            queue: The name of the queue.
            target: The queue to move the messages to. ``""`` returns each dead letter to the queue
                that the dead letter came from.
            where: A selector. Only messages that match it are moved.
            messages_max: The maximum number of messages to move. 0 means unlimited.
            rate: The maximum number of messages to move per second. 0 means unlimited.
            copy: Whether to put copies on the target and keep the original messages.
            retries_max: The maximum number of returns. A dead letter that was already returned this
                many times is not moved. If *target* is set and *retries_max* is 0, moved dead
                letters remain dead letters.

        Returns:
            The row of the job.

        Raises:
            RequestError: QUEUE_UNKNOWN if one of the two queues does not exist. Also
                SELECTOR_INVALID or JOBS_EXHAUSTED.
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
        """Returns the rows of all jobs, including the jobs that ended within the last hour."""
        return self._call(self._aio.job_list())

    def job_show(self, job: int) -> JobRow:
        """Returns the row of a job.

        Raises:
            RequestError: JOB_UNKNOWN.
        """
        return self._call(self._aio.job_show(job))

    def job_cancel(self, job: int) -> JobRow:
        """Cancels a job and returns its row. Work that the job has already done is not undone.

        Raises:
            RequestError: JOB_UNKNOWN, or VALUE_INVALID if the queue manager itself needs the job.
        """
        return self._call(self._aio.job_cancel(job))

    def template_set(
        self, pattern: str, **attributes: Unpack[TemplateAttributes]
    ) -> TemplateDefined:
        """Defines attributes for all local queues whose names match a pattern.

        Args:
            pattern: A pattern such as ``APP.*``.
            attributes: The attributes of the template. These attributes replace all its earlier
                attributes.

        Returns:
            The row of the template. ``created`` states whether the template is new. ``changed``
            maps each attribute that changed to [before, after].

        Raises:
            RequestError: NAME_INVALID if the pattern is invalid. Also VALUE_INVALID or
                TEMPLATES_EXHAUSTED.
        """
        return self._call(self._aio.template_set(pattern, **attributes))

    def template_delete(self, pattern: str) -> TemplateDeleted:
        """Deletes a template.

        Returns:
            The number of queues that used the template, in ``queues``. The number is None if the
            answer was lost with a connection.

        Raises:
            RequestError: TEMPLATE_UNKNOWN.
        """
        return self._call(self._aio.template_delete(pattern))

    def template_list(self) -> list[TemplateRow]:
        """Returns the rows of all templates, in the order of their patterns."""
        return self._call(self._aio.template_list())

    def status(self) -> ManagerStatus:
        """Returns the status of the queue manager."""
        return self._call(self._aio.status())

    def connection_list(self) -> list[ConnectionRow]:
        """Returns the rows of all open connections, in the order of their numbers."""
        return self._call(self._aio.connection_list())

    def connection_close(self, connection: int) -> ConnectionRow:
        """Closes another connection and returns its row. Its client does not connect again.

        Raises:
            RequestError: CONNECTION_UNKNOWN, or VALUE_INVALID if it is your own connection.
        """
        return self._call(self._aio.connection_close(connection))

    def aside_list(self) -> list[AsideRow]:
        """Returns the rows of all items that were set aside, in the order of their numbers."""
        return self._call(self._aio.aside_list())

    def aside_retry(self, number: int) -> AsideRow:
        """Retries the work of an item that was set aside.

        Returns:
            The row of the item. ``retried`` states when the work is done again.

        Raises:
            RequestError: ASIDE_UNKNOWN, or VALUE_INVALID if the stored row cannot be restored.
        """
        return self._call(self._aio.aside_retry(number))

    def aside_drop(self, number: int) -> AsideRow:
        """Deletes an item that was set aside, with its row or job, and returns the item's row.

        Raises:
            RequestError: ASIDE_UNKNOWN, or VALUE_INVALID if nothing of the item may be deleted.
        """
        return self._call(self._aio.aside_drop(number))

    def switch_over(self, member: str = "", epoch: int = 0) -> dict[str, Any]:
        """Makes another member of the queue manager active.

        The answer arrives before the active member ends. The client then connects to the next
        active member, if it has its address.

        Args:
            member: The member to become active. Empty means the standby with the most records.
            epoch: The epoch in the status, so that a request that is sent again has no effect. 0
                means any.

        Returns:
            The ``member`` to become active, its ``addresses``, and the ``epoch`` that ends.

        Raises:
            RequestError: NO_STANDBY if no member, or not this one, can become active.
        """
        return self._call(self._aio.switch_over(member, epoch))

    def snapshot(self, directory: str, rate_bytes: int = 0) -> dict[str, Any]:
        """Writes a snapshot and returns its manifest.

        Args:
            directory: A new directory: an absolute path on the host of the queue manager, or a URL.
            rate_bytes: The maximum number of bytes to write per second. 0 uses the configured rate.
        """
        return self._call(self._aio.snapshot(directory, rate_bytes))
