"""What is wrong with all links: from the rows that a daemon tells, without asking it more."""

from typing import Any

from qmgr_tools.link.doctor import blocked as link_blocked
from qmgr_tools.link.doctor import down as link_down
from qmgr_tools.link.doctor import inbound as link_inbound
from qmgr_tools.link.doctor import refused as link_refused
from qmgr_tools.link.doctor import restored as link_restored
from qmgr_tools.link.doctor import running as link_running
from qmgr_tools.link.doctor.finding import Finding, worst
from qmgr_tools.link.doctor.look import Look

Row = dict[str, Any]


def diagnosis(
    found: Row, before: Row | None, passed_ms: int, now_us: int, named: str | None = None
) -> Row:
    """Return what is wrong, for scripts: "qmctl link doctor --help" tells its keys.

    Args:
        found: the links that lead from here and to here, as a daemon lists them.
        before: the same, *passed_ms* earlier, or None.
        now_us: the time, in microseconds since 1970.
        named: of which manager alone.
    """
    links = {str(row["link"]): row for row in found["links"]}
    refused = {str(row["peer"]): row for row in found.get("refused", ())}
    peers = {str(row["peer"]): None for row in found["inbound"]} | refused
    names = [named] if named else [*links, *(peer for peer in peers if peer not in links)]
    entries, verdicts = [], []
    for name in names:
        look = Look(links.get(name, {}), _of(before, "links", "link", name), passed_ms)
        findings = findings_of(look, now_us) if look.row else []
        findings += filter(None, [link_restored.at_peer(look.row, now_us)])
        inbound = [row for row in found["inbound"] if row["peer"] == name]
        for row in inbound:
            then = _of(before, "inbound", "stream", row.get("stream"))
            findings += link_inbound.found(row, then, passed_ms)
            findings += filter(None, [link_restored.here(row, now_us)])
        if name in refused:
            findings.append(link_inbound.refused(refused[name], now_us))
        findings.sort(key=lambda one: -one.severity)
        verdicts.append(worst(findings))
        entries.append(_entry(name, look, findings, inbound))
    return {
        "verdict": max(verdicts).verdict if verdicts else "ok",
        "looked_ms": passed_ms if before else 0,
        "links": entries,
        "inbound_count": found.get("inbound_count", len(found["inbound"])),
    }


def findings_of(look: Look, now_us: int) -> list[Finding]:
    """Return what is wrong with a link that leads from here."""
    state, before = look.row.get("state"), look.before or {}
    is_same = before.get("commit_id") == look.row.get("commit_id")
    if state == "up" and before.get("state") == "blocked" and is_same:
        return [link_blocked.found(before, now_us)]  # It tries again just now, and is up for that.
    if state == "refused":
        return [link_refused.found(look.row)]
    if state == "blocked":
        return [link_blocked.found(look.row, now_us)]
    if state == "up":
        return link_running.found(look)
    if state == "stopped":
        held = link_down.stopped(look.row)
        return [held] if held else []
    return [link_down.down(look.row)]


def _of(found: Row | None, rows: str, key: str, value: object) -> Row | None:
    return next((row for row in (found or {}).get(rows, ()) if row.get(key) == value), None)


def _entry(name: str, look: Look, findings: list[Finding], inbound: list[Row]) -> Row:
    return {
        "link": name,
        "state": look.row.get("state"),
        "verdict": worst(findings).verdict,
        "findings": [one.row() for one in findings],
        "progress": look.figures() if look.row else None,
        "paths": look.paths(),
        "inbound": inbound,
    }
