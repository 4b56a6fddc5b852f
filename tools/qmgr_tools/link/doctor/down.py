"""A link that is stopped, or dials and is not up."""

from typing import Any

from qmgr_config.units import SECOND_MS
from qmgr_tools.cli.failure import one_line
from qmgr_tools.cli.humanize import counted, duration, messages, size
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity
from qmgr_tools.link.doctor.refused import address_of

Row = dict[str, Any]
DOWN_LONG_MS = 10 * SECOND_MS  # A peer that is started anew is back by then.
# Of errors of the system, and of a daemon about who was dialled.
UNRESOLVED = (
    "Name or service not known",
    "Temporary failure in name resolution",
    "No address associated with hostname",
    "nodename nor servname",
)
REFUSED = ("Connection refused", "No such file or directory")
NO_QMGRD = "is it a qmgrd?"  # said where a connection stood, and no welcome came
SILENT = "nothing heard for"  # by one that had welcomed
MAINTENANCE = "in maintenance: "  # as a daemon says it that was started for an operator
NEVER_DIALLED = "it has no address: "  # as a daemon says it, where nobody was there to leave


def stopped(row: Row) -> Finding | None:
    """Return the finding of a link that somebody stopped, where messages wait on it."""
    waiting = int(row.get("waiting") or 0)
    if not waiting:
        return None
    link, held = row["link"], f"{messages(waiting)} ({size(row.get('waiting_bytes') or 0)})"
    return Finding(
        "stopped",
        Severity.WARNING,
        f"somebody stopped it{_since(row)}; {held} on it, safe here",
        "It stays so, over restarts too, until somebody starts it. It goes on where it was.",
        (
            Choice(f"qmctl link start {link}", "all of them go, once and only once"),
            Choice(f"qmctl link delete {link} --purge", f"loses {messages(waiting)}"),
        ),
    )


def _since(row: Row) -> str:
    down_ms = row.get("down_ms")  # Since then it is down, or the daemon runs.
    return "" if down_ms is None else f", and it is down for {duration(down_ms)}"


def down(row: Row) -> Finding:
    """Return the finding of a link that waits, dials or opens."""
    waiting, down_ms = int(row.get("waiting") or 0), int(row.get("down_ms") or 0)
    attempts = int(row.get("attempts") or 0)
    is_bad = bool(waiting) and down_ms >= DOWN_LONG_MS
    error = one_line(str(row.get("error") or _told_by_paths(row)))
    tried = f"{counted(attempts, 'dial')} in a row led nowhere" if attempts > 1 else ""
    redial_ms = row.get("redial_ms")
    again = "" if redial_ms is None else f"dials again in {duration(redial_ms)}"
    backlog = f"{messages(waiting)} on it, safe here" if waiting else "nothing waits on it"
    if error.startswith(MAINTENANCE):
        return Finding(
            "down",
            Severity.CRITICAL if is_bad else Severity.WARNING,
            f"it is not dialled in maintenance; down for {duration(down_ms)}; {backlog}",
            "The daemon here runs with --maintenance, and so dials no link by itself.",
            (
                Choice("", "restart the daemon here without --maintenance: the link goes on"),
                Choice(f"qmctl link start {row['link']}", "dials once"),
            ),
        )
    if not row.get("addresses"):
        return _undialled(row, error, f"down for {duration(down_ms)}; {backlog}", is_bad=is_bad)
    said = [f"down for {duration(down_ms)}", error, tried, again, backlog]
    return Finding(
        "down",
        Severity.CRITICAL if is_bad else Severity.WARNING,
        "; ".join(filter(None, said)),
        f"{_unanswered(row, error)} The link dials by itself, at longer and longer intervals, and "
        "goes on where it was.",
        _ways(row, error),
    )


def _ways(row: Row, error: str) -> tuple[Choice, ...]:
    link = row["link"]
    status = Choice(
        f"qmctl -c {address_of(row)} status",
        "changes nothing: tells whether it can be reached; start it if it does not run",
    )
    start = Choice(f"qmctl link start {link}", "dials now; nothing is lost or doubled")
    elsewhere = "goes on there; nothing is lost or doubled"
    alter = f"qmctl link alter {link} HOST:PORT"
    if any(words in error for words in UNRESOLVED):
        return (Choice(alter, f"if the name is misspelt: {elsewhere}"), start)
    return (status, start, Choice(alter, f"if it listens elsewhere: {elsewhere}"))


def _unanswered(row: Row, error: str) -> str:
    """Return what is to be thought of an *error*, as a daemon tells it: "ADDRESS: why"."""
    link, of, all_of_them = row["link"], error.partition(": ")[0], ", ".join(row["addresses"])
    at = of if of in row["addresses"] else all_of_them
    if any(words in error for words in UNRESOLVED):
        return (
            f"The host of {at} is not known by that name here: it is misspelt, or the name service "
            "does not answer. Nobody was dialled."
        )
    if any(words in error for words in REFUSED):
        return f"Nobody listens as {link} at {at}: it does not run, or listens elsewhere."
    # One that cannot connect gives up before that, and says so.
    is_mute = not error and row.get("state") == "dialling"
    if NO_QMGRD in error or (is_mute and int(row.get("down_ms") or 0) >= DOWN_LONG_MS):
        return (
            f"What answers at {at} takes the connection and says nothing, or not what a qmgrd "
            "says: it hangs, or is no qmgrd."
        )
    if SILENT in error:
        return f"{link} has gone silent: it hangs, or the network loses what it says."
    return (
        f"Nobody answers as {link} at {all_of_them}: it does not run, is not reached, or listens "
        "elsewhere."
    )


def _undialled(row: Row, error: str, said: str, *, is_bad: bool) -> Finding:
    """Return the finding of a link without an address: it is its peer that dials."""
    link = row["link"]
    was_here = error and not error.startswith(NEVER_DIALLED)
    gone = f"{link} dialled, and is gone: {error}" if was_here else f"{link} has not dialled"
    return Finding(
        "down",
        Severity.CRITICAL if is_bad else Severity.WARNING,
        f"{gone}; it has no address here; {said}",
        f"{link} does not run, does not reach this queue manager, or its link to here is stopped "
        "or does not fetch. It dials; this link waits for that.",
        (
            Choice("", f"look at {link}, at its link to here: qmctl link doctor, there"),
            Choice(
                f"qmctl link alter {link} HOST:PORT",
                f"only if {link} can be dialled from here: goes on there, and waits for its dials "
                "no more; nothing is lost or doubled",
            ),
        ),
    )


def _told_by_paths(row: Row) -> str:
    return next((p["error"] for p in row.get("paths") or [] if p.get("error")), "")
