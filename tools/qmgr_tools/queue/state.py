"""The state of a queue in one or two words."""

from collections.abc import Mapping
from typing import Any

OPEN = "open"
# After too many failures, delivery pauses, or the queue delivers one message as a probe.
BREAKER = "breaker"
CLOSED = "closed"  # the state of a breaker that does not pause delivery
# The states of queues with inhibited puts and gets.
_INHIBITED = {(True, False): "no puts", (False, True): "no gets", (True, True): "closed"}


def of(row: Mapping[str, Any]) -> str:
    """Returns the state of the queue of *row*, without the state of its link."""
    inhibits = bool(row.get("put_inhibit")), bool(row.get("get_inhibit"))
    if any(inhibits):
        return _INHIBITED[inhibits]
    limits = (("depth", "depth_max"), ("bytes", "bytes_max"))
    if row.get("breaker", CLOSED) != CLOSED:
        return BREAKER
    is_full = any(limit in row and row.get(held, 0) >= row[limit] for held, limit in limits)
    return "full" if is_full else OPEN


def with_link(row: Mapping[str, Any], links: Mapping[str, Any]) -> str:
    """Returns the state of a queue, or of its link if the queue is open.

    Args:
        links: The states of links by name.
    """
    state, kind = of(row), row.get("kind")
    if state == OPEN and kind in ("remote", "transmission"):
        link = str(row.get("manager") if kind == "remote" else row["queue"][1:])
        return str(links.get(link, "no link"))
    return state
