"""Enforces revoked rights on what was allowed before: consumers, links and subscriptions.

    Users.changed ──once a turn──▶ each connection of these users ──▶ its consumers, gets and leases
                                 │                                └─▶ its streams of links
                                 └▶ each subscription of these users

Requests are checked when they arrive, jobs before each slice, and units of work at their commit.
"""

from collections.abc import Iterable

from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.need import Kind, Right
from qmgrd.core.access.access import Access
from qmgrd.core.access.rights import Needed, Rights, not_authorized
from qmgrd.core.access.users import Users
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.layout.owner import name_of
from qmgrd.core.link.inbox import InboundPath
from qmgrd.core.queue.queue import Queue
from qmgrd.core.requests.rights import Guard
from qmgrd.core.sessions.connection import Connections
from qmgrd.core.sessions.delivery import Delivery
from qmgrd.core.sessions.session import Session


class Revocations:
    """Ends what users may no longer do. Holds no state."""

    def __init__(
        self,
        catalogue: Catalogue,
        users: Users,
        rights: Rights,
        guard: Guard,
        delivery: Delivery,
        connections: Connections,
    ) -> None:
        self._catalogue = catalogue
        self._users = users
        self._rights = rights
        self._guard = guard
        self._delivery = delivery
        self._connections = connections

    def load(self) -> None:
        """Checks the owners of all subscriptions, after a start."""
        self._check_subscriptions(list(self._catalogue.topics.owned))
        self._users.changed.clear()

    def run(self, sessions: Iterable[Session]) -> None:
        """Checks all users whose rights changed in this turn."""
        changed = self._users.changed
        if not changed:
            return
        for session in list(sessions):
            if session.access is not None and session.access.user in changed:
                self._check_consumers(session)
        self._connections.close_all(
            lambda session: (
                session.access is not None
                and session.access.user in changed
                and self._has_lost_link(session, session.access)
            ),
            ErrorCode.NOT_AUTHORIZED,
            "the right to act as this queue manager was revoked",
        )
        owned = self._catalogue.topics.owned
        # A deleted user, and a new user of the same name, are two owners.
        self._check_subscriptions([owner for owner in owned if name_of(owner) in changed])
        changed.clear()

    def _check_consumers(self, session: Session) -> None:
        access, own = session.access, session.subscriptions
        assert access is not None
        for queue in self._used(session):
            needed = self._guard.reached(Right.GET, queue.name)
            if self._guard.refusal(access, own, needed, "Consume") is not None:
                self._delivery.revoke(session, queue, not_authorized(access, needed))

    def _used(self, session: Session) -> list[Queue]:
        """Returns the queues from which *session* gets messages or has leased some."""
        found = {consumer.queue.id: consumer.queue for consumer in session.consumers.values()}
        found |= {x.queue.id: x.queue for x in session.lessees.values() if x.leases}
        by_id = self._catalogue.by_id
        return [by_id[queue_id] for queue_id in found if queue_id in by_id]

    def _has_lost_link(self, session: Session, access: Access) -> bool:
        """Returns whether *session* sends or fetches the messages of a link without the right.

        The same applies if its user may no longer act as the queue manager.
        """
        rights = []
        if any(isinstance(stream, InboundPath) for stream in session.streams.values()):
            rights.append(Right.LINK)
        if session.path is not None:
            rights.append(Right.FETCH)
        if rights and self._users.bindings.impostor(access.user, session.name) is not None:
            return True
        return any(
            self._rights.refusal(access, Needed(right, Kind.PEER, session.name), "LinkOpen")
            for right in rights
        )

    def _check_subscriptions(self, owners: list[str]) -> None:
        """Decides which subscriptions of *owners* receive publications from now on."""
        owned = self._catalogue.topics.owned
        for owner in owners:
            access = self._rights.of_owner(owner)
            for found in owned[owner].values():
                needed = Needed(Right.SUBSCRIBE, Kind.TOPIC, found.topic)
                found.is_refused = self._rights.refusal(access, needed, "Subscribe") is not None
