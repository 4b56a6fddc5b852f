"""Findings about a link that is stopped or cannot connect."""

from typing import Any

from qmgr_config.units import SECOND_MS
from qmgr_tools.cli.failure import one_line
from qmgr_tools.cli.humanize import duration, messages, size
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity
from qmgr_tools.link.doctor.refused import address_of

Row = dict[str, Any]
DOWN_LONG_MS = 10 * SECOND_MS  # longer than a restart of the peer
# Parts of error messages of the operating system and of daemons.
UNRESOLVED = (
    "Name or service not known",
    "Temporary failure in name resolution",
    "No address associated with hostname",
    "nodename nor servname",
)
REFUSED = ("Connection refused", "No such file or directory")
NO_QMGRD = "is it a qmgrd?"  # error if a connection was opened, but no welcome arrived
# At least one of these words is in each error of TLS (qmgr_protocol/tls.py).
TLS_WORDS = ("TLS", "certificate", "cannot read ", "the key in ")
CA_UNKNOWN = "does not know the CA"
SILENT = "received nothing for"  # error if a peer stops sending after the welcome
MAINTENANCE = "in maintenance: "  # error if the daemon runs with --maintenance
NEVER_DIALLED = "the link has no address: "  # error if, in addition, the peer never connected


def stopped(row: Row) -> Finding | None:
    """Returns the finding of a stopped link, or None if the link holds no messages."""
    waiting = int(row.get("waiting") or 0)
    if not waiting:
        return None
    link, held = row["link"], f"{messages(waiting)} ({size(row.get('waiting_bytes') or 0)})"
    return Finding(
        "stopped",
        Severity.WARNING,
        f"an operator stopped the link{_since(row)}; it holds {held}, stored safely",
        "The link stays stopped, even across restarts, until an operator starts it. Then it "
        "continues where it stopped.",
        (
            Choice(f"qmctl link start {link}", "sends all pending messages, exactly once"),
            Choice(f"qmctl link delete {link} --purge", f"loses {messages(waiting)}"),
        ),
    )


def _since(row: Row) -> str:
    down_ms = row.get("down_ms")  # not longer than the uptime of the daemon
    return "" if down_ms is None else f", and it has been down for {duration(down_ms)}"


def down(row: Row) -> Finding:
    """Returns the finding of a link that waits or connects."""
    waiting, down_ms = int(row.get("waiting") or 0), int(row.get("down_ms") or 0)
    attempts = int(row.get("attempts") or 0)
    is_bad = bool(waiting) and down_ms >= DOWN_LONG_MS
    error = one_line(str(row.get("error") or _path_error(row)))
    tried = f"{attempts:,} consecutive connection attempts failed" if attempts > 1 else ""
    redial_ms = row.get("redial_ms")
    again = "" if redial_ms is None else f"connects again in {duration(redial_ms)}"
    backlog = f"it holds {messages(waiting)}, stored safely" if waiting else "it holds no messages"
    if error.startswith(MAINTENANCE):
        return Finding(
            "down",
            Severity.CRITICAL if is_bad else Severity.WARNING,
            f"not connected because of maintenance; down for {duration(down_ms)}; {backlog}",
            "This daemon runs with --maintenance, so its links do not connect automatically.",
            (
                Choice("", "restart this daemon without --maintenance: the link continues"),
                Choice(f"qmctl link start {row['link']}", "connects once"),
            ),
        )
    if not row.get("addresses"):
        return _passive(row, error, f"down for {duration(down_ms)}; {backlog}", is_bad=is_bad)
    facts = [f"down for {duration(down_ms)}", error, tried, again, backlog]
    return Finding(
        "down",
        Severity.CRITICAL if is_bad else Severity.WARNING,
        "; ".join(filter(None, facts)),
        f"{_cause(row, error)} The link retries automatically, at growing intervals, and "
        "continues where it stopped.",
        _choices(row, error),
    )


def _choices(row: Row, error: str) -> tuple[Choice, ...]:
    link = row["link"]
    if _is_tls(error):
        how = "correct TLS where the error says, here (tls and [[link.logins]]) or at the other end"
        if CA_UNKNOWN in error:
            how = (
                "set tls.ca in the configuration of this daemon to the file of that CA, or set the "
                "fingerprint of the certificate in [[link.logins]], and restart the daemon"
            )
        return (Choice("", f"{how}: the link continues"),)
    status = Choice(
        f"qmctl -c {address_of(row)} status",
        "shows whether the peer can be reached; changes nothing",
    )
    start = Choice(f"qmctl link start {link}", "connects now; nothing is lost or duplicated")
    elsewhere = "continues at the new address; nothing is lost or duplicated"
    alter = f"qmctl link alter {link} HOST:PORT"
    if any(words in error for words in UNRESOLVED):
        return (Choice(alter, f"if the host name is misspelt: {elsewhere}"), start)
    return (status, start, Choice(alter, f"if the peer listens at another address: {elsewhere}"))


def _cause(row: Row, error: str) -> str:
    """Returns the probable cause of a daemon's *error*, "ADDRESS: REASON"."""
    link, of, all_of_them = row["link"], error.partition(": ")[0], ", ".join(row["addresses"])
    at = of if of in row["addresses"] else all_of_them
    if _is_tls(error):
        return f"TLS with {at} fails, for the reason in the error."
    if any(words in error for words in UNRESOLVED):
        return (
            f"The host name in {at} cannot be resolved. It is misspelt, or the name service does "
            "not answer."
        )
    if any(words in error for words in REFUSED):
        return f"{link} does not listen at {at}. It does not run, or has another address."
    # A connection attempt that fails ends earlier, with an error.
    is_mute = not error and row.get("state") == "dialling"
    if NO_QMGRD in error or (is_mute and int(row.get("down_ms") or 0) >= DOWN_LONG_MS):
        return (
            f"The program at {at} accepts the connection, but does not answer like qmgrd. It hangs "
            "or is another program, or accepts only TLS (tls:HOST:PORT)."
        )
    if SILENT in error:
        return f"{link} stopped sending. It hangs, or the network loses its messages."
    return (
        f"{link} does not answer at {all_of_them}. It does not run, cannot be reached, or has "
        "another address."
    )


def _is_tls(error: str) -> bool:
    """Returns whether TLS caused a daemon's *error*, "ADDRESS: REASON"."""
    address, _, reason = error.partition(": ")
    return address.startswith("tls:") and any(words in reason for words in TLS_WORDS)


def _passive(row: Row, error: str, facts: str, *, is_bad: bool) -> Finding:
    """Returns the finding of a link without addresses, which waits for its peer to connect."""
    link = row["link"]
    was_connected = error and not error.startswith(NEVER_DIALLED)
    state = f"{link} lost its connection: {error}" if was_connected else f"{link} has not connected"
    return Finding(
        "down",
        Severity.CRITICAL if is_bad else Severity.WARNING,
        f"{state}; this link has no address; {facts}",
        f"{link} does not run or cannot reach this queue manager, or its link is stopped or does "
        f"not fetch. This link waits until {link} connects.",
        (
            Choice("", f"check the other end: run qmctl link doctor at {link}"),
            Choice(
                f"qmctl link alter {link} HOST:PORT",
                f"only if this queue manager can reach {link}: connects to that address instead of "
                "waiting; nothing is lost or duplicated",
            ),
        ),
    )


def _path_error(row: Row) -> str:
    return next((p["error"] for p in row.get("paths") or [] if p.get("error")), "")
