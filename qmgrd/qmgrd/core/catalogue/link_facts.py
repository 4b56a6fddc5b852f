"""Describes a link of this queue manager to operators."""

from typing import Any

from qmgrd.core.catalogue.attributes import get_inhibited_error
from qmgrd.core.link.link import Link
from qmgrd.core.link.path import LinkState


def describe(link: Link, now_ms: int, *, is_maintenance: bool) -> dict[str, Any]:
    """Returns the row of *link* for operators at the store clock time *now_ms*."""
    idle = _waits_for(link, is_maintenance=is_maintenance)
    outbox, at_ms = link.outbox, link.retry_at_ms
    down_ms = None if link.down_since_ms is None else now_ms - link.down_since_ms
    is_blocked = link.held_by is LinkState.BLOCKED
    since_ms = link.blocked_since_ms if is_blocked else None
    held = link.state is LinkState.UP and link.queue.bounds.get_inhibit
    redials = [path.redial_ms for path in link.paths if path.redial_ms is not None]
    ages = [now_ms - path.oldest.at_ms for path in link.paths if path.oldest is not None]
    return {
        "link": link.name,
        "state": link.state.value,
        "addresses": link.addresses,
        "error": str(get_inhibited_error(link.queue.name)) if held else link.error or idle,
        "waiting": link.queue.counters.depth,
        "waiting_bytes": link.queue.counters.bytes,
        "in_flight": outbox.sent_id - outbox.commit_id,
        "oldest_ms": max(ages, default=None),
        "commit_id": outbox.commit_id,
        "held": len(outbox.held),
        "next_id": link.queue.counters.next_arrival,
        "transferred": link.queue.counters.acked,
        "resent": link.pump.resent,
        "lost": link.row.get("lost", 0),
        "lost_us": link.row.get("lost_us"),
        "attempts": min((0 if path.is_up else path.attempts for path in link.paths), default=0),
        "down_ms": down_ms,
        "redial_ms": min(redials, default=None) if link.state is LinkState.WAITING else None,
        "blocked_ms": None if since_ms is None else now_ms - since_ms,
        "retry_ms": None if at_ms is None else max(at_ms - now_ms, 0),
        "connections": link.row.get("connections", 1),
        "connections_up": len(link.up_paths),
        "ordered": link.row.get("ordered", False),
        "fetch": link.row.get("fetch", False),
        "routes": link.row.get("routes", []),
        "transit": link.row.get("transit", False),
        "paths": [path.describe() for path in link.paths],
    } | outbox.describe(link.blocked_id if is_blocked else 0)


def _waits_for(link: Link, *, is_maintenance: bool) -> str:
    """Returns the reason why an idle link does not dial, or ""."""
    if link.state is not LinkState.WAITING:
        return ""
    if not link.addresses:
        return f"the link has no address: {link.name} must dial, and fetch"
    if is_maintenance:
        return (
            "in maintenance: the daemon dials no link; restart it without --maintenance, or "
            "start the link to dial once"
        )
    return ""
