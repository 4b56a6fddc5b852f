"""The rights of one user. Each decision is made once and remembered."""

from collections.abc import Sequence

from qmgr_protocol.need import Kind, Right
from qmgrd.core.access.grant import Grant, GrantTable, table_of

DECISIONS_MAX = 10_000  # A user may send any number of names.


class Access:
    """The rights of a user. All connections of the user share this object.

    Invariant: ``decided`` contains only decisions that follow from the present grants. ``allowed``
        contains only requests that the user may send, given the present grants and aliases.
    """

    __slots__ = ("_tables", "allowed", "decided", "is_administrator", "owner", "user")

    def __init__(self, user: str, owner: str = "") -> None:
        """Starts without any right.

        Args:
            user: The name of the user.
            owner: The text by which the jobs and subscriptions of the user refer to it.
        """
        self.user = user
        self.owner = owner or user
        self.is_administrator = False
        self.decided: dict[tuple[Right, Kind, str], bool] = {}
        self.allowed: set[tuple[type, str]] = set()  # frequent requests: their kind and name
        self._tables: tuple[GrantTable, ...] = ()

    def grant(
        self, grants: list[Grant], roles: Sequence[GrantTable] = (), *, is_administrator: bool
    ) -> None:
        """Replaces all rights of the user.

        Args:
            grants: The grants of the user itself.
            roles: The grants of its roles. All users of a role share its table. After a change of
                a table, call :meth:`forget`.
            is_administrator: Whether the user has all rights.
        """
        self._tables = (table_of(grants), *roles)
        self.is_administrator = is_administrator
        self.forget()

    def forget(self) -> None:
        """Forgets all decisions, because a grant of the user or of one of its roles changed."""
        self.decided.clear()
        self.allowed.clear()

    def remember(self, kind: type, name: str) -> None:
        """Remembers that requests of *kind* are allowed on *name*."""
        if len(self.allowed) >= DECISIONS_MAX:
            self.allowed.clear()
        self.allowed.add((kind, name))

    def may(self, right: Right, kind: Kind, name: str = "") -> bool:
        """Returns whether the user has *right* on the object *name* of *kind*."""
        key = right, kind, name
        found = self.decided.get(key)
        if found is None:
            found = self.deciding(right, kind, name) is not None or self.is_administrator
            if len(self.decided) >= DECISIONS_MAX:
                self.decided.clear()
            self.decided[key] = found
        return found

    def deciding(self, right: Right, kind: Kind, name: str = "") -> Grant | None:
        """Returns the first grant of *right* that covers the object *name* of *kind*, or None."""
        for table in self._tables:
            for grant in table.get(kind, ()):
                if grant.right is right and grant.covers(name):
                    return grant
        return None

    def sees(self, kind: Kind, name: str) -> bool:
        """Returns whether the user may learn that the object *name* of *kind* exists.

        A user may learn this with any right on the object.
        """
        return self.is_administrator or any(
            grant.covers(name) for table in self._tables for grant in table.get(kind, ())
        )
