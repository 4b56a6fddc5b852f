"""The rights of one user. Each decision is made once and remembered."""

from collections.abc import Collection, Sequence
from typing import Protocol

from qmgr_protocol import messages as m
from qmgr_protocol.errors import RequestError
from qmgr_protocol.need import Kind, Right
from qmgrd.core.access.grant import Grant, GrantTable, table_of
from qmgrd.core.access.user_limits import UNLIMITED, UserLimits, reached_error
from qmgrd.core.limits.put_rates import PutRate
from qmgrd.core.limits.user_unread import UserUnread
from qmgrd.core.queue.stored_bytes import StoredBytes

DECISIONS_MAX = 10_000  # decisions of a user, because a user may send any number of names
NAME_MAX = 256  # characters of a name with a remembered decision; only topics may be longer
ALL_DECISIONS_MAX = 200_000  # decisions of all users together


class OpenSession(Protocol):
    """The use of one connection that counts toward the limits of its user."""

    @property
    def streams(self) -> Collection[int]:
        """The open streams of producers and links."""

    @property
    def consumers(self) -> Collection[int]:
        """The consumers and waiting gets."""


class RememberedDecisions:
    """The remembered decisions of all users together.

    Invariant: ``count`` is the number of decisions of ``_accesses``, at most ALL_DECISIONS_MAX.
        Each user with a decision is in ``_accesses``, in the order of its first decision.
    """

    def __init__(self) -> None:
        self.count = 0
        self._accesses: dict[Access, None] = {}

    def add(self, access: "Access") -> None:
        """Counts a decision of *access* that follows. Forgets those of other users for room."""
        while self.count >= ALL_DECISIONS_MAX:
            next(iter(self._accesses)).forget()
        self.count += 1
        self._accesses[access] = None

    def remove(self, access: "Access", count: int) -> None:
        """Subtracts *count* decisions that *access* has forgotten."""
        self.count -= count
        if not (access.decided or access.allowed):
            self._accesses.pop(access, None)


class Access:
    """The rights of a user. All connections of the user share this object.

    Invariant: ``decided`` contains only decisions that follow from the present grants. ``allowed``
        contains only requests that the user may send, given the present grants and aliases.
        ``sessions`` contains the open connections of the user.
    """

    __slots__ = (
        "_grants",
        "_remembered",
        "_roles",
        "_tables",
        "allowed",
        "decided",
        "is_administrator",
        "limits",
        "owner",
        "put_rate",
        "sessions",
        "stored",
        "unread",
        "user",
    )

    def __init__(
        self,
        user: str,
        owner: str = "",
        remembered: RememberedDecisions | None = None,
        stored: StoredBytes | None = None,
    ) -> None:
        """Starts without any right and without limits.

        Args:
            user: The name of the user.
            owner: The text by which the jobs and subscriptions of the user refer to it.
            remembered: The users whose decisions are remembered.
            stored: The bytes on the queues that the user created.
        """
        self.user = user
        self.owner = owner or user
        self.limits = UNLIMITED
        self.put_rate = PutRate()
        self.sessions: dict[int, OpenSession] = {}
        self.unread = UserUnread(self.sessions)
        self.stored = stored or StoredBytes(user)
        self._remembered = remembered or RememberedDecisions()
        self.is_administrator = False
        self.decided: dict[tuple[Right, Kind, str], bool] = {}
        self.allowed: set[tuple[type, str]] = set()  # frequent requests: their kind and name
        self._grants: Sequence[Grant] = ()
        self._roles: Sequence[GrantTable] = ()
        self._tables: tuple[GrantTable, ...] | None = None  # made when the user is first asked for

    def limit(self, limits: UserLimits) -> None:
        """Sets the limits of the user."""
        self.limits, self.stored.limit_bytes = limits, limits.stored_bytes_max
        self.put_rate.set(limits.puts_per_s_max, limits.put_bytes_per_s_max)
        self.unread.limit_bytes = limits.unread_bytes_max

    def grant(
        self, grants: Sequence[Grant], roles: Sequence[GrantTable] = (), *, is_administrator: bool
    ) -> None:
        """Replaces all rights of the user.

        Args:
            grants: The grants of the user itself.
            roles: The grants of its roles. All users of a role share its table. After a change of
                a table, call :meth:`forget`.
            is_administrator: Whether the user has all rights.
        """
        self._grants, self._roles, self._tables = grants, roles, None
        self.is_administrator = is_administrator
        if self.decided or self.allowed:
            self.forget()

    def forget(self) -> None:
        """Forgets all decisions, because a grant of the user or of one of its roles changed."""
        count = len(self.decided)
        self.decided.clear()
        self._remembered.remove(self, count)
        self.forget_allowed()

    def forget_allowed(self) -> None:
        """Forgets which frequent requests were allowed, because a name reaches another queue."""
        count = len(self.allowed)
        self.allowed.clear()
        self._remembered.remove(self, count)

    def remember(self, kind: type, name: str) -> None:
        """Remembers that requests of *kind* are allowed on *name*."""
        self._make_room()
        self.allowed.add((kind, name))

    def _make_room(self) -> None:
        """Counts a new decision. Forgets all decisions of the user if it has too many."""
        if len(self.decided) + len(self.allowed) >= DECISIONS_MAX:
            self.forget()
        self._remembered.add(self)

    def check_use(self, name: str, used: int) -> None:
        """Checks that the user, who has *used* this many of a limit, may use one more.

        Args:
            name: The name of the limit, such as ``queues_max``.
            used: The present use.

        Raises:
            RequestError: The code of the limit.
        """
        limit: int = getattr(self.limits, name)
        if limit and used >= limit:
            raise reached_error(self.user, name, used, limit)

    def connection_refusal(self) -> m.Goaway | None:
        """Returns the reason for which the user may open no further connection, or None."""
        try:
            self.check_use("connections_max", len(self.sessions))
        except RequestError as error:
            return m.Goaway(error.code, error.text, error.retry_after_ms)
        return None

    @property
    def streams(self) -> int:
        """The number of open streams of all connections of the user."""
        return sum(len(session.streams) for session in self.sessions.values())

    @property
    def consumers(self) -> int:
        """The number of consumers and waiting gets of all connections of the user."""
        return sum(len(session.consumers) for session in self.sessions.values())

    def may(self, right: Right, kind: Kind, name: str = "") -> bool:
        """Returns whether the user has *right* on the object *name* of *kind*."""
        key = right, kind, name
        found = self.decided.get(key)
        if found is None:
            found = self.deciding(right, kind, name) is not None or self.is_administrator
            if len(name) <= NAME_MAX:
                self._make_room()
                self.decided[key] = found
        return found

    def deciding(self, right: Right, kind: Kind, name: str = "") -> Grant | None:
        """Returns the first grant of *right* that covers the object *name* of *kind*, or None."""
        for table in self._all_tables():
            for grant in table.get(kind, ()):
                if grant.right is right and grant.covers(name):
                    return grant
        return None

    def sees(self, kind: Kind, name: str) -> bool:
        """Returns whether the user may learn that the object *name* of *kind* exists.

        A user may learn this with any right on the object.
        """
        return self.is_administrator or any(
            grant.covers(name) for table in self._all_tables() for grant in table.get(kind, ())
        )

    def _all_tables(self) -> tuple[GrantTable, ...]:
        if self._tables is None:
            self._tables = (table_of(self._grants), *self._roles)
        return self._tables
