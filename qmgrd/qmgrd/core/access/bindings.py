"""The users that are bound to queue managers: who may act as which queue manager.

user EWR   queue_manager = EWR    acts only as EWR, and nobody else acts as EWR
user hub   not bound              acts as each other queue manager on which it has rights
"""

from qmgr_protocol import messages as m
from qmgr_protocol import name as names
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.operation import Role
from qmgrd.core.access.login import Identity
from qmgrd.core.access.user import User
from qmgrd.core.context.context import Context


class Bindings:
    """The bound users.

    Invariant: a user is bound to at most one queue manager, and a queue manager to one user.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._users: dict[str, str] = {}  # user by queue manager
        self._managers: dict[str, str] = {}  # queue manager by user

    def bind(self, user: User) -> None:
        """Binds *user* to the queue manager in its row, if any."""
        if user.queue_manager:
            self._users[user.queue_manager] = user.name
            self._managers[user.name] = user.queue_manager

    def unbind(self, user: User) -> None:
        """Ends the binding in the row of *user*, if any."""
        if user.queue_manager:
            del self._users[user.queue_manager], self._managers[user.name]

    def check(self, user: User, manager: str) -> str:
        """Returns *manager*, to which *user* may be bound. "" unbinds it.

        Raises:
            RequestError: NAME_INVALID. VALUE_INVALID if another user is bound to *manager*.
        """
        other = self._users.get(names.check(manager)) if manager else None
        if other not in (None, user.name):
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"user {other} is already bound to queue manager {manager}; unbind it first",
            )
        return manager

    def user_of(self, manager: str) -> str:
        """Returns the user that is bound to a queue manager, or ""."""
        return self._users.get(manager, "")

    def admit(self, connection: int, hello: m.Hello, identity: Identity) -> bool:
        """Returns whether a connection may have the role and the name in its hello.

        Otherwise, closes the connection and counts the refusal. A user can invent names, so a name
        without a user counts as the queue manager to which the user of the connection is bound.
        """
        error, name = None, hello.name
        if hello.role == Role.QUEUE_MANAGER.value:
            error = self.impostor(identity.user, name)
        if error is not None:
            counted = name if name in self._users else self._managers[identity.user]
            self._context.peers.refuse(counted, hello.store_id, error)
            self._context.close(connection, error.code, error.text)
        return error is None

    def impostor(self, user: str, manager: str) -> RequestError | None:
        """Returns PEER_USER_WRONG if *user* may not act as the queue manager *manager*, or None.

        Rights are not checked. The owner of the daemon has no user, and may act as everybody.
        """
        bound, rightful = self._managers.get(user), self._users.get(manager)
        if not user or bound == manager or not (bound or rightful):
            return None
        reason = f"it is bound to {bound}" if bound else f"user {rightful} is bound to {manager}"
        remedy = f"log in as {rightful}" if rightful else f"bind user {user} to {manager[:80]}"
        return RequestError(
            ErrorCode.PEER_USER_WRONG,
            f"user {user} may not act as queue manager {manager[:80]}, because {reason}; {remedy}",
        )
