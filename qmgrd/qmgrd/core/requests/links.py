"""Handles operators' requests about links, and fetch requests of other queue managers."""

from itertools import islice
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.need import Kind
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.link_definitions import LinkDefinitions, has_dialling
from qmgrd.core.catalogue.link_facts import describe
from qmgrd.core.catalogue.route import remotes_of
from qmgrd.core.context.context import Context
from qmgrd.core.jobs import drop
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.link.link import FETCHED, Link
from qmgrd.core.sessions.link_streams import LinkStreams
from qmgrd.core.sessions.session import Session

USERS_SHOWN_MAX = 5
SHOWN_MAX = 1_000  # maximum number of inbound links shown
ALLOWED_MAX = 10_000  # the highest possible value of link.peers_max


class LinkAdmin:
    """Handles requests about links. Holds no state."""

    def __init__(
        self, context: Context, catalogue: Catalogue, jobs: Jobs, streams: LinkStreams
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._links = LinkDefinitions(context, catalogue)
        self._jobs = jobs
        self._streams = streams

    def link_create(self, session: Session, message: m.LinkCreate) -> None:
        """Defines a link. Starts the link unless it is defined as stopped."""
        known = message.link in self._catalogue.links
        link = self._links.create(message.link, message.attributes)
        if not known and not link.row["stopped"]:
            link.start()
        self._context.reply(session.connection, message.request_id, self._row(link))

    def link_alter(self, session: Session, message: m.LinkAlter) -> None:
        """Changes attributes of a link with immediate effect."""
        changed = self._links.alter(message.link, message.attributes)
        link = self._links.find(message.link)
        if changed:
            link.altered()
            self._context.note("info", "link altered", link=message.link, changed=changed)
        self._context.reply(
            session.connection, message.request_id, self._row(link) | {"changed": changed}
        )

    def link_delete(self, session: Session, message: m.LinkDelete) -> None:
        """Deletes a link that no remote queue uses. Links from its peer remain allowed."""
        link = self._links.find(message.link)
        users = list(islice(remotes_of(self._catalogue, message.link), USERS_SHOWN_MAX))
        if users:
            known = ", ".join(name for name in users if session.shows(Kind.QUEUE, name))
            raise RequestError(
                ErrorCode.QUEUE_IN_USE,
                f"link {message.link} is used by {known or 'remote queues'}: delete these first",
            )
        depth = link.queue.counters.depth
        if depth and not message.purge:
            raise RequestError(
                ErrorCode.LINK_NOT_EMPTY,
                f"link {message.link} holds {amount(depth, 'message')}; "
                "wait until they are sent, or purge them",
            )
        self._jobs.check_deletions()
        link.stop()
        self._context.peers.forget_link(message.link)
        self._links.remove(message.link)
        waiting = depth + link.queue.counters.delayed
        self._jobs.start("drop", total=waiting, **drop.facts_of(link.queue))
        self._context.reply(session.connection, message.request_id, {"messages": depth})

    def _row(self, link: Link) -> dict[str, Any]:
        context = self._context
        return describe(link, context.now.ms, is_maintenance=context.is_maintenance)

    def link_list(self, session: Session, message: m.LinkList) -> None:
        """Lists the links of both directions."""
        links = [self._row(link) for _, link in sorted(self._catalogue.links.items())]
        inbound, count = self._streams.inbound(SHOWN_MAX)
        peers = self._context.peers
        allowed = peers.allowed(ALLOWED_MAX)
        self._context.count_read(len(links) + len(inbound) + len(allowed), 0)
        value: dict[str, Any] = {
            "links": _shown(session, links, "link"),
            "inbound": _shown(session, inbound, "peer"),
            "inbound_count": count,
            "allowed": _shown(session, allowed, "peer"),
            "allowed_count": peers.allowed_count,
            "refused": _shown(session, peers.refusals(), "peer"),
        }
        if session.shown(Kind.LINK) is not None:  # Others do not exist for the user.
            for name in ("inbound", "allowed"):
                value[f"{name}_count"] = len(value[name])
        self._context.reply(session.connection, message.request_id, value)

    def link_show(self, session: Session, message: m.LinkShow) -> None:
        """Shows a link."""
        self._context.reply(
            session.connection, message.request_id, self._row(self._links.find(message.link))
        )

    def link_allow(self, session: Session, message: m.LinkAllow) -> None:
        """Allows a queue manager to open links to this one.

        If the store id changes, the connections of the queue manager are closed.
        """
        name, peers = message.manager, self._context.peers
        if peers.allow(name, message.store_id):
            self._streams.disconnect_sender(name, f"the store id of {name} was changed")
            if name in self._catalogue.links:
                self._catalogue.links[name].altered()
        row = peers.describe(name)
        self._context.note("info", "peer allowed", peer=name, store_id=row["store_id"])
        self._context.reply(session.connection, message.request_id, row)

    def link_disallow(self, session: Session, message: m.LinkDisallow) -> None:
        """Forbids a queue manager to open links to this one, and closes its open links."""
        name = message.manager
        self._context.peers.disallow(name, is_linked=name in self._catalogue.links)
        count = self._streams.disconnect_sender(
            name, f"{self._context.name} accepts no links from {name}"
        )
        self._context.note("info", "peer disallowed", peer=name)
        inbound = self._context.config.link.inbound
        self._context.reply(
            session.connection, message.request_id, {"connections": count, "inbound": inbound}
        )

    def link_fetch(self, session: Session, message: m.LinkFetch) -> None:
        """Sends the messages of the link to the requesting queue manager over this connection."""
        if message.path >= FETCHED:
            raise FieldInvalid(
                "LinkFetch", "path", f"is {message.path}, but must be below {FETCHED}"
            )
        least = (65_536, 1, 1, 1)
        for field, value, low in zip(message._fields[2:], message[2:], least, strict=True):
            if value < low:
                raise FieldInvalid("LinkFetch", field, f"is {value}, but must be at least {low}")
        if session.path is not None:
            raise FieldInvalid("LinkFetch", "path", "this connection already sent a LinkFetch")
        link = self._fetched_link(session)
        self._context.reply(session.connection, message.request_id, None)
        link.fetched(session, message)

    def _fetched_link(self, session: Session) -> Link:
        """Returns the link over which a queue manager that claims a name and a store may fetch.

        Raises:
            RequestError: PEER_STORE_CHANGED (checked first), LINK_UNKNOWN or LINK_DOWN.
        """
        name, store_id, peers = session.name, session.store_id, self._context.peers
        try:
            peers.check(name, store_id, has_link=has_dialling(self._catalogue.links, name))
            link = self._links.find(name)
            link.check_ready()
        except RequestError as error:
            peers.refuse(name, store_id, error)
            raise
        peers.pin(name, store_id)
        return link

    def link_start(self, session: Session, message: m.LinkStart) -> None:
        """Starts a link that is stopped, refused or waiting."""
        if message.accept:
            self._links.accept_peer(message.link)
        self._switch(session, message, stopped=False)

    def link_stop(self, session: Session, message: m.LinkStop) -> None:
        """Stops a link until it is started again, even across restarts."""
        self._switch(session, message, stopped=True)

    def _switch(
        self, session: Session, message: m.LinkStart | m.LinkStop, *, stopped: bool
    ) -> None:
        link = self._links.find(message.link)
        link.row["stopped"] = stopped
        self._links.store(message.link, link.row)
        if stopped:
            link.stop()
        else:
            link.start()
        self._context.reply(session.connection, message.request_id, self._row(link))


def _shown(session: Session, rows: list[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    """Returns the rows whose link or queue manager, named in *field*, the user may see."""
    return [row for row in rows if session.shows(Kind.LINK, row[field])]
