# Generated from qmgr_client/aio/users_admin.py: do not edit.
# To update: pytest tests/qmgr_client/blocking/test_generator.py --rewrite

"""Administration of users, roles and grants, without asyncio."""

from collections.abc import Mapping, Sequence
from typing import Any

from qmgr_client.aio import admin as aio_admin
from qmgr_client.blocking.bridge import Bridge
from qmgr_client.rows import (
    AccessExplained,
    AccessVerdict,
    RoleRow,
    RulesListed,
    SubjectRow,
    UserChanged,
    UserRow,
)


class UsersAdmin(Bridge[aio_admin.Admin]):
    """The requests of administrators about users, roles and grants."""

    def user_create(
        self,
        user: str,
        password: str = "",
        *,
        verifier: str = "",
        roles: Sequence[str] = (),
        enabled: bool = True,
        limits: Mapping[str, int] | None = None,
        queue_manager: str = "",
    ) -> UserRow:
        """Creates a user and returns its row.

        The first user must have a password and the role ``administrator``. As soon as it exists,
        all clients must log in, except those of the daemon's own user over the unix socket.

        Args:
            user: The name of the user.
            password: The password. The client sends only a verifier of the password, from which
                nobody can derive the password. Without a password, the user cannot log in.
            verifier: A verifier from :meth:`user_show`, instead of a password.
            roles: The names of the user's roles.
            enabled: Whether the user may log in.
            limits: The limits of the user by name, such as ``{"connections_max": 10}``. 0 is
                unlimited. The other limits have the defaults of ``[user_defaults]``.
            queue_manager: The only queue manager as which the user may open links. No other user
                may act as it.

        Raises:
            RequestError: USER_EXISTS, NAME_INVALID, ROLE_UNKNOWN, USERS_EXHAUSTED,
                ADMINISTRATOR_REQUIRED, or VALUE_INVALID if the password has characters that are not
                allowed.
        """
        return self._call(
            self._aio.user_create(
                user,
                password,
                verifier=verifier,
                roles=roles,
                enabled=enabled,
                limits=limits,
                queue_manager=queue_manager,
            )
        )

    def user_alter(
        self,
        user: str,
        *,
        password: str | None = None,
        verifier: str | None = None,
        roles: Sequence[str] | None = None,
        enabled: bool | None = None,
        limits: Mapping[str, int | None] | None = None,
        queue_manager: str | None = None,
    ) -> UserChanged:
        """Changes attributes of a user. None keeps the value of an attribute.

        The connections of the user are closed if the password was changed or the user was disabled.
        Other changes are in force at once, also on open connections.

        Args:
            user: The name of the user.
            password: The new password, as in :meth:`user_create`. ``""`` removes the password.
            verifier: A verifier from :meth:`user_show`, instead of a password.
            roles: The names of all roles that the user has from now on.
            enabled: Whether the user may log in.
            limits: The limits to change, by name. None restores the default of
                ``[user_defaults]``. A limit below the present use closes and deletes nothing.
            queue_manager: As in :meth:`user_create`. ``""`` unbinds the user.

        Returns:
            The row of the user. Its ``connections`` is the number of closed connections.

        Raises:
            RequestError: USER_UNKNOWN, ROLE_UNKNOWN, VALUE_INVALID, or ADMINISTRATOR_REQUIRED if no
                administrator would be left.
        """
        return self._call(
            self._aio.user_alter(
                user,
                password=password,
                verifier=verifier,
                roles=roles,
                enabled=enabled,
                limits=limits,
                queue_manager=queue_manager,
            )
        )

    def user_delete(self, user: str) -> UserChanged:
        """Deletes a user and closes its connections.

        Returns:
            The row of the deleted user. Its ``connections`` is the number of closed connections.

        Raises:
            RequestError: USER_UNKNOWN, or ADMINISTRATOR_REQUIRED if other users exist, but none of
                them is an administrator.
        """
        return self._call(self._aio.user_delete(user))

    def user_list(self) -> list[UserRow]:
        """Returns the rows of all users, in the order of their names."""
        return self._call(self._aio.user_list())

    def user_show(self, user: str, *, secrets: bool = False) -> UserRow:
        """Returns the row of a user.

        Args:
            user: The name of the user.
            secrets: Whether the row contains the verifier of the user's password.

        Raises:
            RequestError: USER_UNKNOWN.
        """
        return self._call(self._aio.user_show(user, secrets=secrets))

    def role_create(self, role: str) -> RoleRow:
        """Creates a role without grants and returns its row.

        Raises:
            RequestError: ROLE_EXISTS, NAME_INVALID or USERS_EXHAUSTED.
        """
        return self._call(self._aio.role_create(role))

    def role_delete(self, role: str) -> RoleRow:
        """Deletes a role that no user has, and returns its row.

        Raises:
            RequestError: ROLE_UNKNOWN, ROLE_IN_USE, or ROLE_EXISTS if the role is built in.
        """
        return self._call(self._aio.role_delete(role))

    def role_list(self) -> list[RoleRow]:
        """Returns the rows of all roles, including the built-in ones, in the order of names."""
        return self._call(self._aio.role_list())

    def role_show(self, role: str) -> RoleRow:
        """Returns the row of a role.

        Raises:
            RequestError: ROLE_UNKNOWN.
        """
        return self._call(self._aio.role_show(role))

    def grant_create(
        self, rights: Sequence[str], kind: str, pattern: str = "", *, user: str = "", role: str = ""
    ) -> SubjectRow:
        """Grants rights to a user, or to all users with a role.

        The rights are in force at once, also on open connections.

        Args:
            rights: The names of the rights, such as ``["put", "get"]``.
            kind: The kind of objects, such as ``"queue"``.
            pattern: The names of the objects, such as ``"ORDERS.*"``. For topics, a filter. Empty
                for the kind ``"manager"``.
            user: The name of the user. Either *user* or *role* is required.
            role: The name of the role.

        Returns:
            The row of the user or of the role.

        Raises:
            RequestError: USER_UNKNOWN, ROLE_UNKNOWN, USERS_EXHAUSTED, NAME_INVALID, TOPIC_INVALID,
                ROLE_EXISTS if the role is built in, or VALUE_INVALID if a right does not exist for
                this kind.
        """
        return self._call(self._aio.grant_create(rights, kind, pattern, user=user, role=role))

    def grant_delete(
        self, rights: Sequence[str], kind: str, pattern: str = "", *, user: str = "", role: str = ""
    ) -> SubjectRow:
        """Revokes rights of a user, or of all users with a role.

        The arguments and the result are the same as in :meth:`grant_create`.

        Raises:
            RequestError: USER_UNKNOWN, ROLE_UNKNOWN, ROLE_EXISTS if the role is built in, or
                GRANT_UNKNOWN if one of the rights was not granted with this pattern. After an
                error, no right is revoked.
        """
        return self._call(self._aio.grant_delete(rights, kind, pattern, user=user, role=role))

    def access_explain(
        self, user: str, operation: str, values: Mapping[str, Any] | None = None
    ) -> AccessExplained:
        """Explains whether a user may send a request.

        Args:
            user: The name of the user.
            operation: The name of a request in PROTOCOL.md, such as ``"QueueMove"``.
            values: The fields of the request that name objects, such as ``{"queue": "ORDERS"}``.
                The daemon does not check fields without a value. For ``"LinkOpen"``, the value
                ``manager`` is the queue manager that sends the request.

        Raises:
            RequestError: USER_UNKNOWN, VALUE_INVALID if the request does not exist, or
                PEER_USER_WRONG if the user may not act as ``manager``.
        """
        return self._call(self._aio.access_explain(user, operation, values))

    def access_rules(self) -> RulesListed:
        """Returns the rules for logins, in their order."""
        return self._call(self._aio.access_rules())

    def access_test(
        self, address: str, user: str, method: str = "scram-sha-256", *, tls: str = "none"
    ) -> AccessVerdict:
        """Returns the decision of the rules about a login.

        Args:
            address: The address of the client, or ``"unix"``.
            user: The user, or ``""`` for a connection without a user.
            method: A method of the rules: ``scram-sha-256``, ``scram-sha-256-plus``,
                ``certificate``, ``token`` or ``open``.
            tls: ``"none"``, ``"required"`` for a connection with TLS, or ``"certificate"`` for a
                connection with a certificate of the client.

        Raises:
            RequestError: VALUE_INVALID.
        """
        return self._call(self._aio.access_test(address, user, method, tls=tls))
