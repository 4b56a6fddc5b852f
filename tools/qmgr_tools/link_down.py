"""A link that is stopped, or dials and is not up."""

from typing import Any

from qmgr_config.units import SECOND_MS
from qmgr_tools.failure import one_line
from qmgr_tools.humane import counted, duration, messages, size
from qmgr_tools.link_finding import Choice, Finding, Severity
from qmgr_tools.link_refused import address_of

Row = dict[str, Any]
DOWN_LONG_MS = 10 * SECOND_MS  # A peer that is started anew is back by then.
NEVER_DIALLED = "it has no address: "  # as a daemon says it, where nobody was there to leave


def stopped(row: Row) -> Finding | None:
    """Return the finding of a link that somebody stopped, where messages wait on it."""
    waiting = int(row.get("waiting") or 0)
    if not waiting:
        return None
    link, held = row["link"], f"{messages(waiting)} ({size(row.get('waiting_bytes') or 0)})"
    return Finding(
        "stopped", Severity.WARNING,
        f"somebody stopped it{_since(row)}; {held} on it, safe here",
        "It stays so, over restarts too, until somebody starts it. It goes on where it was.",
        (Choice(f"qmctl link start {link}", "all of them go, once and only once"),
         Choice(f"qmctl link delete {link} --purge", f"loses {messages(waiting)}")),
    )  # fmt: skip


def _since(row: Row) -> str:
    down_ms = row.get("down_ms")  # Since then it is down, or the daemon runs.
    return "" if down_ms is None else f", and it is down for {duration(down_ms)}"


def down(row: Row) -> Finding:
    """Return the finding of a link that waits, dials or opens."""
    waiting, down_ms = int(row.get("waiting") or 0), int(row.get("down_ms") or 0)
    attempts = int(row.get("attempts") or 0)
    link, address = row["link"], address_of(row)
    is_bad = bool(waiting) and down_ms >= DOWN_LONG_MS
    error = one_line(str(row.get("error") or _told_by_paths(row)))
    tried = f"{counted(attempts, 'dial')} in a row led nowhere" if attempts > 1 else ""
    redial_ms = row.get("redial_ms")
    again = "" if redial_ms is None else f"dials again in {duration(redial_ms)}"
    backlog = f"{messages(waiting)} on it, safe here" if waiting else "nothing waits on it"
    if not row.get("addresses"):
        return _undialled(row, error, f"down for {duration(down_ms)}; {backlog}", is_bad=is_bad)
    said = [f"down for {duration(down_ms)}", error, tried, again, backlog]
    return Finding(
        "down", Severity.CRITICAL if is_bad else Severity.WARNING,
        "; ".join(filter(None, said)),
        f"Nobody answers as {link} at {', '.join(row['addresses'])}: it does not "
        "run, is not reached, or listens elsewhere. The link dials by itself, at longer and "
        "longer intervals, and goes on where it was.",
        (Choice(f"qmctl -c {address} status",
                "changes nothing: tells whether it can be reached; start it if it does not run"),
         Choice(f"qmctl link start {link}", "dials now; nothing is lost or doubled"),
         Choice(f"qmctl link alter {link} HOST:PORT",
                "if it listens elsewhere: goes on there; nothing is lost or doubled")),
    )  # fmt: skip


def _undialled(row: Row, error: str, said: str, *, is_bad: bool) -> Finding:
    """Return the finding of a link without an address: it is its peer that dials."""
    link = row["link"]
    was_here = error and not error.startswith(NEVER_DIALLED)
    gone = f"{link} dialled, and is gone: {error}" if was_here else f"{link} has not dialled"
    return Finding(
        "down", Severity.CRITICAL if is_bad else Severity.WARNING,
        f"{gone}; it has no address here; {said}",
        f"{link} does not run, does not reach this queue manager, or its link to here is stopped "
        "or does not fetch. It dials; this link waits for that.",
        (Choice("", f"look at {link}, at its link to here: qmctl link doctor, there"),
         Choice(f"qmctl link alter {link} HOST:PORT",
                f"only if {link} can be dialled from here: goes on there, and waits for its dials "
                "no more; nothing is lost or doubled")),
    )  # fmt: skip


def _told_by_paths(row: Row) -> str:
    return next((p["error"] for p in row.get("paths") or [] if p.get("error")), "")
