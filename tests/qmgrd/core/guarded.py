"""A queue manager with users, whose rights a test grants and revokes.

A grant is a text: "put queue ORDERS", "subscribe topic a/#", "show manager".
"""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol import verifier
from tests.qmgrd.core.harness import Client, Manager

VERIFIER = str(verifier.of_nobody(b"a secret of 32 bytes for a test.", "admin"))


class Guarded:
    """A manager whose users must log in. ``owner`` is a connection that may do everything."""

    def __init__(self, manager: Manager) -> None:
        self.manager = manager
        self.owner = manager.connect("owner")
        administrator = {"verifier": VERIFIER, "roles": ["administrator"]}
        self.owner.ask(m.UserCreate, "admin", administrator)

    def user(self, name: str, *grants: str, roles: tuple[str, ...] = ()) -> Client:
        """Creates a user with these grants; returns a connection of the user."""
        self.owner.ask(m.UserCreate, name, {"verifier": VERIFIER, "roles": list(roles)})
        for grant in grants:
            self.grant(name, grant)
        return self.manager.connect(name, user=name)

    def grant(self, user: str, grant: str) -> None:
        """Grants a right, in a turn."""
        self.owner.ask(m.GrantCreate, user, "", *_fields(grant))

    def revoke(self, user: str, grant: str) -> None:
        """Revokes a right, in a turn."""
        self.owner.ask(m.GrantDelete, user, "", *_fields(grant))

    def revoking(self, user: str, grant: str) -> m.GrantDelete:
        """Returns the request that revokes a right, without a turn."""
        return m.GrantDelete(self.owner.next_id(), user, "", *_fields(grant))

    def job(self, number: int) -> dict[str, Any]:
        """Returns the row of a job."""
        row: dict[str, Any] = self.owner.ask(m.JobShow, number)
        return row


def _fields(grant: str) -> tuple[list[str], str, str]:
    right, kind, pattern = f"{grant} ".split(" ")[:3]
    return [right], kind, pattern
