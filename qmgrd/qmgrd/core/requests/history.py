"""Handles requests about history, from exports (each with a cursor) and from operators."""

from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.name import is_name
from qmgrd.core.context.context import Context
from qmgrd.core.queue.history import Cursor, History, facts_of
from qmgrd.core.sessions.session import Session

CURSORS_MAX = 100
READ_MAX_BYTES = 1 << 20


class HistoryAdmin:
    """Handles requests about the history."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._history = context.history

    def history_read(self, session: Session, message: m.HistoryRead) -> None:
        """Sends rows of history to an export."""
        context, history = self._context, self._history
        _check_position(history, message.after)
        until, bytes_max = message.until or history.next, min(message.bytes_max, READ_MAX_BYTES)
        found = list(history.read(context.tx, message.after, until, bytes_max))
        context.count_read(len(found), sum(len(row.data) for row in found))
        rows = [[row.seq, row.data] for row in found]
        self._context.reply(
            session.connection, message.request_id, self._identity() | {"rows": rows}
        )

    def history_show(self, session: Session, message: m.HistoryShow) -> None:
        """Sends the extent of the history and the list of its cursors."""
        history = self._history
        cursors = [self._row(name) for name in sorted(history.cursors)]
        self._context.reply(
            session.connection,
            message.request_id,
            self._identity() | facts_of(history) | {"cursors": cursors},
        )

    def cursor_commit(self, session: Session, message: m.CursorCommit) -> None:
        """Advances a cursor, or creates it if it does not exist."""
        history, name, context = self._history, message.cursor, self._context
        cursor = history.cursors.get(name)
        if cursor is None:
            _check_name(name)
            if len(history.cursors) >= CURSORS_MAX:
                raise RequestError(
                    ErrorCode.CURSORS_EXHAUSTED,
                    f"{CURSORS_MAX} export cursors exist, which is the limit: delete unused ones",
                )
            _check_position(history, message.position)
            cursor = history.cursors[name] = Cursor(message.position, context.now.wall_us)
        elif message.position >= history.next:
            _check_position(history, message.position)
        cursor.position = max(cursor.position, message.position)
        cursor.committed_us = context.now.wall_us
        history.store_cursor(context, name)
        self._context.reply(session.connection, message.request_id, self._row(name))

    def cursor_delete(self, session: Session, message: m.CursorDelete) -> None:
        """Deletes a cursor."""
        history, name = self._history, message.cursor
        if name not in history.cursors:
            raise RequestError(
                ErrorCode.CURSOR_UNKNOWN, f"export cursor {name[:80]!r} does not exist"
            )
        del history.cursors[name]
        history.store_cursor(self._context, name)
        self._context.reply(session.connection, message.request_id, None)

    def _identity(self) -> dict[str, Any]:
        context, history = self._context, self._history
        return {
            "manager": context.name,
            "store_id": context.store_id.hex(),
            "first": history.first,
            "next": history.next,
        }

    def _row(self, name: str) -> dict[str, Any]:
        """Returns the row of a cursor."""
        cursor, history = self._history.cursors[name], self._history
        waiting = history.next - 1 - max(cursor.position, history.first - 1)
        return {"cursor": name} | cursor.row() | {"waiting": waiting}


def _check_position(history: History, after: int) -> None:
    """Raises RequestError if the rows after *after* are deleted or were never written."""
    if after >= history.next:
        raise RequestError(
            ErrorCode.HISTORY_AHEAD,
            f"history row {after} was requested, but the last row is {history.next - 1}: the store "
            "was restored to an earlier state or replaced; start the export from scratch",
        )
    if after + 1 < history.first:
        raise RequestError(
            ErrorCode.HISTORY_DROPPED,
            f"history begins at row {history.first}; row {after + 1} was exported by all "
            "cursors or dropped at a limit: begin at row {history.first}, and use a cursor",
        )


def _check_name(name: str) -> None:
    if not is_name(name):
        raise RequestError(
            ErrorCode.VALUE_INVALID,
            f"{name[:80]!r} is not a valid name of an export cursor: use 1 to 64 of A-Z a-z 0-9 . "
            "_ -",
        )
