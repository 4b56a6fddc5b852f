"""All users and roles, and the rights that follow from them.

    user row ─┬─ its grants ──────────────┐
              └─ its roles ─▶ their grants ┴─▶ Access, shared by all connections of the user

While no user exists, the queue manager is open: each connection over the unix socket or loopback
may do everything. The first user closes it, and must be an administrator. A mark in the store keeps
the queue manager closed even if the row of a user is damaged. Deleting the last user opens it.
"""

from collections import Counter
from dataclasses import replace
from typing import Any

from qmgr_protocol import name as names
from qmgr_protocol import verifier as verifiers
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import USER_LIMITS
from qmgr_protocol.need import Kind, Right
from qmgrd.core.access import user as rows_
from qmgrd.core.access.access import Access, RememberedDecisions
from qmgrd.core.access.bindings import Bindings
from qmgrd.core.access.grant import Grant, GrantTable, table_of
from qmgrd.core.access.login import OPEN, Identity
from qmgrd.core.access.role import ADMINISTRATOR, BUILT_IN
from qmgrd.core.access.user import GRANTS_MAX, ROLES_MAX, User
from qmgrd.core.access.user_limits import changed, in_force
from qmgrd.core.catalogue.near import nearest
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.owner import name_of

ROLES_EXIST_MAX = 1_000  # roles in addition to the built-in ones
_BUILT_IN = {name: table_of(role.grants) for name, role in BUILT_IN.items()}
ATTRIBUTES = ("verifier", "roles", "enabled", "queue_manager", *USER_LIMITS)


