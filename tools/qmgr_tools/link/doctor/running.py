"""Findings about the progress of a link that is up, and of its paths."""

import re
from typing import Any

from qmgr_config.units import MINUTE_MS, SECOND_MS
from qmgr_tools.cli.failure import one_line
from qmgr_tools.cli.humanize import counted, duration, messages, size
from qmgr_tools.link.doctor.finding import Choice, Finding, Severity
from qmgr_tools.link.doctor.measurement import Measurement
from qmgr_tools.link.doctor.refused import address_of

Row = dict[str, Any]
LATE_MS = 5 * SECOND_MS  # half of the default link.stall_ms
STUCK_MS = 10 * SECOND_MS
SLOWER = 4  # factor between the round trip of a slow path and that of the other paths
SLOW_MS = 100  # minimum difference between the two round trips
OFTEN = 0.1  # fraction of the transferred messages above which resends are reported
OFTEN_MIN = 100  # minimum number of resends that is reported
BACKLOG_S = 10  # seconds to drain the smallest reported backlog
OWN_NAME = re.compile(r"link ([^;\s]+) does not exist|link ([^;\s]+) of \S+ ")


def found(measured: Measurement) -> list[Finding]:
    """Returns the findings of a link that is up."""
    row = measured.row
    if "GET_INHIBITED" in str(row.get("error")):
        return [_inhibited(row)]
    checks = (
        _no_progress(measured),
        _paths_down(row),
        _late(measured),
        _slow(row),
        _stalled(measured),
        _gap(measured),
        _resent(measured),
        _grows(measured),
        _fetches(row),
    )
    return [one for one in checks if one is not None]


def _waiting(row: Row) -> int:
    return int(row.get("waiting") or 0)


def _inhibited(row: Row) -> Finding:
    queue = f"@{row['link']}"
    waiting = _waiting(row)
    held = f"it holds {messages(waiting)}, stored safely" if waiting else "it holds no messages"
    return Finding(
        "gets-inhibited",
        Severity.WARNING,
        f"gets are inhibited on {queue}, so the link is up but sends nothing; {held}",
        f"An operator ran queue alter --get-inhibit to hold back the messages for {row['link']}.",
        (
            Choice(
                f"qmctl queue alter {queue} --no-get-inhibit",
                "sends the pending messages, exactly once",
            ),
        ),
    )


