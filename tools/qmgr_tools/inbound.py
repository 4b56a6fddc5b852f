"""Links of others that lead here, as qmctl shows them."""

from collections.abc import Sequence
from typing import Any

from qmgr_tools import output

ENDS_MAX = 13


def _ends(digits: object) -> str:
    """Return the ends of a long number, enough for people to tell two of them apart."""
    text = output.plain(digits)
    return text if len(text) <= ENDS_MAX else f"{text[:8]}…{text[-4:]}"


COLUMNS = (
    output.text("peer", "FROM"),
    output.count("commit_id"),
    output.count("ahead"),
    output.count("duplicates"),
    output.count("blocked_id", "BLOCKED AT"),
    output.text("blocked_queue", "BOUND FOR"),
    output.count("tries_left"),
    output.Column("stream", "STREAM", _ends),
    output.long_text("error"),
)


def show(rows: Sequence[dict[str, Any]], *, count: int = 0, behind: object = None) -> None:
    """Print a table of *rows*, if there are any, and how many of *count* are left off.

    Args:
        behind: what was printed before; where there was something, a line stays free.
    """
    if not rows:
        return
    if behind:
        print()
    output.table(COLUMNS, rows)
    if count > len(rows):
        output.note(f"{count - len(rows)} more that lead here are not shown")
