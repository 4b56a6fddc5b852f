"""The part of qmctl status about the journal, and the members of a queue manager that share it."""

import re
from collections.abc import Mapping
from typing import Any

from qmgr_tools.cli import humanize, output

PLACES = {"none": "none: each turn is a commit of the store", "file": "local file"}
_NAME = re.compile(r'"((?:[^"]|"")*)"|([^\s",()]+)')

FACTS = (
    output.text("journal"),
    output.text("survives", "a commit is stored on"),
    output.text("member", "active member"),
    output.Column("since_us", "active since", humanize.rfc3339),
    output.text("why", "active because"),
    output.count("epoch"),
    output.count("record", "last record"),
    output.size("log_bytes", "journal used"),
    output.text("base", "last base"),
    output.text("trouble", "journal waits"),
)
MEMBERS = (
    output.text("member"),
    output.text("role"),
    output.count("behind", "RECORDS BEHIND"),
    output.Column("addresses", "ADDRESSES", output.listed),
    output.duration("seen_ms", "SEEN"),
)


def facts(journal: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of FACTS."""
    place = journal.get("place")
    if place != "postgresql":
        return {"journal": PLACES.get(str(place))}
    return dict(journal) | {
        "journal": f"PostgreSQL {journal['server'].partition(' ')[0]}",
        "survives": survives(journal),
        "base": _base(journal),
    }


def show_members(journal: Mapping[str, Any]) -> None:
    """Prints a table of the members that share the journal, if they do."""
    if journal.get("members"):
        print()
        output.table(MEMBERS, journal["members"])


def survives(journal: Mapping[str, Any]) -> str:
    """Returns where a record is stored when a commit returns."""
    if journal["fsync"] != "on":
        return "no disk: fsync is off, so a power cut may lose acknowledged messages"
    names, level = journal["synchronous_standby_names"], journal["synchronous_commit"]
    if level == "local" and names:
        return f"one server: synchronous_commit is local, so {names} may be behind"
    if not names:
        return "one server"
    kept = {"remote_write": "in memory of", "remote_apply": "applied on"}.get(level, "also on")
    return f"one server, {kept} {standbys(names)}"


def standbys(setting: str) -> str:
    """Returns the standby servers that synchronous_standby_names lists, in words."""
    begin = re.match(r"\s*(?:(first|any)\s+)?(\d+)\s*\((.*)\)\s*$", setting, re.I | re.S)
    listed, count = (begin[3], int(begin[2])) if begin else (setting, 1)
    names = [quoted.replace('""', '"') or bare for quoted, bare in _NAME.findall(listed)]
    shown = ", ".join("any" if name == "*" else name for name in names)
    if names == ["*"]:
        return f"any {humanize.counted(count, 'standby server')}"
    if len(names) <= count:
        return f"{'standby server' if len(names) == 1 else 'standby servers'} {shown}"
    return f"{count} of the standby servers {shown}"


def _base(journal: Mapping[str, Any]) -> str | None:
    if not journal["base_record"]:
        return None
    return f"record {journal['base_record']:,}, {humanize.size(journal['base_bytes'])}"
