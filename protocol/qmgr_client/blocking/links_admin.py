# Generated from qmgr_client/aio/links_admin.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""What operators ask about links, without asyncio."""

from collections.abc import Sequence

from qmgr_client.aio import admin as aio_admin
from qmgr_client.blocking.bridge import Bridge
from qmgr_client.manager_rows import AllowedRow, Disallowed, LinkAltered, LinkList, LinkRow
from qmgr_client.rows import Removed


class LinksAdmin(Bridge[aio_admin.Admin]):
    """What an operator asks about links."""

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
        return self._call(
            self._aio.link_create(
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
        """Give a link other attributes for good; what waits on it stays, and goes on so.

        One that is not stopped dials anew at once. Return the row, with "changed" as of a queue.
        """
        return self._call(
            self._aio.link_alter(
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
        """Delete a link, with *purge* also one with messages waiting; tells how many.

        Also forgets which store the queue manager of that name has, unless it may open links here.
        """
        return self._call(self._aio.link_delete(link, purge=purge))

    def link_list(self) -> LinkList:
        """Return the rows of "links", and of the "inbound" ones that lead here.

        Also who is "allowed" to open links to here, and who was "refused" since the start.
        """
        return self._call(self._aio.link_list())

    def link_show(self, link: str) -> LinkRow:
        """Return a link's row."""
        return self._call(self._aio.link_show(link))

    def link_start(self, link: str, *, accept: bool = False) -> LinkRow:
        """Start a link that is stopped or was refused.

        With *accept* a refused link takes its peer as that is now, another store or a restored one:
        what is held here goes there as a new stream. What the peer had of it already is doubled.
        """
        return self._call(self._aio.link_start(link, accept=accept))

    def link_stop(self, link: str) -> LinkRow:
        """Stop a link until it is started again."""
        return self._call(self._aio.link_stop(link))

    def link_allow(self, manager: str, store_id: bytes = b"") -> AllowedRow:
        """Lets a queue manager open links to this one; returns its row.

        Args:
            manager: the name of the queue manager that dials.
            store_id: the only store accepted under that name, 16 bytes; empty: the one pinned
                already, or the first that comes.

        Raises:
            RequestError: PEER_WRONG, it is this queue manager; LINKS_EXHAUSTED.
        """
        return self._call(self._aio.link_allow(manager, store_id))

    def link_disallow(self, manager: str) -> Disallowed:
        """Ends that a queue manager may open links; returns how many closed, and ``link.inbound``.

        Raises:
            RequestError: LINK_UNKNOWN, it may not.
        """
        return self._call(self._aio.link_disallow(manager))
