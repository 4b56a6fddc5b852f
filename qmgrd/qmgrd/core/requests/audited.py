"""Records requests, logins and refusals in the audit, without secrets and bodies.

The rights that a request needs (qmgr_protocol/messages.py) decide whether it is recorded, and which
of its objects the record names. So a new request is recorded as soon as it is declared.
"""

import re
from dataclasses import replace
from typing import Any

from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgr_protocol.need import Audited, Kind, Need, Right, audited
from qmgrd.core.access.login import OPEN, OWNER, Identity
from qmgrd.core.access.rights import Needed, Rights
from qmgrd.core.access.users import Users
from qmgrd.core.context.audit_trail import OK, STRANGER, AuditRecord, shortened
from qmgrd.core.context.context import Context
from qmgrd.core.requests.rights import CHECKED, value_of
from qmgrd.core.sessions.request_part import Arrived, UnitPutPart
from qmgrd.core.sessions.session import Session

ITEMS_MAX = 20  # items of a list or map in a record
BYTES_MAX = 24  # bytes of a value in a record, such as the id of a group or a store
HIDDEN = "***"  # stands for a text attribute of a user, which may be a secret
_NO_SECRETS = {"queue_manager"}  # the text attributes of a user that are shown
LOGIN, LOGOUT = "Login", "Logout"
REFUSED = ErrorCode.NOT_AUTHORIZED.name
_URL_LOGIN = re.compile(r"(?<=://)[^/?#]*@")

# The needs of each recorded request that decide how it is recorded
NEEDS: dict[type[Arrived], tuple[Need, ...]] = {
    kind: found
    for kind, needs in CHECKED.items()
    if (found := tuple(need for need in needs if audited(need.right) is not Audited.NO))
}
AUDITED = frozenset(NEEDS)
# Requests that only operators have recorded. Most of them come from applications.
READS = frozenset(
    kind
    for kind, needs in NEEDS.items()
    if all(audited(need.right) is Audited.READS for need in needs)
)


class Auditor:
    """Records what users and operators do. Holds no state."""

    def __init__(self, context: Context, users: Users, rights: Rights) -> None:
        self._context = context
        self._trail = context.audit
        self._users = users
        self._rights = rights

    def begin_turn(self) -> None:
        """Decides whether this turn is recorded."""
        self._trail.is_on = self._is_on

    @property
    def _is_on(self) -> bool:
        when = self._context.config.audit.record
        return when == "always" or (when == "users" and not self._users.is_open)

    def begin(self, session: Session, message: Arrived) -> tuple[AuditRecord, Audited] | None:
        """Returns the record of a request before it is handled, or None if it has no record.

        Args:
            session: The session of the connection.
            message: A request of a kind in AUDITED.
        """
        if type(message) in READS and not (self._trail.is_on and _is_operator(session)):
            return None
        needs = NEEDS[type(message)]
        how, first = Audited.NO, None
        for need in needs:
            if need.when and not getattr(message, need.when):
                continue
            kind = audited(need.right)
            for needed in self._rights.needed(need, lambda x: value_of(message, x), session.name):
                if kind is Audited.READS and not self._is_read_by_operator(session, needed):
                    continue
                first = first or needed
                if how is Audited.NO or kind is Audited.EACH:
                    how = kind
        if first is None:
            return None
        detail = details(message, needs) if how is Audited.EACH else {}
        return self._record(type(message).__name__, session, first, detail=detail), how

    def end(self, begun: tuple[AuditRecord, Audited], session: Session, code: int) -> None:
        """Records a request that was handled. *code* is 0, or the code of its error."""
        record, how = begun
        trail = self._trail
        trail.is_on = trail.is_on or self._is_on  # The request may have created the first user.
        if code:  # The fields of a request that fails may be wrong, so they may be secrets.
            failed = replace(record, result=name_of(code), detail={})
            trail.count(failed, self._context.now)
        elif how is Audited.EACH:
            if _is_manager(session):
                trail.record(record)
            else:
                trail.record_few(record, self._context.now)
            self._context.count_read(1, 0)
        else:
            trail.count(record, self._context.now)

    def _is_read_by_operator(self, session: Session, needed: Needed) -> bool:
        """Returns whether a session reads messages without a grant that names them."""
        access = session.access
        return _is_operator(session) and (access is None or access.deciding(*needed[:3]) is None)

    def refused(self, session: Session, message: Arrived) -> None:
        """Records a request that was refused because its user lacks a right."""
        if isinstance(message, UnitPutPart):
            if message.first_index:
                return  # The first part of this request is recorded.
            message = message.put
        needed = None
        for need in CHECKED[type(message)]:
            found = self._rights.needed(need, lambda x: value_of(message, x), session.name)
            needed = needed or next(iter(found), None)
        self._refused(type(message).__name__, session, needed)

    def refused_right(self, session: Session, needed: Needed) -> None:
        """Records a message in a request or on a link, for which a user lacks a right."""
        self._refused(needed.right.value.capitalize(), session, needed)

    def _refused(self, action: str, session: Session, needed: Needed | None) -> None:
        # The user may get another error, which hides that the object exists.
        record = self._record(action, session, needed, result=REFUSED)
        self._trail.count(record, self._context.now)

    def snapshot_ended(self, session: Session | None, result: Any) -> None:
        """Records that a snapshot ended, with its manifest or a RequestError as *result*.

        The session is None if its connection has closed in the meantime.
        """
        code = name_of(result.code) if isinstance(result, RequestError) else OK
        record = AuditRecord("SnapshotEnd", kind=Kind.MANAGER.value, result=code)
        if session is not None:
            needed = Needed(Right.SNAPSHOT, Kind.MANAGER, "")
            record = self._record(record.action, session, needed, result=code)
        self._trail.record(record)

    def opened(self, session: Session) -> None:
        """Records a login, or a connection of the daemon's owner."""
        self._session(LOGIN, session)

    def closed(self, session: Session) -> None:
        """Records the end of a session with a user, or of the daemon's owner."""
        self._session(LOGOUT, session)

    def _session(self, action: str, session: Session) -> None:
        identity = session.identity
        if identity.user or identity in (OWNER, OPEN):
            self._trail.count(self._record(action, session, None), self._context.now)

    def login_refused(
        self, identity: Identity, address: str, client: str, code: int, why: str = ""
    ) -> None:
        """Records a login that failed, was delayed or was refused.

        Args:
            identity: The user that was claimed, and the method.
            address: The host at the other end, or "unix".
            client: The name that the other end claims.
            code: The code of the goodbye.
            why: The reason for operators, or "".
        """
        record = AuditRecord(
            LOGIN,
            shortened(identity.user),
            shortened(identity.method),
            address,
            shortened(client),
            result=name_of(code),
            detail={"why": shortened(why)} if why else {},
            priority=STRANGER,
        )
        self._trail.count(record, self._context.now)

    def _record(
        self,
        action: str,
        session: Session,
        needed: Needed | None,
        *,
        result: str = OK,
        detail: dict[str, Any] | None = None,
    ) -> AuditRecord:
        identity = session.identity
        return AuditRecord(
            action,
            identity.user,
            identity.method,
            session.address,
            shortened(session.name),
            session.connection,
            needed.kind.value if needed is not None else "",
            shortened(needed.alias or needed.name) if needed is not None else "",
            result,
            detail=detail or {},
        )


