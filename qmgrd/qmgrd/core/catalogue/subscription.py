"""A subscription: a queue that receives the publications on topics that its filter matches.

durable       CLIENT:NAME, or :NAME of an administrator; exists until someone ends it
not durable   ~LIFE.NUMBER: a name that was never used before; it ends with its connection
proxy         :NAME@MANAGER: no queue here; its publications are sent over the link to MANAGER
"""

from typing import Any

from qmgr_protocol import topic as topics
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import compiled
from qmgrd.core.selector.selector import Selector

# The fields of the row that are not attributes.
OWN = ("kind", "queue_id", "topic", "where", "first", "suspended", "used_ms", "owner")


class Subscription:
    """One subscription. Its row is stored together with the rows of queues."""

    __slots__ = ("filter", "is_refused", "manager", "name", "queue", "row", "selector", "topic")

    def __init__(self, name: str, row: dict[str, Any], queue: Queue | None) -> None:
        """Creates the subscription of a *row*. *queue* is None for a proxy."""
        self.name = name
        self.row = row
        self.queue = queue
        self.topic: str = row["topic"]
        self.filter = topics.filter_of(self.topic)
        self.manager = name.partition("@")[2] if queue is None else ""
        # Whether the owner has lost the right to subscribe. The subscription then gets nothing.
        self.is_refused = False
        where = row.get("where", "")
        self.selector: Selector | None = compiled(where) if where else None

    @property
    def first(self) -> int:
        """The number of the first publication after the subscription began."""
        found: int = self.row["first"]
        return found

    @property
    def owner(self) -> str:
        """The user who created the subscription, or "" if it was created without a user."""
        found: str = self.row.get("owner", "")
        return found

    @property
    def is_durable(self) -> bool:
        """Whether the subscription outlives its connection."""
        return is_durable(self.name)

    @property
    def is_suspended(self) -> bool:
        """Whether the subscription receives nothing until it is reported to be healthy."""
        return bool(self.row.get("suspended"))


def is_durable(name: str) -> bool:
    """Returns whether the subscription *name* outlives its connection."""
    return not name.startswith(topics.DYNAMIC)
