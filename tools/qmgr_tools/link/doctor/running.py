"""A link that is up: whether it gets on, over all of its paths, and for whom it is late."""

import re
from typing import Any

from qmgr_config.units import MINUTE_MS, SECOND_MS
from qmgr_tools.cli.failure import one_line
from qmgr_tools.cli.humanize import counted, duration, messages, size
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity
from qmgr_tools.link.doctor.look import Look
from qmgr_tools.link.doctor.refused import address_of

Row = dict[str, Any]
LATE_MS = 5 * SECOND_MS  # Half of link.stall_ms as installed, at which the link asks.
STUCK_MS = 10 * SECOND_MS
SLOWER = 4  # times the round trip of the others
SLOW_MS = 100  # and by that much at least
OFTEN = 0.1  # of what went over
OFTEN_MIN = 100
BACKLOG_S = 10  # of what goes in a second: a smaller one is no matter
OWN_NAME = re.compile(r"there is no link to ([^;\s]+)|link ([^;\s]+) of \S+ ")


def found(look: Look) -> list[Finding]:
    """Return what is wrong with a link that is up."""
    row = look.row
    if "GET_INHIBITED" in str(row.get("error")):
        return [_inhibited(row)]
    checks = (
        _nothing_moves(look),
        _paths_down(row),
        _late(look),
        _slow(row),
        _stalled(look),
        _gap(look),
        _resent(look),
        _grows(look),
        _fetches(row),
    )
    return [one for one in checks if one is not None]


def _waiting(row: Row) -> int:
    return int(row.get("waiting") or 0)


def _inhibited(row: Row) -> Finding:
    queue = f"@{row['link']}"
    waiting = _waiting(row)
    held = f"{messages(waiting)} on it, safe here" if waiting else "nothing waits on it yet"
    return Finding(
        "gets-inhibited",
        Severity.WARNING,
        f"gets are inhibited on {queue}, so it is up and sends nothing; {held}",
        "Somebody said so with queue alter --get-inhibit, to keep back what is bound for "
        f"{row['link']}.",
        (
            Choice(
                f"qmctl queue alter {queue} --no-get-inhibit", "what waits goes, once and only once"
            ),
        ),
    )


def _nothing_moves(look: Look) -> Finding | None:
    row, before = look.row, look.before or {}
    had = min(_waiting(row), _waiting(before))
    if not (look.is_double and had and before.get("state") == "up") or look.has_moved:
        return None
    oldest_ms = int(row.get("oldest_ms") or 0)
    since = f"; what is on its way longest is so for {duration(oldest_ms)}" if oldest_ms else ""
    return Finding(
        "nothing-moves",
        Severity.CRITICAL if oldest_ms >= STUCK_MS else Severity.WARNING,
        f"up, but nothing moved in {duration(look.passed_ms)}: {messages(_waiting(row))} "
        f"({size(row.get('waiting_bytes') or 0)}) wait, up to id {row.get('commit_id')} all is "
        f"there{since}",
        f"{row['link']} answers, and takes or confirms nothing: its disk or machine is very "
        "slow, or the network is. A path on which nothing moves for link.stall_ms is dialled "
        "again by itself.",
        (
            Choice(
                f"qmctl -c {address_of(row)} status",
                "changes nothing: look there at the longest turn, and at the disk",
            ),
            Choice(
                f"qmctl link doctor {row['link']} --watch",
                "changes nothing: look whether it goes on",
            ),
        ),
    )


def _paths_down(row: Row) -> Finding | None:
    paths = row.get("paths") or []
    gone = [path for path in paths if path.get("state") != "up"]
    if not gone:
        return None
    each = "; ".join(map(_gone, gone))
    return Finding(
        "paths-down",
        Severity.WARNING,
        f"{len(gone)} of {counted(len(paths), 'path')} not up: {each}",
        "What these carried goes over the others: nothing is lost, but it is slower. Each path "
        "begins at another of the link's addresses, and dials by itself.",
        (
            Choice(f"qmctl link start {row['link']}", "dials those at once; the others go on"),
            Choice(
                f"qmctl link alter {row['link']} HOST:PORT...",
                "if an address is wrong: all paths hang up and dial; nothing is lost or doubled",
            ),
        ),
    )


