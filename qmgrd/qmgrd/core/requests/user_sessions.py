"""The connections of each user, which share the rights and the limits of the user."""

from functools import partial

from qmgrd.core.access.access import Access
from qmgrd.core.context.context import Context
from qmgrd.core.requests.audited import Auditor
from qmgrd.core.requests.rights import Guard
from qmgrd.core.sessions.session import Session


class UserSessions:
    """Adds connections to their users. Connections without a user are not affected."""

    def __init__(self, context: Context, guard: Guard, auditor: Auditor) -> None:
        self._context = context
        self._guard = guard
        self._auditor = auditor

    def admits(self, access: Access | None, connection: int) -> bool:
        """Returns whether a user may open another connection. Otherwise closes *connection*."""
        refusal = None if access is None else access.connection_refusal()
        if refusal is not None:
            self._context.close(connection, *refusal)
        return refusal is None

    def join(self, session: Session) -> None:
        """Applies the rights and the limits of its user to *session*."""
        access = session.access
        if access is None:
            return
        session.check_right = partial(
            self._guard.check_right,
            access,
            session.subscriptions,
            partial(self._auditor.refused_right, session),
        )
        access.sessions[session.connection] = session
        self._context.put_rates.watch(session.connection, access.put_rate)
        self._context.unread_replies.watch(session.connection, access.unread)

    def join_dialled(self, session: Session, manager: str) -> None:
        """Applies the rights of *manager*, which a link dialled, to the messages that it sends."""
        refused = partial(self._auditor.refused_right, session)
        session.check_right = partial(self._guard.check_fetched, manager, refused)

    def leave(self, session: Session) -> None:
        """Ends the use of the limits by *session*, which is closed."""
        if session.access is not None:
            session.access.sessions.pop(session.connection, None)
            self._context.put_rates.forget(session.connection)
            self._context.unread_replies.forget(session.connection)
