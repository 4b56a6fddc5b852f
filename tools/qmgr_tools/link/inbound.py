"""Tables of inbound links, of permissions and of refusals."""

from collections.abc import Mapping, Sequence
from typing import Any

from qmgr_tools.cli import humanize, output

ENDS_MAX = 13


def _ends(digits: object) -> str:
    """Returns the first and last digits of a long number, to distinguish it from others."""
    text = output.plain(digits)
    return text if len(text) <= ENDS_MAX else f"{text[:8]}…{text[-4:]}"


COLUMNS = (
    output.text("peer", "FROM"),
    output.count("commit_id"),
    output.count("ahead"),
    output.count("duplicates"),
    output.count("blocked_id", "BLOCKED AT"),
    output.text("blocked_queue", "BLOCKED QUEUE"),
    output.count("tries_left"),
    output.Column("stream", "STREAM", _ends),
    output.long_text("error"),
)


ALLOWED = (
    output.text("peer", "ALLOWED"),
    output.Column("store_id", "STORE", lambda digits: _ends(digits) or "at first connection"),
    output.Column("allowed_us", "SINCE", humanize.rfc3339),
    output.Column("seen_us", "LAST OPENED", humanize.rfc3339),
    output.long_text("error"),
)
REFUSED = (
    output.text("peer", "REFUSED"),
    output.Column("store_id", "STORE", _ends),
    output.text("code", "REASON"),
    output.count("count", "TIMES"),
    output.Column("last_us", "LAST", humanize.rfc3339),
    output.long_text("error"),
)


def show_allowed(found: Mapping[str, Any], *, after: object = None) -> None:
    """Prints the queue managers that may open links, and those that were refused.

    Args:
        found: The daemon's list of links, or its part about one queue manager.
        after: The previous output, as in :func:`show`.
    """
    for columns, rows in ((ALLOWED, found.get("allowed")), (REFUSED, found.get("refused"))):
        if not rows:
            continue
        if after:
            print()
        output.table(columns, rows)
        after = rows


def note_left_out(found: Mapping[str, Any]) -> None:
    """Writes the number of rows that the daemon's list omits to stderr."""
    for key, words in (("inbound", "inbound links"), ("allowed", "allowed queue managers")):
        left = found.get(f"{key}_count", 0) - len(found.get(key, ()))
        if left > 0:
            output.note(f"{left:,} more {words} are not shown")


def show(rows: Sequence[Mapping[str, Any]], *, after: object = None) -> None:
    """Prints a table of *rows* unless it is empty.

    Args:
        after: The previous output. If it is not empty, an empty line separates the table.
    """
    if not rows:
        return
    if after:
        print()
    output.table(COLUMNS, rows)
