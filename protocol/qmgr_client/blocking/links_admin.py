# Generated from qmgr_client/aio/links_admin.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Administration of links, without asyncio."""

from collections.abc import Sequence

from qmgr_client.aio import admin as aio_admin
from qmgr_client.blocking.bridge import Bridge
from qmgr_client.manager_rows import AllowedRow, Disallowed, LinkAltered, LinkListing, LinkRow
from qmgr_client.rows import Removed


class LinksAdmin(Bridge[aio_admin.Admin]):
    """The requests of operators about links."""

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
        """Creates a link to another queue manager, starts it, and returns its row.

        Args:
            link: The name of the other queue manager.
            addresses: Up to 16 addresses, ``host:port`` or ``unix:/path``. Each connection attempt
                uses the next address. Leave the list empty if the other queue manager connects to
                this one and fetches its messages.
            stopped: Whether to create the link without starting it.
            connections: The number of connections that transfer messages concurrently, 1 to 16.
            ordered: Whether the other queue manager stores messages in order even if one overtakes
                another in transit.
            fetch: Whether to fetch pending messages from the other queue manager over the
                connections of this link.
            routes: Further queue managers that are reached through this link. ``"*"`` means all
                others.
            transit: Whether messages that arrive on other links may be forwarded over this link.

        Raises:
            RequestError: LINK_EXISTS, NAME_INVALID, VALUE_INVALID or LINKS_EXHAUSTED.
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
        """Changes attributes of a link permanently. Pending messages stay on the link.

        A link that is not stopped reconnects immediately. None keeps the value of an attribute. The
        attributes are the same as in :meth:`link_create`.

        Returns:
            The row of the link. Its ``changed`` maps each attribute that changed to
            [before, after].

        Raises:
            RequestError: LINK_UNKNOWN or VALUE_INVALID.
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
        """Deletes a link.

        The queue manager also forgets the store id of the peer, unless the peer may open links to
        this queue manager.

        Args:
            link: The name of the link.
            purge: Whether to delete the link even if it has pending messages.

        Returns:
            The number of deleted messages, in ``messages``. None if the answer was lost with a
            connection.

        Raises:
            RequestError: LINK_UNKNOWN, or LINK_NOT_EMPTY if the link has pending messages and
                *purge* is false.
        """
        return self._call(self._aio.link_delete(link, purge=purge))

    def link_list(self) -> LinkListing:
        """Returns the rows of all links.

        Returns:
            A dictionary. ``links`` has the links of this queue manager, and ``inbound`` has the
            links of other queue managers to this one. ``allowed`` has the queue managers that may
            open links to this one. ``refused`` has the queue managers that were refused since the
            start.
        """
        return self._call(self._aio.link_list())

    def link_show(self, link: str) -> LinkRow:
        """Returns the row of a link."""
        return self._call(self._aio.link_show(link))

    def link_start(self, link: str, *, accept: bool = False) -> LinkRow:
        """Starts a stopped or refused link and returns its row.

        Args:
            link: The name of the link.
            accept: Whether a refused link accepts the current store of its peer, which is a
                different store or was restored from a backup. Pending messages are sent as a new
                stream. Messages that the peer has already received are duplicated.
        """
        return self._call(self._aio.link_start(link, accept=accept))

    def link_stop(self, link: str) -> LinkRow:
        """Stops a link until it is started again, and returns the link's row."""
        return self._call(self._aio.link_stop(link))

    def link_allow(self, manager: str, store_id: bytes = b"") -> AllowedRow:
        """Allows a queue manager to open links to this one, and returns its row.

        Args:
            manager: The name of the other queue manager.
            store_id: The only store id that is accepted for that name, 16 bytes. ``b""`` accepts
                the store id that is already known, or else the id of the first store that connects.

        Raises:
            RequestError: LINKS_EXHAUSTED, or PEER_WRONG if *manager* is this queue manager.
        """
        return self._call(self._aio.link_allow(manager, store_id))

    def link_disallow(self, manager: str) -> Disallowed:
        """Revokes the permission of a queue manager to open links to this one.

        Returns:
            The number of connections that were closed, and the state of its inbound link.

        Raises:
            RequestError: LINK_UNKNOWN if the queue manager had no permission.
        """
        return self._call(self._aio.link_disallow(manager))
