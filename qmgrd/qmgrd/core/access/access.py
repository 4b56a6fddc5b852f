"""The rights of one user. Each decision is made once and remembered."""

from collections import defaultdict

from qmgr_protocol.need import Kind, Right
from qmgrd.core.access.grant import Grant

DECISIONS_MAX = 10_000  # A user may send any number of names.


class Access:
    """The rights of a user. All connections of the user share this object.

    Invariant: ``decided`` contains only decisions that follow from the present grants. ``allowed``
        contains only requests that the user may send, given the present grants and aliases.
    """

    __slots__ = ("_grants", "allowed", "decided", "is_administrator", "user")

    def __init__(self, user: str) -> None:
        """Starts without any right."""
        self.user = user
        self.is_administrator = False
        self.decided: dict[tuple[Right, Kind, str], bool] = {}
        self.allowed: set[tuple[type, str]] = set()  # frequent requests: their kind and name
        self._grants: dict[Kind, list[Grant]] = {}

    def grant(self, grants: list[Grant], *, is_administrator: bool) -> None:
        """Replaces all rights of the user."""
        by_kind = defaultdict(list)
        for grant in grants:
            by_kind[grant.kind].append(grant)
        self._grants = dict(by_kind)
        self.is_administrator = is_administrator
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
        for grant in self._grants.get(kind, ()):
            if grant.right is right and grant.covers(name):
                return grant
        return None

    def sees(self, kind: Kind, name: str) -> bool:
        """Returns whether the user may learn that the object *name* of *kind* exists.

        A user may learn this with any right on the object.
        """
        grants = self._grants.get(kind, ())
        return self.is_administrator or any(grant.covers(name) for grant in grants)
