"""Checks that a user has the rights that a request needs, as declared in qmgr_protocol.messages.

    request ─▶ its needs ─▶ (right, kind, name) of each object ─▶ Access.may ─▶ handler, or an error

access/rights.py decides what a name reaches, and which error a user gets. A frequent request that
was allowed before is allowed after one look into a set, until a grant or an alias changes.
"""

from collections.abc import Callable, Container
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import EACH, Kind, Need, Right
from qmgrd.core.access.access import Access
from qmgrd.core.access.rights import Needed, Rights
from qmgrd.core.access.role import ADMINISTRATOR
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.link.inbox import InboundPath
from qmgrd.core.sessions.request_part import Arrived, SettlePart, UnitPutPart
from qmgrd.core.sessions.session import Session

NEEDS: dict[type[Arrived], tuple[Need, ...]] = {
    found.kind: found.request.needs for found in OPERATIONS.values() if found.request is not None
}
NEEDS[SettlePart] = NEEDS[m.Settle]
CHECKED = {
    kind: tuple(x for x in needs if x.right is not Right.CONNECT and x.field != EACH)
    for kind, needs in NEEDS.items()
}
# The put that names the body of a piece needs a right.
FREE = {m.Piece, *(kind for kind, needs in CHECKED.items() if not needs)}
# Requests that need one right on the object in their field queue. Decisions are remembered.
FREQUENT = {m.Put, m.UnitPut, m.Get, m.Consume, m.Browse}


class Guard:
    """Checks requests. Holds no state."""

    def __init__(self, catalogue: Catalogue, rights: Rights) -> None:
        self._topics = catalogue.topics
        self._rights = rights

    def check(self, session: Session, message: Arrived) -> None:
        """Checks a request of a user. Returns if the user may send it.

        Puts of links are checked one by one when they are stored, by :meth:`check_right`.

        Raises:
            RequestError: NOT_AUTHORIZED, or the error for an object that does not exist.
        """
        access = session.access
        assert access is not None
        kind, name = type(message), ""
        if kind in FREQUENT:
            name = message.queue  # type: ignore[union-attr]
            if (kind, name) in access.allowed:
                return
        elif kind in FREE:
            return
        elif isinstance(message, UnitPutPart):
            self.check(session, message.put)
            return
        if isinstance(message, m.Put) and isinstance(
            session.streams.get(message.stream), InboundPath
        ):
            return
        if self._check_needs(session, access, message) and kind in FREQUENT:
            access.remember(kind, name)

    def _check_needs(self, session: Session, access: Access, message: Arrived) -> bool:
        """Checks each need of a request. Returns whether grants alone allow the request."""
        kind, is_granted = type(message), True
        for need in CHECKED[kind]:
            if need.when and not getattr(message, need.when):
                continue
            for needed in self._rights.needed(need, lambda x: value_of(message, x), session.name):
                if access.may(*needed[:3]):
                    continue
                is_granted = False
                if not self._is_excused(access, session.subscriptions, needed, kind):
                    self._refuse(access, needed, kind.__name__)
        return is_granted

    def check_right(
        self,
        access: Access,
        own: Container[str],
        refused: Callable[[Needed], None],
        right: Right,
        name: str,
    ) -> None:
        """Checks that a user has *right* on the queue, topic or subscription *name*.

        Args:
            access: The rights of the user.
            own: The subscriptions that end with the user's connection.
            refused: The function that records a refusal.
            right: The right to put, to get or to forward.
            name: The name.

        Raises:
            RequestError: As :meth:`check`.
        """
        needed = self.reached(right, name)
        error = self.refusal(access, own, needed, right.value)
        if error is not None:
            refused(needed)
            raise error

    def check_fetched(
        self, manager: str, refused: Callable[[Needed], None], right: Right, name: str
    ) -> None:
        """Checks that *manager*, from which a link fetches, has a right, as :meth:`check_right`.

        Its messages need the rights of the user that is bound to it, as if it had dialled. Without
        such a user, everything is allowed, because an operator created the link.
        """
        access = self._rights.of_manager(manager)
        if access is not None:
            self.check_right(access, (), refused, right, name)

    def reached(self, right: Right, name: str) -> Needed:
        """Returns the needed right on the queue, topic or subscription that *name* reaches.

        For the right to forward, *name* is a queue manager.
        """
        if right is Right.FORWARD:
            return Needed(right, Kind.PEER, name)
        kind = Kind.DESTINATION if right is Right.PUT else Kind.SOURCE
        return self._rights.reached(right, kind, name)

    def refusal(
        self, access: Access, own: Container[str], needed: Needed, what: str
    ) -> RequestError | None:
        """Returns the error if a user with the subscriptions *own* lacks a right, or None."""
        if access.may(*needed[:3]) or self._is_excused(access, own, needed, None):
            return None
        return self._rights.lacking(access, needed, what)

    def _refuse(self, access: Access, needed: Needed, operation: str) -> None:
        error = self._rights.lacking(access, needed, operation)
        if error is not None:
            raise error

    def _is_excused(
        self, access: Access, own: Container[str], needed: Needed, kind: type[Arrived] | None
    ) -> bool:
        """Returns whether a subscription may be used without a grant on it.

        A subscription that ends with this connection may be used, but read only while the user may
        subscribe to its filter. An existing subscription may be resumed with the right to get.
        """
        right, of, name, _ = needed
        found = self._topics.subscriptions.get(name) if of is Kind.SUBSCRIPTION else None
        if found is None:
            return False
        if name in own:
            is_read = right in (Right.GET, Right.BROWSE)
            return not is_read or access.may(Right.SUBSCRIBE, Kind.TOPIC, found.topic)
        is_resumed = kind is m.Subscribe and right is Right.CREATE
        return is_resumed and access.may(Right.GET, of, name)

    def explain(
        self, access: Access, message: m.AccessExplain, manager: str
    ) -> list[dict[str, Any]]:
        """Returns each right that a request of *manager* would need, and the grant that decides.

        Raises:
            RequestError: VALUE_INVALID if the request does not exist.
        """
        kinds = {kind.__name__: kind for kind in NEEDS if kind is not SettlePart}
        kind = kinds.get(message.operation)
        if kind is None:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"{message.operation[:80]!r} is not a request; use one of {', '.join(kinds)}",
            )
        found = []
        for need in NEEDS[kind]:
            if need.right is Right.CONNECT or (need.when and not message.values.get(need.when)):
                continue
            for needed in self._rights.needed(need, lambda x: message.values.get(x, ""), manager):
                grant = access.deciding(*needed[:3])
                by = " ".join(filter(None, grant.encode())) if grant is not None else ""
                if not by and access.is_administrator:
                    by = f"role {ADMINISTRATOR}"
                found.append(
                    {
                        "right": needed.right.value,
                        "kind": needed.kind.value,
                        "name": needed.name,
                        "allowed": access.may(*needed[:3]),
                        "by": by,
                    }
                )
        return found


def value_of(message: Arrived, field: str) -> Any:
    """Returns the value of *field*, which may be an attribute such as attributes.alias_of."""
    name, _, attribute = field.partition(".")
    value = getattr(message, name)
    return value.get(attribute) if attribute else value
