"""Links of others that lead here, as qmctl shows them."""

from collections.abc import Mapping, Sequence
from typing import Any

from qmgr_tools.cli import humanize as humane
from qmgr_tools.cli import output

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


ALLOWED = (
    output.text("peer", "ALLOWED"),
    output.Column("store_id", "STORE", lambda digits: _ends(digits) or "at first contact"),
    output.Column("allowed_us", "SINCE", humane.rfc3339),
    output.Column("seen_us", "LAST OPENED", humane.rfc3339),
    output.long_text("error"),
)
REFUSED = (
    output.text("peer", "REFUSED"),
    output.Column("store_id", "STORE", _ends),
    output.text("code", "WHY"),
    output.count("count", "TIMES"),
    output.Column("last_us", "LAST", humane.rfc3339),
)


def show_allowed(found: Mapping[str, Any], *, behind: object = None) -> None:
    """Prints who may open links to here, and who tried and may not.

    Args:
        found: what a daemon lists, or what of it concerns one queue manager.
        behind: as of :func:`show`.
    """
    for columns, rows in ((ALLOWED, found.get("allowed")), (REFUSED, found.get("refused"))):
        if not rows:
            continue
        if behind:
            print()
        output.table(columns, rows)
        behind = rows


def note_left_out(found: Mapping[str, Any]) -> None:
    """Write to stderr how many of what a daemon lists are not shown."""
    for key, words in (("inbound", "lead here"), ("allowed", "may open links to here")):
        left = found.get(f"{key}_count", 0) - len(found.get(key, ()))
        if left > 0:
            output.note(f"{left:,} more that {words} are not shown")


def show(rows: Sequence[Mapping[str, Any]], *, behind: object = None) -> None:
    """Print a table of *rows*, if there are any.

    Args:
        behind: what was printed before; where there was something, a line stays free.
    """
    if not rows:
        return
    if behind:
        print()
    output.table(COLUMNS, rows)