def _gone(path: Row) -> str:
    redial_ms, error = path.get("redial_ms"), one_line(str(path.get("error") or ""))
    again = "" if redial_ms is None else f", dials in {duration(redial_ms)}"
    told = f" ({error})" if error else ""
    return f"path {path.get('path')} is {path.get('state')}{told}{again}"


def _fetches(row: Row) -> Finding | None:
    """Return why nothing is fetched over what the link dials, where it is to be."""
    told = [str(path.get("fetches") or "") for path in row.get("paths") or []]
    errors = sorted({one_line(why) for why in told if why not in ("", "asked", "yes")})
    if not errors:
        return None
    choices = {choice: None for why in errors for choice in _fetchable(row, why)}
    return Finding(
        "not-fetched",
        Severity.WARNING,
        f"{row['link']} sends nothing over what this link dials: {'; '.join(errors)}",
        "The link fetches, but the one that is to send, from there to here, is missing, stopped, "
        "refused, or has addresses of its own. It asks again each second.",
        tuple(choices),
    )


def _fetchable(row: Row, why: str) -> tuple[Choice, ...]:
    """Return what has the peer send what it was asked for, by *why* it does not."""
    there = f"qmctl -c {address_of(row)} link"
    named = OWN_NAME.search(why)
    name = (named[1] or named[2]) if named else "NAME"
    of = "" if named else ", NAME being this queue manager"
    comes = "what waits there for here comes, once and only once"
    if why.startswith("LINK_UNKNOWN"):
        return (Choice(f"{there} create {name} --passive", f"makes it{of}: {comes}"),)
    if "has addresses" in why:
        return (
            Choice(
                f"{there} show {name}",
                f"changes nothing: tells what waits on it{of}. It must be deleted there, once "
                "nothing waits on it, and created --passive: its addresses cannot be taken "
                "away",
            ),
            Choice(
                f"qmctl link alter {row['link']} --no-fetch",
                "if it gets here with its own addresses: nothing is fetched then",
            ),
        )
    doctor = Choice(f"{there} doctor {name}", f"changes nothing: tells what is wrong with it{of}")
    if why.endswith(" is stopped"):
        return (Choice(f"{there} start {name}", f"starts it{of}: {comes}"), doctor)
    return (doctor,)


def _late(look: Look) -> Finding | None:
    row = look.row
    late = [
        path
        for path in row.get("paths") or []
        if path.get("state") == "up" and int(path.get("oldest_ms") or 0) >= LATE_MS
    ]
    if not late:
        return None
    each = "; ".join(
        f"path {path.get('path')}: {messages(path.get('in_flight') or 0)} on the way, the oldest "
        f"for {duration(path['oldest_ms'])}"
        for path in late
    )
    return Finding(
        "path-late",
        Severity.WARNING,
        each,
        "The peer has not taken it yet. After link.stall_ms in which nothing of it was, the path "
        "is hung up and dialled again, and what it carried goes over another, once and only once.",
        (
            Choice(
                f"qmctl link doctor {row['link']} --watch",
                "changes nothing: look whether it goes on",
            ),
            Choice(
                f"qmctl link stop {row['link']} && qmctl link start {row['link']}",
                "hangs up and dials now; nothing is lost or doubled",
            ),
        ),
    )


