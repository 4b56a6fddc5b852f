"""What is asked about history and the export cursors that keep it, as in PROTOCOL.md."""

from typing import NamedTuple

__all__ = ["CursorCommit", "CursorDelete", "HistoryRead", "HistoryShow"]


class HistoryRead(NamedTuple):
    """Reads rows of history behind a number. OK value: {manager, store_id, first, next, rows}.

    after, until: numbers of rows: behind the one, up to and with the other; 0: all.
    bytes_max: of all rows together; the first comes however long it is.
    """

    request_id: int
    after: int = 0
    until: int = 0
    bytes_max: int = 1_048_576


class HistoryShow(NamedTuple):
    """Shows where the journal stands, and its cursors. OK value: its row."""

    request_id: int


class CursorCommit(NamedTuple):
    """Says that an export has all rows up to a number; makes its cursor if there is none.

    What is said again, or late, changes nothing. OK value: the cursor's row.
    """

    request_id: int
    cursor: str
    position: int


class CursorDelete(NamedTuple):
    """Forgets a cursor: nothing is kept for it any more. OK value: nil."""

    request_id: int
    cursor: str
