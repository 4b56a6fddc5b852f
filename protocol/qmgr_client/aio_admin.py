"""The verbs of administration. The values are maps as in PROTOCOL.md, section 11."""

from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from qmgr_client.aio_history import History
from qmgr_client.group_id import GroupId, encoded
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError

GROUPS_PAGE = 1_000


class Admin(History):
    """What an operator asks of a queue manager."""

    async def queue_create(
        self, queue: str, attributes: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Define a queue, or QUEUE@MANAGER behind a link; the same again changes nothing.

        With "alias_of" among the *attributes*, an alias. Returns the row.

        Raises:
            RequestError: QUEUE_EXISTS, with other attributes; VALUE_INVALID; LINK_UNKNOWN;
                QUEUES_EXHAUSTED.
        """
        return await self._row(m.QueueCreate, queue, dict(attributes or {}))

    async def queue_alter(self, queue: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Change attributes of a queue for good, as ``{"put_inhibit": True, "depth_max": 1_000}``.

        None stands for what its template has, else the queue manager. Returns the row, with what is
        other than before under "changed": attribute to [before, after]; nothing, if it was so
        already.

        Raises:
            RequestError: QUEUE_UNKNOWN; VALUE_INVALID: an attribute that this kind of queue has
                not, or out of range: then none is changed.
        """
        return await self._row(m.QueueAlter, queue, dict(attributes))

    async def queue_delete(self, queue: str, *, purge: bool = False) -> dict[str, Any]:
        """Delete a queue, with *purge* also one that holds messages; "messages" says how many.

        Where the answer was lost with a connection the number is None.

        Raises:
            RequestError: QUEUE_NOT_EMPTY, without *purge*; QUEUE_IS_SYSTEM.
        """
        return await self._row(m.QueueDelete, queue, purge)

    async def queue_list(self) -> list[dict[str, Any]]:
        """Return the rows of all queues, in order of name."""
        rows: list[dict[str, Any]] = []
        after: str | None = ""
        while after is not None:
            value = await self._row(m.QueueList, after)
            rows += value["queues"]
            after = value["next"]
        return rows

    async def queue_show(self, queue: str, origins_after: str = "") -> dict[str, Any]:
        """Return a queue's row, with a page of its origins; the next begins at "origins_next"."""
        return await self._row(m.QueueShow, queue, origins_after)

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
        return await self._row(m.Browse, *wanted[1:])

    async def queue_purge(
        self, queue: str, where: str = "", messages_max: int = 0
    ) -> dict[str, Any]:
        """Remove what is on a queue now and not leased; "messages" says how many that were.

        Of those that the selector *where* meets, and at most *messages_max*; 0 is any number.
        Returns when all of it is done, which a job does.

        Raises:
            RequestError: SELECTOR_INVALID; JOBS_EXHAUSTED; CANCELLED, the job was, half way.
        """
        return await self._row(m.QueuePurge, queue, where, messages_max)

    async def queue_move(
        self, queue: str, target: str = "", *, where: str = "", messages_max: int = 0,
        rate: int = 0, copy: bool = False, retries_max: int = 3,
    ) -> dict[str, Any]:  # fmt: skip
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
            m.QueueMove, queue, target, where, messages_max, rate, copy, retries_max
        )

    async def job_list(self) -> list[dict[str, Any]]:
        """Return the rows of all jobs, those that ended within the hour too."""
        rows: list[dict[str, Any]] = (await self._row(m.JobList))["jobs"]
        return rows

    async def job_show(self, job: int) -> dict[str, Any]:
        """Return a job's row.

        Raises:
            RequestError: JOB_UNKNOWN.
        """
        return await self._row(m.JobShow, job)

    async def job_cancel(self, job: int) -> dict[str, Any]:
        """End a job where it stands: what it did stays done. Returns its row.

        Raises:
            RequestError: JOB_UNKNOWN; VALUE_INVALID, the queue manager needs it itself.
        """
        return await self._row(m.JobCancel, job)

    async def link_create(
        self, link: str, addresses: list[str], *, stopped: bool = False, connections: int = 1,
        ordered: bool = False, fetch: bool = False, routes: Sequence[str] = (),
        transit: bool = False,
    ) -> dict[str, Any]:  # fmt: skip
        """Define a link to the queue manager of that name, and start it unless *stopped*.

        Args:
            link: the name of the queue manager there.
            addresses: at most 16 of host:port or unix:/path; each dial tries the next. None, where
                the queue manager there dials, and fetches.
            stopped: whether it is not to be started yet.
            connections: over how many its messages go at a time, 1 to 16.
            ordered: whether a message that overtook another is stored behind it only.
            fetch: whether to ask, over the connections that it dials, for what waits there.
            routes: further queue managers that lie behind that one; "*" for all others.
            transit: whether what other links bring here may go on over this one.
        """
        given: dict[str, Any] = {"connections": connections} if connections != 1 else {}
        flags = {"stopped": stopped, "ordered": ordered, "fetch": fetch, "transit": transit}
        given |= {"routes": _listed(routes)} if routes else {}
        attributes = given | {key: True for key, is_so in flags.items() if is_so}
        return await self._row(m.LinkCreate, link, {"addresses": _listed(addresses)} | attributes)

    async def link_alter(
        self, link: str, addresses: list[str] | None = None, *, connections: int | None = None,
        ordered: bool | None = None, fetch: bool | None = None,
        routes: Sequence[str] | None = None, transit: bool | None = None,
    ) -> dict[str, Any]:  # fmt: skip
        """Give a link other attributes for good; what waits on it stays, and goes on so.

        One that is not stopped dials anew at once. Return the row, with "changed" as of a queue.
        """
        listed = None if addresses is None else _listed(addresses)
        given = {
            "addresses": listed, "connections": connections, "ordered": ordered, "fetch": fetch,
            "routes": None if routes is None else _listed(routes), "transit": transit,
        }  # fmt: skip
        changes = {key: value for key, value in given.items() if value is not None}
        return await self._row(m.LinkAlter, link, changes)

    async def link_delete(self, link: str, *, purge: bool = False) -> dict[str, Any]:
        """Delete a link, with *purge* also one with messages waiting; tells how many.

        Also forgets which store the queue manager of that name has, unless it may open links here.
        """
        return await self._row(m.LinkDelete, link, purge)

    async def link_list(self) -> dict[str, Any]:
        """Return the rows of "links", and of the "inbound" ones that lead here.

        Also who is "allowed" to open links to here, and who was "refused" since the start.
        """
        return await self._row(m.LinkList)

    async def link_show(self, link: str) -> dict[str, Any]:
        """Return a link's row."""
        return await self._row(m.LinkShow, link)

    async def link_start(self, link: str, *, accept: bool = False) -> dict[str, Any]:
        """Start a link that is stopped or was refused.

        With *accept* a refused link takes its peer as that is now, another store or a restored one:
        what is held here goes there as a new stream. What the peer had of it already is doubled.
        """
        return await self._row(m.LinkStart, link, accept)

    async def link_stop(self, link: str) -> dict[str, Any]:
        """Stop a link until it is started again."""
        return await self._row(m.LinkStop, link)

    async def link_allow(self, manager: str, store_id: bytes = b"") -> dict[str, Any]:
        """Lets a queue manager open links to this one; returns its row.

        Args:
            manager: the name of the queue manager that dials.
            store_id: the only store accepted under that name, 16 bytes; empty: the one pinned
                already, or the first that comes.

        Raises:
            RequestError: PEER_WRONG, it is this queue manager; LINKS_EXHAUSTED.
        """
        return await self._row(m.LinkAllow, manager, store_id)

    async def link_disallow(self, manager: str) -> dict[str, Any]:
        """Ends that a queue manager may open links; returns how many closed, and ``link.inbound``.

        Raises:
            RequestError: LINK_UNKNOWN, it may not.
        """
        return await self._row(m.LinkDisallow, manager)

    async def template_set(
        self, pattern: str, attributes: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Define what all local queues have whose names fit *pattern*, as ``APP.*``.

        The *attributes* are all that the template has from now on. Returns its row, with whether it
        is "created" and what is "changed": attribute to [before, after].

        Raises:
            RequestError: NAME_INVALID: it is no pattern; VALUE_INVALID; TEMPLATES_EXHAUSTED.
        """
        return await self._row(m.TemplateSet, pattern, dict(attributes or {}))

    async def template_delete(self, pattern: str) -> dict[str, Any]:
        """Delete a template; tells for how many queues it was in force.

        Where the answer was lost with a connection that is not known.

        Raises:
            RequestError: TEMPLATE_UNKNOWN.
        """
        return await self._row(m.TemplateDelete, pattern)

    async def template_list(self) -> list[dict[str, Any]]:
        """Return the rows of all templates, in order of their patterns."""
        rows: list[dict[str, Any]] = (await self._row(m.TemplateList))["templates"]
        return rows

    async def groups(
        self, queue: str, incomplete: bool = False
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the rows of a queue's groups, in order of their ids: an iterator, not a list.

        "group" is the id in hexadecimal, as all the other verbs take it.

        With *incomplete* those only of which something is missing, or has not come yet.
        """
        after: bytes | None = b""
        while after is not None:
            value = await self._row(m.GroupList, queue, after, GROUPS_PAGE, incomplete)
            for row in value["groups"]:
                yield row
            after = value["next"]

    async def show_group(self, queue: str, group_id: GroupId, number: int = 1) -> dict[str, Any]:
        """Return a group's row, with up to 1,000 of its messages from *number* on.

        "members" are those messages, "gaps" what is missing between them, "next_number" is where
        to go on, or None.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return await self._row(m.GroupShow, queue, encoded(group_id), number)

    async def pause_group(self, queue: str, group_id: GroupId) -> dict[str, Any]:
        """Have nothing of a group delivered until it is resumed. Returns its row."""
        return await self._row(m.GroupAlter, queue, encoded(group_id), "pause")

    async def resume_group(self, queue: str, group_id: GroupId) -> dict[str, Any]:
        """Have a group that is paused, or parked after a failure, delivered. Returns its row."""
        return await self._row(m.GroupAlter, queue, encoded(group_id), "resume")

    async def skip_group(self, queue: str, group_id: GroupId, number: int = 0) -> dict[str, Any]:
        """Give up what is due of a group: it becomes a dead letter. Returns the group's row.

        Where what is due is missing, the lowest number that is there is due then. With *number*
        all below it are given up.

        Raises:
            RequestError: GROUP_IN_USE, one of these is leased. VALUE_INVALID, *number* is not
                ahead, or lies beyond the end of the group.
        """
        return await self._row(m.GroupAlter, queue, encoded(group_id), "skip", number)

    async def reassign_group(
        self, queue: str, group_id: GroupId, connection: int = 0
    ) -> dict[str, Any]:
        """Take a group from its consumer, once what that was handed is settled.

        Another one has it then, or one of *connection*. Returns the group's row.

        Raises:
            RequestError: GROUP_NO_READER, there is no other, or none of that connection.
        """
        return await self._row(m.GroupAlter, queue, encoded(group_id), "reassign", 0, connection)

    async def close_group(self, queue: str, group_id: GroupId) -> dict[str, Any]:
        """End a group with the highest number that is there. Returns its row.

        Raises:
            RequestError: GROUP_UNKNOWN.
        """
        return await self._row(m.GroupAlter, queue, encoded(group_id), "close")

    async def status(self) -> dict[str, Any]:
        """Return how the queue manager is."""
        return await self._row(m.Status)

    async def connection_list(self) -> list[dict[str, Any]]:
        """Return the rows of all open connections, in order of number."""
        rows: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            value = await self._row(m.ConnectionList, after)
            rows += value["connections"]
            after = value["next"]
        return rows

    async def connection_close(self, connection: int) -> dict[str, Any]:
        """Close another connection: its client is told to stay away. Returns its row.

        Raises:
            RequestError: CONNECTION_UNKNOWN; VALUE_INVALID: it is this very connection.
        """
        return await self._row(m.ConnectionClose, connection)

    async def aside_list(self) -> list[dict[str, Any]]:
        """Return all items of what is set aside, in order of number."""
        rows: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            value = await self._row(m.AsideList, after)
            rows += value["items"]
            after = value["next"]
        return rows

    async def aside_retry(self, number: int) -> dict[str, Any]:
        """Have the work of an item done again; returns the item, and when in ``retried``.

        Raises:
            RequestError: ASIDE_UNKNOWN; VALUE_INVALID: the row that it holds has no place any more.
        """
        return await self._row(m.AsideRetry, number)

    async def aside_drop(self, number: int) -> dict[str, Any]:
        """Delete an item with the row or the job that it holds, for good; returns the item.

        Raises:
            RequestError: ASIDE_UNKNOWN; VALUE_INVALID: it holds nothing that may be deleted.
        """
        return await self._row(m.AsideDrop, number)

    async def snapshot(self, directory: str, rate_bytes: int = 0) -> dict[str, Any]:
        """Write a snapshot to a new directory of the queue manager's host; return its manifest.

        Args:
            directory: an absolute path, or a URL.
            rate_bytes: the most to write in a second; 0: as configured.
        """
        return await self._row(m.Snapshot, directory, rate_bytes)

    async def _row(self, kind: type[Any], *fields: Any) -> dict[str, Any]:
        value = await self._ask(kind, *fields)
        if type(value) is not dict:
            raise RequestError(ErrorCode.FIELD_INVALID, f"{kind.__name__}: the value is no map")
        return value

    async def _ask(self, kind: type[Any], *fields: Any) -> Any:
        """Send a request; return what its Ok carries."""
        raise NotImplementedError


def _listed(addresses: Sequence[str]) -> list[str]:
    """Return *addresses* as a list; a text is one too, of letters, and would be taken for that."""
    if isinstance(addresses, str):
        text = f"addresses are a list: write [{addresses!r}], not {addresses!r}"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
    return list(addresses)