def _no_progress(measured: Measurement) -> Finding | None:
    row, before = measured.row, measured.before or {}
    had = min(_waiting(row), _waiting(before))
    if not (measured.is_double and had and before.get("state") == "up") or measured.has_moved:
        return None
    oldest_ms = int(row.get("oldest_ms") or 0)
    since = f"; the oldest was sent {duration(oldest_ms)} ago" if oldest_ms else ""
    return Finding(
        "nothing-moves",
        Severity.CRITICAL if oldest_ms >= STUCK_MS else Severity.WARNING,
        f"up, but without progress for {duration(measured.passed_ms)}: "
        f"{messages(_waiting(row))} ({size(row.get('waiting_bytes') or 0)}) pending, confirmed up "
        f"to id {row.get('commit_id')}{since}",
        f"{row['link']} answers, but stores or confirms no messages. Its disk, its machine or the "
        "network is very slow. A path without progress for link.stall_ms reconnects automatically.",
        (
            Choice(
                f"qmctl -c {address_of(row)} status",
                "check the longest turn and the disk at that end; changes nothing",
            ),
            Choice(
                f"qmctl link doctor {row['link']} --watch",
                "shows whether the link continues; changes nothing",
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
        "The other paths carry the messages. No message is lost, but the link is slower. Each path "
        "starts with another address of the link, and reconnects automatically.",
        (
            Choice(
                f"qmctl link start {row['link']}", "reconnects these paths now; the others continue"
            ),
            Choice(
                f"qmctl link alter {row['link']} HOST:PORT...",
                "if an address is wrong: reconnects all paths; nothing is lost or duplicated",
            ),
        ),
    )


def _gone(path: Row) -> str:
    redial_ms, error = path.get("redial_ms"), one_line(str(path.get("error") or ""))
    again = "" if redial_ms is None else f", reconnects in {duration(redial_ms)}"
    why = f" ({error})" if error else ""
    return f"path {path.get('path')} is {path.get('state')}{why}{again}"


def _fetches(row: Row) -> Finding | None:
    """Returns a finding if a link cannot fetch as configured, or None."""
    results = [str(path.get("fetches") or "") for path in row.get("paths") or []]
    errors = sorted({one_line(why) for why in results if why not in ("", "asked", "yes")})
    if not errors:
        return None
    choices = {choice: None for why in errors for choice in _fetchable(row, why)}
    return Finding(
        "not-fetched",
        Severity.WARNING,
        f"this link fetches from {row['link']}, which sends nothing: {'; '.join(errors)}",
        "The link of the peer that should send to this queue manager is missing, stopped, refused, "
        "or has its own addresses. This link asks again each second.",
        tuple(choices),
    )


def _fetchable(row: Row, why: str) -> tuple[Choice, ...]:
    """Returns the remedies at the peer for *why*, the reason why the peer does not send."""
    there = f"qmctl -c {address_of(row)} link"
    named = OWN_NAME.search(why)
    name = (named[1] or named[2]) if named else "NAME"
    of = "" if named else ", where NAME is this queue manager"
    arrive = "the pending messages arrive here, exactly once"
    if why.startswith("LINK_UNKNOWN"):
        return (Choice(f"{there} create {name} --passive", f"creates that link{of}: {arrive}"),)
    if "has addresses" in why:
        return (
            Choice(
                f"{there} show {name}",
                f"shows its pending messages{of}; changes nothing. When the link is empty, "
                "delete it there and create it with --passive: its addresses cannot be removed",
            ),
            Choice(
                f"qmctl link alter {row['link']} --no-fetch",
                "if the peer's link connects with its own addresses: this link no longer fetches",
            ),
        )
    doctor = Choice(f"{there} doctor {name}", f"shows its problems{of}; changes nothing")
    if why.endswith(" is stopped"):
        return (Choice(f"{there} start {name}", f"starts it{of}: {arrive}"), doctor)
    return (doctor,)


def _late(measured: Measurement) -> Finding | None:
    row = measured.row
    late = [
        path
        for path in row.get("paths") or []
        if path.get("state") == "up" and int(path.get("oldest_ms") or 0) >= LATE_MS
    ]
    if not late:
        return None
    each = "; ".join(
        f"path {path.get('path')}: {messages(path.get('in_flight') or 0)} in flight, the oldest "
        f"for {duration(path['oldest_ms'])}"
        for path in late
    )
    return Finding(
        "path-late",
        Severity.WARNING,
        each,
        "The peer has not confirmed these messages yet. After link.stall_ms without progress the "
        "path reconnects automatically, and another path sends the messages, exactly once.",
        (
            Choice(
                f"qmctl link doctor {row['link']} --watch",
                "shows whether the link continues; changes nothing",
            ),
            Choice(
                f"qmctl link stop {row['link']} && qmctl link start {row['link']}",
                "reconnects now; nothing is lost or duplicated",
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
        "The path's network is slower or lossy, or its address is different. The path carries "
        "fewer messages. Late messages are also sent over another path; nothing is lost or "
        "duplicated.",
        (
            Choice(
                f"qmctl link show {row['link']}", "shows the address of the path; changes nothing"
            ),
            Choice(
                f"qmctl link alter {row['link']} HOST:PORT...",
                "to omit a bad address: reconnects all paths; nothing is lost or duplicated",
            ),
        ),
    )


def _stalled(measured: Measurement) -> Finding | None:
    paths = measured.row.get("paths") or []
    stalls = {p.get("path"): int(p.get("stalls") or 0) for p in paths if p.get("stalls")}
    if not stalls:
        return None
    before = (measured.before or {}).get("paths") or []
    is_now = measured.is_double and sum(stalls.values()) > sum(
        int(p.get("stalls") or 0) for p in before
    )
    each = ", ".join(f"path {path} {counted(times, 'time')}" for path, times in stalls.items())
    return Finding(
        "path-stalled",
        Severity.WARNING if is_now else Severity.NOTE,
        f"no progress for link.stall_ms: {each} since the link was created, altered or started "
        f"with the daemon{'; again just now' if is_now else ''}",
        "The connection was open, but the peer stored no messages. Such a path reconnects to its "
        "next address, with twice the stall time. Another path sent its messages.",
        (Choice("qmctl events", "shows each stall (event: link stalled); changes nothing"),),
    )


def _gap(measured: Measurement) -> Finding | None:
    row, before = measured.row, measured.before or {}
    held, commit_id = int(row.get("held") or 0), row.get("commit_id")
    stays = before.get("commit_id") == commit_id and before.get("held")
    if not (held and measured.is_double and stays):
        return None
    return Finding(
        "gap",
        Severity.WARNING,
        f"{row['link']} holds {messages(held)} above a gap at id {int(commit_id or 0) + 1}, which "
        f"did not close within {duration(measured.passed_ms)}",
        "The missing message is late on a slow path, or was lost with a path and is sent again. "
        "Messages above the gap can already be consumed there, unless the link is --ordered.",
        (
            Choice(
                f"qmctl link doctor {row['link']} --watch",
                "shows whether the gap closes; changes nothing",
            ),
        ),
    )


def _resent(measured: Measurement) -> Finding | None:
    row = measured.row
    resent, went = int(row.get("resent") or 0), int(row.get("transferred") or 0)
    again, over = measured.grown("resent"), measured.grown("transferred")
    is_now = measured.is_double and again >= OFTEN_MIN and again > OFTEN * over
    if not is_now and (resent < OFTEN_MIN or resent <= OFTEN * (went or 1)):
        return None
    return Finding(
        "resent",
        Severity.WARNING if is_now else Severity.NOTE,
        f"{messages(resent)} sent again since the daemon started, and {went:,} transferred"
        + (f"; {again:,} of them in the last {duration(measured.passed_ms)}" if is_now else ""),
        "Connections break, paths are late, or the peer was blocked. The peer discards each copy: "
        "no message is duplicated, but the network carries more data.",
        (Choice("qmctl events", "shows links that break, stall or are blocked; changes nothing"),),
    )


def _grows(measured: Measurement) -> Finding | None:
    figures = measured.figures()
    gone, come = figures["messages_per_s"], figures["put_per_s"]
    waiting = _waiting(measured.row)
    if not gone or not come or come <= gone or waiting < BACKLOG_S * gone:
        return None
    grows = round((come - gone) * MINUTE_MS / SECOND_MS)
    return Finding(
        "backlog-grows",
        Severity.WARNING,
        f"the backlog grows by {grows:,} messages/min: {messages(waiting)} pending, "
        f"{gone:,.0f} messages/s sent, {come:,.0f} messages/s put",
        "The network or the peer's disk limits the link, or one connection is not enough for a "
        "network with a long round trip.",
        (
            Choice(
                f"qmctl link alter {measured.row['link']} --connections N",
                "more paths in parallel: reconnects once; nothing is lost or duplicated",
            ),
            Choice(
                f"qmctl -c {address_of(measured.row)} status",
                "check the longest turn and the disk at that end; changes nothing",
            ),
        ),
    )