class Users:
    """The users and roles in the store.

    Invariant: ``accesses`` contains the access of each enabled user, and agrees with the stored
        rows. ``is_open`` is true if no user was created, or all were deleted.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._defaults = in_force(context.config.user_defaults, {})
        self.users: dict[str, User] = {}
        self.roles: dict[str, User] = {}
        self.accesses: dict[str, Access] = {}
        self._remembered = RememberedDecisions()
        # The grants of each role in ``roles``. All users of a role share its table, so that a
        # change of the role costs little even if many users have it.
        self._tables: dict[str, GrantTable] = {}
        self.changed: set[str] = set()  # users whose access changed, until the broker has checked
        self.bindings = Bindings(context)
        self._names: list[str] = []  # sorted names of users, or empty if they must be sorted again
        self.is_open = True

    def load(self) -> None:
        """Reads all users and roles. An invalid row is set aside, and grants nothing.

        Raises:
            RowDamaged: The checksum of a row is wrong.
        """
        context = self._context
        self.is_open = rows.find(context.tx, keys.GUARDED) is None
        for space, found in ((keys.SPACE_ROLE, self.roles), (keys.SPACE_USER, self.users)):
            for key, row in list(rows.scan(context.tx, space)):
                with context.aside.guard(context, key):
                    name = names.check(key[keys.REST].decode())
                    found[name] = rows_.decode(name, row)
        self._tables = {name: table_of(role.grants) for name, role in self.roles.items()}
        for user in self.users.values():
            self.bindings.bind(user)
            self._apply(user)

    # Reading

    def find(self, name: str) -> User:
        """Returns the user *name*.

        Raises:
            RequestError: USER_UNKNOWN.
        """
        found = self.users.get(name)
        if found is None:
            hint = _hint(name, self.users if self._context.gives_hints else ())
            raise RequestError(
                ErrorCode.USER_UNKNOWN, f"user {name[:80]} does not exist here{hint}"
            )
        return found

    def knows(self, identity: Identity) -> bool:
        """Returns whether a connection that logged in as *identity* may open now."""
        if not identity.user:
            return identity != OPEN or self.is_open
        user = self.users.get(identity.user)
        if user is None or not user.is_enabled:
            return False
        return identity.verifier is None or user.verifier == identity.verifier

    def of_owner(self, owner: str) -> Access:
        """Returns the access of *owner*, which has no rights if the user was deleted since."""
        found = self.accesses.get(name_of(owner))
        return found if found is not None and found.owner == owner else Access(name_of(owner))

    def of_manager(self, manager: str) -> Access | None:
        """Returns the access of the user that is bound to a queue manager, or None."""
        user = self.bindings.user_of(manager)
        return self.accesses[user] if user else None

    def find_role(self, name: str) -> User:
        """Returns the role *name*, which is not a built-in one.

        Raises:
            RequestError: ROLE_UNKNOWN. ROLE_EXISTS if the role is built in.
        """
        if name in BUILT_IN:
            raise RequestError(
                ErrorCode.ROLE_EXISTS, f"role {name} is built in and cannot be changed"
            )
        found = self.roles.get(name)
        if found is None:
            raise self._no_role(name)
        return found

    def names(self) -> list[str]:
        """Returns the names of all users in order."""
        if len(self._names) != len(self.users):
            self._names = sorted(self.users)
        return self._names

    def describe(self, user: User, *, with_secrets: bool = False) -> dict[str, Any]:
        """Returns the fields of a user for administrators and scripts."""
        row: dict[str, Any] = {
            "user": user.name,
            "enabled": user.is_enabled,
            "roles": list(user.roles),
            "grants": [grant.encode() for grant in user.grants],
            "has_password": user.verifier is not None,
            "created_us": user.created_us,
            "password_us": user.altered_us,
            "limits": in_force(self._context.config.user_defaults, user.limits)._asdict(),
            "given": [name for name in USER_LIMITS if name in user.limits],
            "queue_manager": user.queue_manager,
        }
        if with_secrets:
            row["verifier"] = "" if user.verifier is None else str(user.verifier)
        return row

    def role_holders(self) -> Counter[str]:
        """Returns the number of users that have each role."""
        return Counter(role for user in self.users.values() for role in user.roles)

    def describe_role(self, name: str, holders: Counter[str] | None = None) -> dict[str, Any]:
        """Returns the fields of the role *name*, which may be a built-in one.

        Args:
            name: The name of the role.
            holders: The result of :meth:`role_holders`, if the caller describes several roles.

        Raises:
            RequestError: ROLE_UNKNOWN.
        """
        built_in = BUILT_IN.get(name)
        if built_in is None and name not in self.roles:
            raise self._no_role(name)
        grants = built_in.grants if built_in is not None else self.roles[name].grants
        return {
            "role": name,
            "built_in": built_in is not None,
            "grants": [grant.encode() for grant in grants],
            "users": (self.role_holders() if holders is None else holders)[name],
        }

    def role_names(self) -> list[str]:
        """Returns the names of all roles in order."""
        return sorted((*BUILT_IN, *self.roles))

    # Changes

    def create(self, name: str, attributes: dict[str, Any]) -> User:
        """Creates the user *name*.

        Raises:
            RequestError: NAME_INVALID, VALUE_INVALID, USER_EXISTS, USERS_EXHAUSTED, ROLE_UNKNOWN.
                ADMINISTRATOR_REQUIRED if the first user could not administer the queue manager.
        """
        names.check(name)
        if name in self.users:
            raise RequestError(ErrorCode.USER_EXISTS, f"user {name} already exists")
        limit = self._context.config.auth.users_max
        if len(self.users) >= limit:
            raise _exhausted(amount(len(self.users), "user"), limit, "auth.users_max")
        now_us = self._context.now.wall_us
        number = self._context.ids.next()
        user = self._with(User(name, created_us=now_us, number=number), attributes)
        if self.is_open and not _can_administer(user):
            raise RequestError(
                ErrorCode.ADMINISTRATOR_REQUIRED,
                f"{name} would be the first user, so it needs a password and the role "
                f"{ADMINISTRATOR}: all connections must log in once a user exists",
            )
        self._put(user)
        if self.is_open:
            self.is_open = False
            rows.put(self._context.tx, keys.GUARDED, b"")
        return user

    def alter(self, name: str, attributes: dict[str, Any]) -> tuple[User, bool]:
        """Changes the user *name*. Returns whether its connections must close.

        They close if the user was disabled or its password was changed.

        Raises:
            RequestError: USER_UNKNOWN, VALUE_INVALID, ROLE_UNKNOWN, ADMINISTRATOR_REQUIRED.
        """
        before = self.find(name)
        after = self._with(before, attributes)
        self._check_administrators(before, after)
        if after != before:
            self._put(after)
        is_cut_off = after.verifier != before.verifier or not after.is_enabled
        return after, is_cut_off

    def delete(self, name: str) -> User:
        """Deletes the user *name*. The queue manager opens if this was the last user.

        Raises:
            RequestError: USER_UNKNOWN, ADMINISTRATOR_REQUIRED.
        """
        user = self.find(name)
        if len(self.users) > 1:
            self._check_administrators(user, None)
        del self.users[name]
        self.bindings.unbind(user)
        self._names = []
        access = self.accesses.pop(name, None)
        if access is not None:
            access.grant([], is_administrator=False)
        self.changed.add(name)
        self._delete(keys.SPACE_USER + name.encode())
        if not self.users:
            self.is_open = True
            self._delete(keys.GUARDED)
        return user

    def create_role(self, name: str) -> None:
        """Creates the role *name* without grants.

        Raises:
            RequestError: NAME_INVALID, ROLE_EXISTS, USERS_EXHAUSTED.
        """
        names.check(name)
        if name in self.roles or name in BUILT_IN:
            raise RequestError(ErrorCode.ROLE_EXISTS, f"role {name} already exists")
        if len(self.roles) >= ROLES_EXIST_MAX:
            raise _exhausted(amount(len(self.roles), "role"), ROLES_EXIST_MAX)
        self._put_role(User(name, created_us=self._context.now.wall_us))

    def delete_role(self, name: str) -> dict[str, Any]:
        """Deletes the role *name*, which no user has. Returns its fields.

        Raises:
            RequestError: ROLE_UNKNOWN, ROLE_EXISTS if it is built in, ROLE_IN_USE.
        """
        self.find_role(name)
        row = self.describe_role(name)
        if row["users"]:
            count = amount(row["users"], "user")
            raise RequestError(ErrorCode.ROLE_IN_USE, f"role {name} is given to {count}")
        del self.roles[name], self._tables[name]
        self._delete(keys.SPACE_ROLE + name.encode())
        return row

    def grant(self, subject: User, grants: list[Grant], *, is_role: bool) -> User:
        """Adds *grants* to a user or a role. Returns the user or role after the change.

        Raises:
            RequestError: USERS_EXHAUSTED.
        """
        after = subject.with_grants(grants)
        if len(after.grants) > GRANTS_MAX:
            raise _exhausted(f"{len(after.grants)} grants of {subject.name}", GRANTS_MAX)
        self._put_subject(after, is_role=is_role)
        return after

    def revoke(self, subject: User, grants: list[Grant], *, is_role: bool) -> User:
        """Takes *grants* from a user or a role. Returns the user or role after the change.

        Raises:
            RequestError: GRANT_UNKNOWN if one of the grants does not exist. None is then revoked.
        """
        for grant in grants:
            if grant not in subject.grants:
                noun = "role" if is_role else "user"
                shown = " ".join(filter(None, grant.encode()))
                raise RequestError(
                    ErrorCode.GRANT_UNKNOWN, f"{noun} {subject.name} has no grant {shown}"
                )
        after = subject.without_grants(grants)
        self._put_subject(after, is_role=is_role)
        return after

    # Storing

    def _with(self, user: User, attributes: dict[str, Any]) -> User:
        """Returns *user* with these *attributes*, which a client sent."""
        for name, value in attributes.items():
            if name == "verifier" and type(value) is str:
                verifier = verifiers.parse(value) if value else None
                now_us = self._context.now.wall_us
                user = replace(user, verifier=verifier, altered_us=now_us)
            elif name == "roles" and type(value) is list:
                user = replace(user, roles=self._roles(value))
            elif name == "enabled" and type(value) is bool:
                user = replace(user, is_enabled=value)
            elif name in USER_LIMITS:
                user = replace(user, limits=changed(user.name, user.limits, name, value))
            elif name == "queue_manager" and type(value) is str:
                user = replace(user, queue_manager=self.bindings.check(user, value))
            else:
                raise RequestError(
                    ErrorCode.VALUE_INVALID,
                    f"a user has no attribute {name[:80]!r} of this type; the attributes are: "
                    f"{', '.join(ATTRIBUTES)}",
                )
        return user

    def _roles(self, value: list[Any]) -> tuple[str, ...]:
        found = tuple(dict.fromkeys(str(role) for role in value))
        if len(found) > ROLES_MAX:
            raise _exhausted(f"{len(found)} roles of a user", ROLES_MAX)
        for role in found:
            if role not in BUILT_IN and role not in self.roles:
                raise self._no_role(role)
        return found

    def _no_role(self, name: str) -> RequestError:
        hint = _hint(name, self.role_names())
        return RequestError(ErrorCode.ROLE_UNKNOWN, f"role {name[:80]} does not exist{hint}")

    def _check_administrators(self, before: User, after: User | None) -> None:
        """Raises if *before* is the last administrator, and *after* is none."""
        if not _can_administer(before) or (after is not None and _can_administer(after)):
            return
        if not any(_can_administer(x) for x in self.users.values() if x is not before):
            raise RequestError(
                ErrorCode.ADMINISTRATOR_REQUIRED,
                f"{before.name} is the only user that can administer {self._context.name}",
            )

    def _put_subject(self, subject: User, *, is_role: bool) -> None:
        if is_role:
            self._put_role(subject)
        else:
            self._put(subject)

    def _put(self, user: User) -> None:
        if user.name not in self.users:
            self._names = []
        before = self.users.get(user.name, User(user.name))
        self.users[user.name] = user
        self.bindings.unbind(before)
        self.bindings.bind(user)
        if before.queue_manager != user.queue_manager:
            # Others may have lost the right to act as the queue manager.
            self.changed.update(self.users)
        self._store(keys.SPACE_USER + user.name.encode(), user)
        self._apply(user)

    def _put_role(self, role: User) -> None:
        self.roles[role.name] = role
        self._store(keys.SPACE_ROLE + role.name.encode(), role)
        is_new = role.name not in self._tables
        table = self._tables.setdefault(role.name, {})
        table.clear()
        table.update(table_of(role.grants))
        for user in self.users.values():
            if role.name not in user.roles:
                continue
            if is_new:  # The row of the role was damaged at the start.
                self._apply(user)
            self.accesses[user.name].forget()
            self.changed.add(user.name)

    def _store(self, key: bytes, subject: User) -> None:
        rows.put(self._context.tx, key, subject.encode())
        self._context.wrote = True

    def _delete(self, key: bytes) -> None:
        self._context.tx.delete(key)
        self._context.wrote = True

    def _limit(self, access: Access, user: User) -> None:
        """Applies the limits of *user*, also to its open connections."""
        limits = self._defaults
        if user.limits:
            limits = in_force(self._context.config.user_defaults, user.limits)
        access.limit(limits)
        for connection in access.sessions:
            self._context.put_rates.watch(connection, access.put_rate)
            self._context.unread_replies.watch(connection, access.unread)

    def _apply(self, user: User) -> None:
        """Gives the access of *user* the rights of its grants and roles."""
        access = self.accesses.get(user.name)
        if access is None:
            owner = user.owner
            stored = self._context.totals.stored_by(owner)
            access = Access(user.name, owner, self._remembered, stored)
            self.accesses[user.name] = access
        self.changed.add(user.name)
        self._limit(access, user)
        if not user.is_enabled:
            access.grant([], is_administrator=False)
            return
        grants: tuple[Grant, ...] = user.grants
        tables = []
        for name in user.roles:
            if name in BUILT_IN:
                tables.append(_BUILT_IN[name])
                if BUILT_IN[name].is_peer:
                    grants += peer_grants(user.queue_manager or user.name)
            elif name in self._tables:  # A damaged role may be set aside.
                tables.append(self._tables[name])
        access.grant(grants, tables, is_administrator=ADMINISTRATOR in user.roles)


def peer_grants(name: str) -> tuple[Grant, ...]:
    """Returns the grants of a user with the role of a peer: links as the queue manager *name*."""
    return Grant(Right.LINK, Kind.PEER, name), Grant(Right.FETCH, Kind.PEER, name)


def _can_administer(user: User) -> bool:
    return user.is_enabled and user.verifier is not None and ADMINISTRATOR in user.roles


def _hint(name: str, known: Any) -> str:
    similar = nearest(name, known)
    return f"; did you mean {similar}?" if similar else ""


def _exhausted(have: str, limit: int, option: str = "") -> RequestError:
    where = f" ({option})" if option else ""
    return RequestError(ErrorCode.USERS_EXHAUSTED, f"{have}, and the limit is {limit}{where}")
