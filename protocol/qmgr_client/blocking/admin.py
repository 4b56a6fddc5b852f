"""What operators ask of a queue manager, without async: ``client.admin``; see aio_admin."""

from collections.abc import Iterator, Sequence
from typing import Any, Unpack

from qmgr_client.aio import admin as aio_admin
from qmgr_client.attributes import QueueAttributes, TemplateAttributes
from qmgr_client.blocking.bridge import Caller, pages
from qmgr_client.blocking.history import History
from qmgr_client.blocking.topics import TopicsAdmin
from qmgr_client.groups.group_id import GroupId
from qmgr_client.manager_rows import (
    AllowedRow,
    AsideRow,
    ConnectionRow,
    Disallowed,
    LinkAltered,
    LinkList,
    LinkRow,
    Status,
)
from qmgr_client.rows import (
    GroupAltered,
    GroupRow,
    GroupShown,
    JobRow,
    QueueAltered,
    QueueEnsured,
    QueueRow,
    Removed,
    TemplateDeleted,
    TemplateRow,
    TemplateSet,
)


class Admin(History, TopicsAdmin):
    """What an operator asks of a queue manager."""

    def __init__(self, call: Caller, admin: aio_admin.Admin) -> None:
        self._call = call
        self._admin = admin

    def queue_create(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueRow:
        """Define a queue, or QUEUE@MANAGER behind a link; the same again changes nothing."""
        return self._call(self._admin.queue_create(queue, **attributes))

    def queue_alter(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueAltered:
        """Change attributes of a queue for good; see aio_admin."""
        return self._call(self._admin.queue_alter(queue, **attributes))

    def queue_ensure(self, queue: str, **attributes: Unpack[QueueAttributes]) -> QueueEnsured:
        """Create a queue with these attributes, or alter it if it exists; see aio_admin."""
        return self._call(self._admin.queue_ensure(queue, **attributes))

    def queue_delete(self, queue: str, *, purge: bool = False) -> Removed:
        """Delete a queue, with *purge* also one that holds messages; tells how many."""
        return self._call(self._admin.queue_delete(queue, purge=purge))

    def queue_list(self) -> list[QueueRow]:
        """Return the rows of all queues, in order of name."""
        return self._call(self._admin.queue_list())

    def queue_show(self, queue: str, origins_after: str = "") -> QueueRow:
        """Return a queue's row, with a page of its origins; see aio_admin."""
        return self._call(self._admin.queue_show(queue, origins_after))

    def browse_arrivals(
        self, queue: str, after: int = 0, messages_max: int = 1_000, bytes_max: int = 2**20
    ) -> dict[str, Any]:
        """Return a page of a queue in the order of arrival, behind one; see aio_admin."""
        return self._call(self._admin.browse_arrivals(queue, after, messages_max, bytes_max))

    def queue_purge(self, queue: str, where: str = "", messages_max: int = 0) -> Removed:
        """Remove what is on a queue now and not leased; tells how many messages that were."""
        return self._call(self._admin.queue_purge(queue, where, messages_max))

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
        """Have what is on a queue now and not leased moved; return the row of the job; see aio."""
        moving = self._admin.queue_move(
            queue,
            target,
            where=where,
            messages_max=messages_max,
            rate=rate,
            copy=copy,
            retries_max=retries_max,
        )
        return self._call(moving)

    def job_list(self) -> list[JobRow]:
        """Return the rows of all jobs, those that ended within the hour too."""
        return self._call(self._admin.job_list())

    def job_show(self, job: int) -> JobRow:
        """Return a job's row."""
        return self._call(self._admin.job_show(job))

    def job_cancel(self, job: int) -> JobRow:
        """End a job where it stands: what it did stays done. Returns its row."""
        return self._call(self._admin.job_cancel(job))

    def link_create(
        self,
        link: str,
        addresses: list[str],
        *,
        stopped: bool = False,
        connections: int = 1,
        ordered: bool = False,
        fetch: bool = False,
        routes: Sequence[str] = (),
        transit: bool = False,
    ) -> LinkRow:
        """Define a link to the queue manager of that name, and start it unless *stopped*."""
        return self._call(
            self._admin.link_create(
                link,
                addresses,
                stopped=stopped,
                connections=connections,
                ordered=ordered,
                fetch=fetch,
                routes=routes,
                transit=transit,
            )
        )

    def link_alter(
        self,
        link: str,
        addresses: list[str] | None = None,
        *,
        connections: int | None = None,
        ordered: bool | None = None,
        fetch: bool | None = None,
        routes: Sequence[str] | None = None,
        transit: bool | None = None,
    ) -> LinkAltered:
        """Give a link other attributes for good; what waits on it stays, and goes on so."""
        return self._call(
            self._admin.link_alter(
                link,
                addresses,
                connections=connections,
                ordered=ordered,
                fetch=fetch,
                routes=routes,
                transit=transit,
            )
        )

    def link_delete(self, link: str, *, purge: bool = False) -> Removed:
        """Delete a link, with *purge* also one with messages waiting; tells how many."""
        return self._call(self._admin.link_delete(link, purge=purge))

    def link_list(self) -> LinkList:
        """Return the rows of "links", and of the "inbound" ones that lead here."""
        return self._call(self._admin.link_list())

    def link_show(self, link: str) -> LinkRow:
        """Return a link's row."""
        return self._call(self._admin.link_show(link))

    def link_start(self, link: str, *, accept: bool = False) -> LinkRow:
        """Start a link that is stopped or was refused; see aio_admin for *accept*."""
        return self._call(self._admin.link_start(link, accept=accept))

    def link_stop(self, link: str) -> LinkRow:
        """Stop a link until it is started again."""
        return self._call(self._admin.link_stop(link))

    def link_allow(self, manager: str, store_id: bytes = b"") -> AllowedRow:
        """Lets a queue manager open links to this one; see aio_admin for *store_id*."""
        return self._call(self._admin.link_allow(manager, store_id))

    def link_disallow(self, manager: str) -> Disallowed:
        """Ends that a queue manager may open links to this one; returns how many were closed."""
        return self._call(self._admin.link_disallow(manager))

    def template_set(self, pattern: str, **attributes: Unpack[TemplateAttributes]) -> TemplateSet:
        """Define what all queues have whose names fit *pattern*; see aio_admin."""
        return self._call(self._admin.template_set(pattern, **attributes))

    def template_delete(self, pattern: str) -> TemplateDeleted:
        """Delete a template; tells for how many queues it was in force."""
        return self._call(self._admin.template_delete(pattern))

    def template_list(self) -> list[TemplateRow]:
        """Return the rows of all templates, in order of their patterns."""
        return self._call(self._admin.template_list())

    def groups(self, queue: str, incomplete: bool = False) -> Iterator[GroupRow]:
        """Yield the rows of a queue's groups, with *incomplete* of those only; see aio_admin."""
        return pages(self._call, self._admin.groups(queue, incomplete))

    def show_group(self, queue: str, group_id: GroupId, number: int = 1) -> GroupShown:
        """Return a group's row, with up to 1,000 of its messages from *number* on."""
        return self._call(self._admin.show_group(queue, group_id, number))

    def pause_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Have nothing of a group delivered until it is resumed. Returns its row."""
        return self._call(self._admin.pause_group(queue, group_id))

    def resume_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """Have a group that is paused, or parked after a failure, delivered. Returns its row."""
        return self._call(self._admin.resume_group(queue, group_id))

    def skip_group(self, queue: str, group_id: GroupId, number: int = 0) -> GroupAltered:
        """Give up what is due of a group, or all below *number*. Returns the group's row."""
        return self._call(self._admin.skip_group(queue, group_id, number))

    def reassign_group(self, queue: str, group_id: GroupId, connection: int = 0) -> GroupAltered:
        """Take a group from its consumer, once what that was handed is settled; see aio_admin."""
        return self._call(self._admin.reassign_group(queue, group_id, connection))

    def close_group(self, queue: str, group_id: GroupId) -> GroupAltered:
        """End a group with the highest number that is there. Returns its row."""
        return self._call(self._admin.close_group(queue, group_id))

    def status(self) -> Status:
        """Return how the queue manager is."""
        return self._call(self._admin.status())

    def connection_list(self) -> list[ConnectionRow]:
        """Return the rows of all open connections, in order of number."""
        return self._call(self._admin.connection_list())

    def connection_close(self, connection: int) -> ConnectionRow:
        """Close another connection: its client is told to stay away. Returns its row."""
        return self._call(self._admin.connection_close(connection))

    def aside_list(self) -> list[AsideRow]:
        """Return all items of what is set aside, in order of number."""
        return self._call(self._admin.aside_list())

    def aside_retry(self, number: int) -> AsideRow:
        """Have the work of an item done again; returns the item, and when in ``retried``."""
        return self._call(self._admin.aside_retry(number))

    def aside_drop(self, number: int) -> AsideRow:
        """Delete an item with the row or the job that it holds, for good; returns the item."""
        return self._call(self._admin.aside_drop(number))

    def snapshot(self, directory: str, rate_bytes: int = 0) -> dict[str, Any]:
        """Write a snapshot to a new directory of the queue manager's host; return its manifest.

        Args:
            directory: an absolute path, or a URL.
            rate_bytes: the most to write in a second; 0: as configured.
        """
        return self._call(self._admin.snapshot(directory, rate_bytes))