def _slow(row: Row) -> Finding | None:
    trips = {
        int(path.get("path") or 0): int(path["rtt_ms"])
        for path in row.get("paths") or []
        if path.get("rtt_ms") is not None and path.get("state") == "up"
    }
    slow = []
    for index, rtt_ms in trips.items():
        others = [trip for other, trip in trips.items() if other != index]
        usual_ms = sorted(others)[len(others) // 2] if others else rtt_ms
        if rtt_ms >= SLOWER * usual_ms and rtt_ms - usual_ms >= SLOW_MS:
            slow.append(
                f"path {index} has a round trip of {duration(rtt_ms)}, the others of "
                f"{duration(usual_ms)}"
            )
    if not slow:
        return None
    return Finding(
        "path-slow",
        Severity.WARNING,
        "; ".join(slow),
        "Its network is slower or lossy, or its address another. It is given less; what is late "
        "on it is sent over another path as well, so nothing is lost or doubled.",
        (
            Choice(f"qmctl link show {row['link']}", "changes nothing: tells which address it has"),
            Choice(
                f"qmctl link alter {row['link']} HOST:PORT...",
                "leaves a bad address out: all paths hang up and dial; nothing is lost or doubled",
            ),
        ),
    )


def _stalled(look: Look) -> Finding | None:
    paths = look.row.get("paths") or []
    stalls = {p.get("path"): int(p.get("stalls") or 0) for p in paths if p.get("stalls")}
    if not stalls:
        return None
    before = (look.before or {}).get("paths") or []
    is_now = look.is_double and sum(stalls.values()) > sum(
        int(p.get("stalls") or 0) for p in before
    )
    each = ", ".join(f"path {path} {counted(times, 'time')}" for path, times in stalls.items())
    return Finding(
        "path-stalled",
        Severity.WARNING if is_now else Severity.NOTE,
        f"nothing moved for link.stall_ms: {each} since it was made, altered or started with the "
        f"daemon{'; just now again' if is_now else ''}",
        "The connection stood and the peer took nothing. Such a path is dialled again by itself, "
        "at its next address, and has twice as long then; what it carried went over another.",
        (Choice("qmctl events", "changes nothing: shows each stall as it happens (link stalled)"),),
    )


def _gap(look: Look) -> Finding | None:
    row, before = look.row, look.before or {}
    held, commit_id = int(row.get("held") or 0), row.get("commit_id")
    stays = before.get("commit_id") == commit_id and before.get("held")
    if not (held and look.is_double and stays):
        return None
    return Finding(
        "gap",
        Severity.WARNING,
        f"{row['link']} holds {messages(held)} above a gap at id {int(commit_id or 0) + 1}, which "
        f"did not close in {duration(look.passed_ms)}",
        "That message is late on a slow path, or was lost with one and is sent again. Those above "
        "it can be got there already, unless the link is --ordered; none is sent again.",
        (
            Choice(
                f"qmctl link doctor {row['link']} --watch",
                "changes nothing: look whether it closes",
            ),
        ),
    )


def _resent(look: Look) -> Finding | None:
    row = look.row
    resent, went = int(row.get("resent") or 0), int(row.get("transferred") or 0)
    again, over = look.grown("resent"), look.grown("transferred")
    is_now = look.is_double and again >= OFTEN_MIN and again > OFTEN * over
    if not is_now and (resent < OFTEN_MIN or resent <= OFTEN * (went or 1)):
        return None
    return Finding(
        "resent",
        Severity.WARNING if is_now else Severity.NOTE,
        f"{messages(resent)} sent again since the daemon started, beside {went:,} that went over"
        + (f"; {again:,} of them in the last {duration(look.passed_ms)}" if is_now else ""),
        "Connections break, paths are late, or the peer was blocked. Each copy is discarded there: "
        "nothing is doubled, the line is only busier.",
        (Choice("qmctl events", "changes nothing: shows links that break, stall or are blocked"),),
    )


def _grows(look: Look) -> Finding | None:
    figures = look.figures()
    gone, come = figures["messages_per_s"], figures["put_per_s"]
    waiting = _waiting(look.row)
    if not gone or not come or come <= gone or waiting < BACKLOG_S * gone:
        return None
    grows = round((come - gone) * MINUTE_MS / SECOND_MS)
    return Finding(
        "backlog-grows",
        Severity.WARNING,
        f"more comes than goes: {messages(waiting)} wait, {gone:,.0f} messages/s go, "
        f"{come:,.0f}/s come: {grows:,} more in a minute",
        "It is up and works; the network or the peer's disk gives no more, or one connection "
        "does not fill a long line.",
        (
            Choice(
                f"qmctl link alter {look.row['link']} --connections N",
                "more paths at a time: hangs up and dials once; nothing is lost or doubled",
            ),
            Choice(
                f"qmctl -c {address_of(look.row)} status",
                "changes nothing: look there at the longest turn, and at the disk",
            ),
        ),
    )
