"""A subscription: a queue that is filled by the publications to topics which its filter has.

durable       CLIENT:NAME, or :NAME of an administrator; there until somebody ends it
not durable   ~LIFE.NUMBER: a name that nobody had before, there as long as its connection is
proxy         :NAME@MANAGER: no queue here; what fits goes on over the link to that manager
"""

from typing import Any

from qmgr_protocol import topic as topics
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import compiled
from qmgrd.core.selector.selector import Selector

# What its row has beside its attributes: how it came to be, and how it stands.
OWN = ("kind", "queue_id", "topic", "where", "first", "suspended", "used_ms")


class Subscription:
    """Who gets what is published to some topics. Its row is stored where those of queues are."""

    __slots__ = ("filter", "manager", "name", "queue", "row", "selector", "topic")

    def __init__(self, name: str, row: dict[str, Any], queue: Queue | None) -> None:
        """Make what a *row* says; *queue* is None of a proxy."""
        self.name = name
        self.row = row
        self.queue = queue
        self.topic: str = row["topic"]
        self.filter = topics.filter_of(self.topic)
        self.manager = name.partition("@")[2] if queue is None else ""
        where = row.get("where", "")
        self.selector: Selector | None = compiled(where) if where else None

    @property
    def first(self) -> int:
        """The first publication that came after it."""
        found: int = self.row["first"]
        return found

    @property
    def is_durable(self) -> bool:
        """Whether it outlives its connection."""
        return is_durable(self.name)

    @property
    def is_suspended(self) -> bool:
        """Whether it gets nothing until it is said to be healthy again."""
        return bool(self.row.get("suspended"))


def is_durable(name: str) -> bool:
    """Return whether the subscription *name* outlives its connection."""
    return not name.startswith(topics.DYNAMIC)
