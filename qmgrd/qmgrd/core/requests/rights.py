"""Checks that a user has the rights that a request needs, as declared in qmgr_protocol.messages.

    request ─▶ its needs ─▶ (right, kind, name) of each object ─▶ Access.may ─▶ handler, or an error

Names are checked for what they reach: an alias counts as its queue. A user who has no right at all
on an object gets the same error as if the object did not exist.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from qmgr_protocol import messages as m
from qmgr_protocol import topic as topics
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.messages import OPERATIONS
from qmgr_protocol.need import EACH, Kind, Need, Right
from qmgrd.core.access.access import Access
from qmgrd.core.access.role import ADMINISTRATOR
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.missing import no_link, no_queue, no_subscription, no_template
from qmgrd.core.catalogue.named import Alias
from qmgrd.core.context.context import Context
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.settle_part import Arrived, SettlePart

NEEDS: dict[type[Arrived], tuple[Need, ...]] = {
    found.kind: found.request.needs for found in OPERATIONS.values() if found.request is not None
}
NEEDS[SettlePart] = NEEDS[m.Settle]
CHECKED = {
    kind: tuple(x for x in needs if x.right is not Right.CONNECT and x.field != EACH)
    for kind, needs in NEEDS.items()
}
# Rights on the messages behind a name. Other rights concern the definition of the name itself.
_THROUGH = {Right.PUT, Right.GET, Right.BROWSE, Right.PURGE, Right.MOVE}
_ALL = ("*",)


class Needed(NamedTuple):
    """A right that one request needs on one object."""

    right: Right
    kind: Kind  # never DESTINATION or SOURCE
    name: str  # "" for the queue manager itself, "*" for all objects of the kind


class Guard:
    """Checks requests. Holds no state."""

    def __init__(self, context: Context, catalogue: Catalogue) -> None:
        self._context = context
        self._catalogue = catalogue
        self._is_enforced = context.config.auth.mode == "enforce"

    def check(self, session: Session, message: Arrived) -> None:
        """Checks a request of a user. Returns if the user may send it.

        Puts of links are checked one by one when they are stored, by :meth:`check_put`.

        Raises:
            RequestError: NOT_AUTHORIZED, or the error for an object that does not exist.
        """
        access = session.access
        assert access is not None
        kind = type(message)
        if kind is m.Put and session.store_id:
            return
        for need in CHECKED[kind]:
            for needed in self._objects(need, message, session.name):
                if not (access.may(*needed) or self._is_own(session, needed)):
                    self._refuse(access, needed, kind.__name__)

    def check_put(self, access: Access, name: str) -> None:
        """Checks that a user may put on the queue or topic *name*.

        Raises:
            RequestError: As :meth:`check`.
        """
        needed = self._object(Right.PUT, Kind.DESTINATION, name)
        if not access.may(*needed):
            self._refuse(access, needed, "Put")

    def _refuse(self, access: Access, needed: Needed, operation: str) -> None:
        """Raises the error for a lacking right. If rights are not enforced, only logs it."""
        error = refusal(access, needed)
        if self._is_enforced:
            raise error
        self._context.note(
            "warning",
            "auth.mode = enforce would refuse a request",
            user=access.user,
            operation=operation,
            why=error.text,
        )

    def _is_own(self, session: Session, needed: Needed) -> bool:
        """Returns whether the object is a subscription that ends with this connection."""
        return needed.kind is Kind.SUBSCRIPTION and needed.name in session.subscriptions

    def _objects(self, need: Need, message: Arrived, peer: str) -> Iterator[Needed]:
        if need.when and not getattr(message, need.when):
            return
        yield from self.needed(need, lambda field: _value(message, field), peer)

    def needed(self, need: Need, value: Callable[[str], Any], peer: str) -> Iterator[Needed]:
        """Yields the rights that *need* stands for.

        Args:
            need: A need of a request.
            value: A function that returns the value of a field of the request.
            peer: The name of the queue manager that sends the request.
        """
        if need.kind is Kind.MANAGER:
            yield Needed(need.right, need.kind, "")
        elif need.kind is Kind.PEER:
            yield Needed(need.right, need.kind, peer)
        else:
            found = value(need.field)
            names = found if isinstance(found, list) else [found] if found else []
            for name in names or (_ALL if need.or_all else ()):
                yield self._object(need.right, need.kind, str(name))

    def _object(self, right: Right, kind: Kind, name: str) -> Needed:
        """Returns the needed right on the object that *name* reaches."""
        if kind is Kind.DESTINATION and topics.is_topic(name):
            return Needed(Right.PUBLISH, Kind.TOPIC, name.removeprefix(topics.MARK))
        if kind is Kind.SOURCE and topics.is_subscription(name):
            return Needed(right, Kind.SUBSCRIPTION, name)
        if kind not in (Kind.DESTINATION, Kind.SOURCE):
            return Needed(right, kind, name)
        found = self._catalogue.queues.get(name) if right in _THROUGH else None
        return Needed(right, Kind.QUEUE, found.target if isinstance(found, Alias) else name)

    def explain(self, access: Access, message: m.AccessExplain) -> list[dict[str, Any]]:
        """Returns each right that a request would need, and the grant that decides.

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
            for needed in self.needed(need, lambda x: message.values.get(x, ""), access.user):
                grant = access.deciding(*needed)
                by = " ".join(filter(None, grant.encode())) if grant is not None else ""
                if not by and access.is_administrator:
                    by = f"role {ADMINISTRATOR}"
                found.append(
                    {
                        "right": needed.right.value,
                        "kind": needed.kind.value,
                        "name": needed.name,
                        "allowed": access.may(*needed),
                        "by": by,
                    }
                )
        return found


def _value(message: Arrived, field: str) -> Any:
    """Returns the value of *field*, which may be an attribute such as attributes.alias_of."""
    name, _, attribute = field.partition(".")
    value = getattr(message, name)
    return value.get(attribute) if attribute else value


def refusal(access: Access, needed: Needed) -> RequestError:
    """Returns the error for a user that lacks the *needed* right."""
    right, kind, name = needed
    if right is not Right.CREATE and not access.sees(kind, name):
        if kind is Kind.QUEUE and name not in _ALL:
            return no_queue(name[:80], ())
        if kind is Kind.SUBSCRIPTION and name not in _ALL:
            return no_subscription(name, ())
        if kind is Kind.LINK:
            return no_link(name[:80])
        if kind is Kind.TEMPLATE:
            return no_template(name[:80], ())
    what = f"{kind.value} {name[:200]}" if name else "the queue manager itself"
    if name in _ALL:
        what = f"every {kind.value}"
    return RequestError(
        ErrorCode.NOT_AUTHORIZED,
        f"user {access.user} may not do this: the right to {right.value} on {what} is required",
    )
