"""Finds the problems of all links in the rows of a daemon, without further requests."""

from typing import Any

from qmgr_tools.link.doctor import blocked as link_blocked
from qmgr_tools.link.doctor import down as link_down
from qmgr_tools.link.doctor import inbound as link_inbound
from qmgr_tools.link.doctor import refused as link_refused
from qmgr_tools.link.doctor import restored as link_restored
from qmgr_tools.link.doctor import running as link_running
from qmgr_tools.link.doctor.finding import Finding, worst
from qmgr_tools.link.doctor.measurement import Measurement

Row = dict[str, Any]


def diagnosis(
    found: Row, before: Row | None, passed_ms: int, now_us: int, named: str | None = None
) -> Row:
    """Returns the diagnosis as an object. "qmctl link doctor --help" describes the keys.

    Args:
        found: The outbound and inbound links, as the daemon lists them.
        before: The list from *passed_ms* earlier, or None.
        now_us: The time in microseconds since 1970.
        named: The only queue manager to examine, or None for all.
    """
    links = {str(row["link"]): row for row in found["links"]}
    refused = {str(row["peer"]): row for row in found.get("refused", ())}
    peers = {str(row["peer"]): None for row in found["inbound"]} | refused
    names = [named] if named else [*links, *(peer for peer in peers if peer not in links)]
    entries, verdicts = [], []
    for name in names:
        then = _of(before, "links", "link", name)
        measured = Measurement(links.get(name, {}), then, passed_ms)
        findings = findings_of(measured, now_us) if measured.row else []
        findings += filter(None, [link_restored.at_peer(measured.row, now_us)])
        inbound = [row for row in found["inbound"] if row["peer"] == name]
        for row in inbound:
            then = _of(before, "inbound", "stream", row.get("stream"))
            findings += link_inbound.found(row, then, passed_ms)
            findings += filter(None, [link_restored.here(row, now_us)])
        if name in refused:
            findings.append(link_inbound.refused(refused[name], now_us))
        findings.sort(key=lambda one: -one.severity)
        verdicts.append(worst(findings))
        entries.append(_entry(name, measured, findings, inbound))
    return {
        "verdict": max(verdicts).verdict if verdicts else "ok",
        "looked_ms": passed_ms if before else 0,
        "links": entries,
        "inbound_count": found.get("inbound_count", len(found["inbound"])),
    }


def findings_of(measured: Measurement, now_us: int) -> list[Finding]:
    """Returns the findings of an outbound link."""
    state, before = measured.row.get("state"), measured.before or {}
    is_same = before.get("commit_id") == measured.row.get("commit_id")
    if state == "up" and before.get("state") == "blocked" and is_same:
        return [link_blocked.found(before, now_us)]  # The link is up only for the next attempt.
    if state == "refused":
        return [link_refused.found(measured.row)]
    if state == "blocked":
        return [link_blocked.found(measured.row, now_us)]
    if state == "up":
        return link_running.found(measured)
    if state == "stopped":
        stopped = link_down.stopped(measured.row)
        return [stopped] if stopped else []
    return [link_down.down(measured.row)]


def _of(found: Row | None, rows: str, key: str, value: object) -> Row | None:
    return next((row for row in (found or {}).get(rows, ()) if row.get(key) == value), None)


def _entry(name: str, measured: Measurement, findings: list[Finding], inbound: list[Row]) -> Row:
    return {
        "link": name,
        "state": measured.row.get("state"),
        "verdict": worst(findings).verdict,
        "findings": [one.row() for one in findings],
        "progress": measured.figures() if measured.row else None,
        "paths": measured.paths(),
        "inbound": inbound,
    }