def _is_manager(session: Session) -> bool:
    """Returns whether a session may create every queue, as operators may, but not applications."""
    access = session.access
    return access is None or access.may(Right.CREATE, Kind.QUEUE, "*")


def _is_operator(session: Session) -> bool:
    """Returns whether a session may read messages without a grant."""
    access = session.access
    return session.identity == OWNER if access is None else access.is_administrator


def details(message: Any, needs: tuple[Need, ...]) -> dict[str, Any]:
    """Returns the fields of a request that differ from their defaults, without any secret.

    Bodies, records and long binary values are left out. Texts of users' attributes are hidden,
    because a verifier is one of them.
    """
    is_of_user = any(need.kind is Kind.USER for need in needs)
    left_out = {"request_id"} | {need.field for need in needs if not need.or_all}
    defaults = type(message)._field_defaults
    found: dict[str, Any] = {}
    for name, value in message._asdict().items():
        if name in left_out or value == defaults.get(name):
            continue
        if isinstance(value, dict):
            shown: Any = _attributes(value, is_of_user=is_of_user)
        elif isinstance(value, bytes):
            shown = value.hex() if len(value) <= BYTES_MAX else None
        else:
            shown = _shown(value)
        if shown is not None:
            found[name] = shown
    return found


def _attributes(values: dict[str, Any], *, is_of_user: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, value in list(values.items())[:ITEMS_MAX]:
        is_text = isinstance(value, str) and value != ""
        hides = is_of_user and is_text and name not in _NO_SECRETS
        shown[shortened(str(name))] = HIDDEN if hides else _shown(value)
    return shown


def _shown(value: Any) -> Any:
    """Returns a value of a request as JSON, shortened. Only texts, numbers and flags are shown."""
    if isinstance(value, str):
        return shortened(_URL_LOGIN.sub(f"{HIDDEN}@", value))
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, list):
        shown = [_shown(item) if isinstance(item, str) else HIDDEN for item in value[:ITEMS_MAX]]
        return shown if len(value) <= ITEMS_MAX else [*shown, f"and {len(value) - ITEMS_MAX} more"]
    return HIDDEN
