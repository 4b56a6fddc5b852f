"""Lists the open connections for operators, and closes one on request."""

from collections.abc import Callable
from typing import Any, TypeAlias

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.context.context import Context
from qmgrd.core.sessions.page import page, shown
from qmgrd.core.sessions.session import Session

# A function that returns the fields of a connection that only the shell knows: its address, the
# number of bytes that wait for a turn, and the number of bytes that the peer has not read.
ConnectionFacts: TypeAlias = Callable[[int], dict[str, Any]]


def no_facts(connection: int) -> dict[str, Any]:
    """Returns no fields, for a shell without sockets."""
    del connection
    return {}


class Connections:
    """Handles requests about connections. Holds no state."""

    def __init__(
        self,
        context: Context,
        sessions: dict[int, Session],
        facts: ConnectionFacts,
        closed: Callable[[int, str], None],
    ) -> None:
        self._context = context
        self._sessions = sessions
        self._facts = facts
        self._closed = closed  # the function that releases everything that depends on a connection

    def connection_list(self, session: Session, message: m.ConnectionList) -> None:
        """Lists the connections in the order of their numbers, one page at a time."""
        numbers, further = page(sorted(self._sessions), message.after, message.limit)
        rows, further = shown(
            numbers, further, lambda number: self._row(self._sessions[number]), self._context.budget
        )
        value = {"connections": rows, "next": further}
        self._context.send(session.connection, m.Ok(message.request_id, value))

    def connection_close(self, session: Session, message: m.ConnectionClose) -> None:
        """Closes a connection as if its peer had closed it.

        Its leased messages return to their queues.
        """
        number = message.connection
        if number == session.connection:
            raise RequestError(
                ErrorCode.VALUE_INVALID, f"connection {number} is your own; disconnect to close it"
            )
        found = self._sessions.get(number)
        if found is None:
            raise RequestError(
                ErrorCode.CONNECTION_UNKNOWN, f"connection {number} does not exist or has ended"
            )
        row = self._row(found)
        why = f"closed by an operator of {self._context.name}"
        self._context.note("warning", why, connection=number, peer=found.name, by=session.name)
        self._context.close(number, ErrorCode.CANCELLED, why)
        self._closed(number, why)
        self._context.send(session.connection, m.Ok(message.request_id, row))

    def close_all(self, is_meant: Callable[[Session], bool], code: ErrorCode, why: str) -> int:
        """Closes the connections for which *is_meant* is true. Returns their number."""
        found = [session for session in self._sessions.values() if is_meant(session)]
        for session in found:
            self._context.close(session.connection, code, why)
            self._closed(session.connection, why)
        return len(found)

    def _row(self, session: Session) -> dict[str, Any]:
        self._context.count_read(1 + (len(session.consumers) + len(session.lessees)) // 10, 0)
        gets = sum(consumer.is_get for consumer in session.consumers.values())
        return {
            "connection": session.connection,
            "kind": _kind(session),
            "name": session.name,
            "user": session.identity.user,
            "software": session.software,
            "open_ms": self._context.now.ms - session.opened_ms,
            "consumers": len(session.consumers) - gets,
            "gets": gets,
            "units": len(session.units),
            "leased": sum(len(lessee.leases) for lessee in session.all_lessees()),
            "streams": len(session.streams),
        } | self._facts(session.connection)


def _kind(session: Session) -> str:
    if session.path is not None and not session.path.is_fetched:
        return "outbound"
    return "inbound" if session.store_id else "client"
