"""The login of a simulated connection, whose hello states the user without a password."""

from typing import TYPE_CHECKING

from qmgr_protocol import messages as m
from qmgr_protocol import scram
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.access.login import OWNER, Decision, Identity, Login, Welcomed

if TYPE_CHECKING:
    from tests.sim.node import Node

USER = "USER."  # prefix of the names of clients that log in, followed by the user


class KnownLogin(Login):
    """A login without a password. Clients that are not users may do everything."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    def owner(self, identity: Identity) -> str:
        user = self._node.turns.broker.users.users.get(identity.user)
        return user.owner if user is not None else identity.user

    def begin(self, hello: m.Hello, now_ms: int, session_of: object = None) -> Decision:
        users = self._node.turns.broker.users.users
        if hello.role == "queue-manager" and hello.name in users:
            bound = users[hello.name]
            return Welcomed(Identity(bound.name, scram.METHOD, bound.verifier))
        if not hello.name.startswith(USER):
            return Welcomed(OWNER)
        name = hello.name.removeprefix(USER)
        user = self._node.turns.broker.users.users.get(name)
        if user is None:
            return m.Goaway(ErrorCode.LOGIN_FAILED, "no such user")
        return Welcomed(Identity(name, scram.METHOD, user.verifier))
