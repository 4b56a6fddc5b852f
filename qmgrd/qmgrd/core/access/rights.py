"""Decides what a user may do with the objects that names reach.

    need of a request ─▶ (right, kind, name) of each object ─▶ Access.may ─▶ None, or an error

Names are checked for what they reach: an alias counts as its queue. A user who has no right at all
on an object gets the same error as if the object did not exist.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

from qmgr_protocol import topic as topics
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Kind, Need, Right
from qmgrd.core.access.access import Access
from qmgrd.core.access.users import Users
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.missing import (
    unknown_link_error,
    unknown_queue_error,
    unknown_subscription_error,
    unknown_template_error,
)
from qmgrd.core.catalogue.named import Alias
from qmgrd.core.context.audit_trail import WOULD_REFUSE, AuditRecord, shortened
from qmgrd.core.context.context import Context

# Rights on the messages behind a name. Other rights concern the definition of the name itself.
_THROUGH = {Right.PUT, Right.GET, Right.BROWSE, Right.PURGE, Right.MOVE}
_ALL = ("*",)


class Needed(NamedTuple):
    """A right that a user needs on one object."""

    right: Right
    kind: Kind  # never DESTINATION or SOURCE
    name: str  # "" for the queue manager itself, "*" for all objects of the kind
    alias: str = ""  # the alias in the request that reaches the object, if any


class Rights:
    """The decisions about all users. Holds no state."""

    def __init__(self, context: Context, catalogue: Catalogue, users: Users) -> None:
        self._context = context
        self._catalogue = catalogue
        self._users = users
        self.is_enforced = context.config.auth.mode == "enforce"
        catalogue.aliases.on_change = self._forget_names

    def _forget_names(self) -> None:
        """Forgets which requests were allowed, because a name now reaches another queue."""
        for access in self._users.accesses.values():
            access.forget_allowed()

    def of_owner(self, owner: str) -> Access:
        """Returns the access of *owner*, which has no rights if the user was deleted since."""
        return self._users.of_owner(owner)

    def of_manager(self, manager: str) -> Access | None:
        """Returns the access of the user that is bound to a queue manager, or None."""
        return self._users.of_manager(manager)

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
                yield self.reached(need.right, need.kind, str(name), through=need.through)

    def reached(self, right: Right, kind: Kind, name: str, *, through: bool = False) -> Needed:
        """Returns the needed right on the object that *name* reaches."""
        if kind is Kind.DESTINATION and topics.is_topic(name):
            return Needed(Right.PUBLISH, Kind.TOPIC, name.removeprefix(topics.MARK))
        if kind is Kind.SOURCE and topics.is_subscription(name):
            return Needed(right, Kind.SUBSCRIPTION, name)
        if kind not in (Kind.DESTINATION, Kind.SOURCE):
            return Needed(right, kind, name)
        found = self._catalogue.queues.get(name) if through or right in _THROUGH else None
        if isinstance(found, Alias):
            return Needed(right, Kind.QUEUE, found.target, name)
        return Needed(right, Kind.QUEUE, name)

    def refusal(self, access: Access, needed: Needed, what: str) -> RequestError | None:
        """Returns the error for a user that lacks the *needed* right, or None.

        Args:
            access: The rights of the user.
            needed: The right, and the object.
            what: The name of the request or work, for the log if rights are not enforced.
        """
        return None if access.may(*needed[:3]) else self.lacking(access, needed, what)

    def lacking(self, access: Access, needed: Needed, what: str) -> RequestError | None:
        """Returns the error for a right that the user lacks.

        If rights are not enforced, the error is only logged and recorded in the audit.
        """
        error = refusal(access, needed)
        if self.is_enforced:
            return error
        self._context.note(
            "warning",
            "auth.mode = enforce would refuse a request",
            user=access.user,
            operation=what,
            why=error.text,
        )
        action = what if what[:1].isupper() else needed.right.value.capitalize()
        name = shortened(needed.alias or needed.name)
        record = AuditRecord(action, access.user, kind=needed.kind.value, object=name)
        self._context.audit.count(replace(record, result=WOULD_REFUSE), self._context.now)
        return None


def refusal(access: Access, needed: Needed) -> RequestError:
    """Returns the error for a user that lacks the *needed* right."""
    right, kind, name, alias = needed
    is_seen = access.sees(kind, name) or (alias != "" and access.sees(kind, alias))
    if right is not Right.CREATE and not is_seen:
        if kind is Kind.QUEUE and name not in _ALL:
            return unknown_queue_error((alias or name)[:80], ())
        if kind is Kind.SUBSCRIPTION and name not in _ALL:
            return unknown_subscription_error(name, ())
        if kind is Kind.LINK:
            return unknown_link_error(name[:80])
        if kind is Kind.TEMPLATE:
            return unknown_template_error(name[:80], ())
    return not_authorized(access, needed)


def not_authorized(access: Access, needed: Needed) -> RequestError:
    """Returns the error NOT_AUTHORIZED, which names the object."""
    right, kind, name, alias = needed
    what = f"{kind.value} {name[:200]}" if name else "the queue manager itself"
    if name in _ALL:
        what = f"every {kind.value}"
    if alias:  # The user may not know the queue.
        what = f"the queue of alias {alias}"
    return RequestError(
        ErrorCode.NOT_AUTHORIZED,
        f"user {access.user} may not do this: the right to {right.value} on {what} is required",
    )
