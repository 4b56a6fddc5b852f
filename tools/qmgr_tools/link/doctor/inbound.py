"""What leads here from another queue manager: what of it does not get on."""

from qmgr_tools.cli.humanize import age, counted, duration, messages
from qmgr_tools.link.doctor import blocked as link_blocked
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity
from qmgr_tools.link.doctor.look import Row
from qmgr_tools.link.doctor.running import OFTEN, OFTEN_MIN


def found(row: Row, before: Row | None, passed_ms: int) -> list[Finding]:
    """Return what is wrong with a stream that leads here, given its *row* now and *before*."""
    checks = (link_blocked.inbound(row), _gap(row, before, passed_ms), _duplicates(row))
    return [one for one in checks if one is not None]


def refused(row: Row, now_us: int) -> Finding:
    """Returns the finding of a queue manager that wanted to open a link here, and may not."""
    peer, code, times = row["peer"], row.get("code"), counted(int(row.get("count") or 0), "time")
    last = age(int(row.get("last_us") or 0), now_us)
    what = f"a queue manager named {peer} was refused here {times}, the last time {last}"
    store = f" --store-id {row['store_id']}" if row.get("store_id") else ""
    if code == "PEER_NOT_ALLOWED":
        why = f"No operator has allowed {peer} to open links to here. Nothing was told to it."
        effect = f"only if it is the {peer} you know: its messages are accepted from then on"
    elif code == "PEER_STORE_CHANGED":
        why = f"{peer} is known here with another store. Nothing was told to the one that came."
        effect = f"only if the store of {peer} was created again: that store is accepted"
    else:
        why = "It asked for what waits for it here, and no link here sends it that."
        return Finding("peer-refused", Severity.NOTE, f"{what}: {code}", why)
    allow = f"qmctl link allow {peer}{store}"
    return Finding("peer-refused", Severity.WARNING, what, why, (Choice(allow, effect),))


def _gap(row: Row, before: Row | None, passed_ms: int) -> Finding | None:
    ahead, line = int(row.get("ahead") or 0), int(row.get("in_line") or 0)
    if before is None or row.get("blocked_id") is not None or not (ahead or line):
        return None
    had = before.get("ahead") or before.get("in_line")
    if not had or before.get("commit_id") != row.get("commit_id"):
        return None
    peer, gap = row["peer"], int(row.get("commit_id") or 0) + 1
    held = f"{messages(ahead)} stored above it" if ahead else ""
    lined = f"{messages(line)} kept in memory behind it, as the link is --ordered" if line else ""
    return Finding(
        "inbound-gap",
        Severity.WARNING,
        f"from {peer} id {gap} has not come in {duration(passed_ms)}: "
        + "; ".join(filter(None, (held, lined))),
        "It is late on a slow path, or was lost with one and is sent again. Nothing is lost.",
        (Choice(f"qmctl link doctor {peer} --watch", "changes nothing: look whether it closes"),),
    )


def _duplicates(row: Row) -> Finding | None:
    copies, went = int(row.get("duplicates") or 0), int(row.get("commit_id") or 0)
    if copies < OFTEN_MIN or copies <= OFTEN * went:
        return None
    return Finding(
        "inbound-duplicates",
        Severity.NOTE,
        f"{messages(copies)} came from {row['peer']} more than once since it connected, and were "
        "discarded",
        "Connections break, or paths are slow, at its end. Nothing is doubled.",
    )
