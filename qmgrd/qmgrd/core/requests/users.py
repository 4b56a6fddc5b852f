"""Handles administrators' requests about users, roles and grants."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.need import Kind
from qmgrd.core.access import grant as grants
from qmgrd.core.access.access import Access
from qmgrd.core.access.grant import Grant
from qmgrd.core.access.login import OPEN
from qmgrd.core.access.user import User
from qmgrd.core.access.users import Users
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.requests.rights import Guard
from qmgrd.core.sessions.connection import Connections
from qmgrd.core.sessions.page import page, shown
from qmgrd.core.sessions.session import Session
from qmgrd.core.sessions.streams import Streams


class UserAdmin:
    """Handles requests about users, roles and grants. Holds no state."""

    def __init__(
        self,
        context: Context,
        catalogue: Catalogue,
        users: Users,
        streams: Streams,
        connections: Connections,
        guard: Guard,
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._users = users
        self._streams = streams
        self._connections = connections
        self._guard = guard

    def user_create(self, session: Session, message: m.UserCreate) -> None:
        """Creates a user. The first one closes all connections that did not log in."""
        was_open = self._users.is_open
        user = self._users.create(message.user, message.attributes)
        self._note(session, "user created", user=user.name, roles=list(user.roles))
        self._context.reply(session.connection, message.request_id, self._users.describe(user))
        if was_open:
            why = "users exist now: log in"
            self._connections.close_all(
                lambda other: other.identity == OPEN, ErrorCode.LOGIN_REQUIRED, why
            )

    def user_alter(self, session: Session, message: m.UserAlter) -> None:
        """Changes a user. A new password, or disabling the user, closes its connections."""
        user, is_cut_off = self._users.alter(message.user, message.attributes)
        self._note(session, "user altered", user=user.name, changed=sorted(message.attributes))
        row = self._users.describe(user)
        closed = self._cut_off(user.name) if is_cut_off else 0
        self._context.reply(session.connection, message.request_id, row | {"connections": closed})

    def user_delete(self, session: Session, message: m.UserDelete) -> None:
        """Deletes a user and closes its connections."""
        user = self._users.delete(message.user)
        self._note(session, "user deleted", user=user.name)
        row = self._users.describe(user)
        closed = self._cut_off(user.name)
        self._context.reply(session.connection, message.request_id, row | {"connections": closed})

    def _cut_off(self, user: str) -> int:
        why = f"user {user} was deleted or disabled, or has a new password"
        return self._connections.close_all(
            lambda other: other.identity.user == user, ErrorCode.LOGIN_REQUIRED, why
        )

    def user_list(self, session: Session, message: m.UserList) -> None:
        """Lists a page of users in the order of names."""
        is_shown = session.shown(Kind.USER)
        names, further = page(self._users.names(), message.after, message.limit, is_shown)
        rows, further = shown(names, further, self._row, self._context.budget)
        self._context.count_read(len(rows), 0)
        self._context.reply(
            session.connection, message.request_id, {"users": rows, "next": further}
        )

    def _row(self, name: str) -> dict[str, Any]:
        return self._users.describe(self._users.find(name))

    def user_show(self, session: Session, message: m.UserShow) -> None:
        """Shows a user, with the present use of its limits."""
        user = self._users.find(message.user)
        row = self._users.describe(user, with_secrets=message.secrets) | {"use": self._use(user)}
        self._context.reply(session.connection, message.request_id, row)

    def _use(self, user: User) -> dict[str, int]:
        """Returns the present use of each limit that counts something."""
        access, owner = self._users.accesses[user.name], user.owner
        self._context.count_read(len(access.sessions), 0)
        return {
            "connections": len(access.sessions),
            "streams": access.streams,
            "producers": self._streams.owners.count(owner),
            "consumers": access.consumers,
            "queues": self._catalogue.owned[owner],
            "subscriptions": len(self._catalogue.topics.owned.get(owner, ())),
            "stored_bytes": access.stored.bytes,
            "unread_bytes": sum(map(self._context.unread_replies.unsent_of, access.sessions)),
        }

    def role_create(self, session: Session, message: m.RoleCreate) -> None:
        """Creates a role without grants."""
        self._users.create_role(message.role)
        self._note(session, "role created", role=message.role)
        self._context.reply(
            session.connection, message.request_id, self._users.describe_role(message.role)
        )

    def role_delete(self, session: Session, message: m.RoleDelete) -> None:
        """Deletes a role that no user has."""
        row = self._users.delete_role(message.role)
        self._note(session, "role deleted", role=message.role)
        self._context.reply(session.connection, message.request_id, row)

    def role_list(self, session: Session, message: m.RoleList) -> None:
        """Lists the roles in the order of names."""
        names = [name for name in self._users.role_names() if session.shows(Kind.ROLE, name)]
        holders = self._users.role_holders()
        rows = [self._users.describe_role(name, holders) for name in names]
        self._context.count_read(len(rows), 0)
        self._context.reply(session.connection, message.request_id, {"roles": rows})

    def role_show(self, session: Session, message: m.RoleShow) -> None:
        """Shows a role."""
        self._context.reply(
            session.connection, message.request_id, self._users.describe_role(message.role)
        )

    def grant_create(self, session: Session, message: m.GrantCreate) -> None:
        """Grants rights. They are in force from now on, also on open connections."""
        subject, is_role, found = self._grants(message)
        after = self._users.grant(subject, found, is_role=is_role)
        self._granted(session, message, after, is_role=is_role)

    def grant_delete(self, session: Session, message: m.GrantDelete) -> None:
        """Revokes rights. They are no longer in force, also on open connections."""
        subject, is_role, found = self._grants(message)
        after = self._users.revoke(subject, found, is_role=is_role)
        self._granted(session, message, after, is_role=is_role)

    def _grants(self, message: m.GrantCreate | m.GrantDelete) -> tuple[User, bool, list[Grant]]:
        if bool(message.user) == bool(message.role):
            raise RequestError(ErrorCode.VALUE_INVALID, "give either a user or a role")
        if not message.rights:
            raise RequestError(ErrorCode.VALUE_INVALID, "give at least one right")
        found = [grants.check(right, message.kind, message.pattern) for right in message.rights]
        if message.role:
            return self._users.find_role(message.role), True, found
        return self._users.find(message.user), False, found

    def _granted(
        self,
        session: Session,
        message: m.GrantCreate | m.GrantDelete,
        after: User,
        *,
        is_role: bool,
    ) -> None:
        event = "rights granted" if isinstance(message, m.GrantCreate) else "rights revoked"
        self._note(
            session,
            event,
            **{"role" if is_role else "user": after.name},
            rights=message.rights,
            kind=message.kind,
            pattern=message.pattern,
        )
        describe = self._users.describe
        row = self._users.describe_role(after.name) if is_role else describe(after)
        self._context.reply(session.connection, message.request_id, row)

    def access_explain(self, session: Session, message: m.AccessExplain) -> None:
        """Explains which grants decide on a request.

        Raises:
            RequestError: PEER_USER_WRONG if the user may not act as the queue manager in the
                request. See also Guard.explain.
        """
        user = self._users.find(message.user)
        access = self._users.accesses.get(user.name) or Access(user.name)
        manager = str(message.values.get("manager") or user.queue_manager or user.name)
        decisions = self._guard.explain(access, message, manager)
        if any(x["kind"] == Kind.PEER.value for x in decisions):
            error = self._users.bindings.impostor(user.name, manager)
            if error is not None:
                raise error
        value = {
            "user": user.name,
            "enabled": user.is_enabled,
            "operation": message.operation,
            "allowed": user.is_enabled and all(x["allowed"] for x in decisions),
            "decisions": decisions,
        }
        self._context.reply(session.connection, message.request_id, value)

    def _note(self, session: Session, event: str, **facts: Any) -> None:
        """Logs a change with the user who made it."""
        self._context.note("info", event, **facts, by=session.by)
