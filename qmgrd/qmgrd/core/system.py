"""The queues that the queue manager needs itself: made when there is something for them."""

from typing import Any

PREFIX = "SYSTEM."
DEAD_LETTERS = "SYSTEM.DEAD.LETTERS"
EVENTS = "SYSTEM.EVENTS"
ATTRIBUTES: dict[str, dict[str, Any]] = {
    DEAD_LETTERS: {},
    EVENTS: {"depth_max": 10_000, "overflow": "discard-oldest"},
}
