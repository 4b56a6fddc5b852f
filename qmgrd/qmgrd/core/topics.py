"""Topics: what is defined for them, who has subscribed to them, what each retained.

A topic needs no definition. What is defined for one holds for all below it, unless one nearer says
otherwise: ``flights/JFK/UA`` has what ``flights/JFK`` says, then what ``flights`` says, then the
default.
"""

from typing import Any

from sortedcontainers import SortedDict

from qmgr_protocol import topic as topics
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import TOPIC_ATTRIBUTES
from qmgrd.core import attribute as attributes
from qmgrd.core import keys
from qmgrd.core import row as rows
from qmgrd.core.attributes import unknown
from qmgrd.core.context import Context
from qmgrd.core.kv import Transaction
from qmgrd.core.subscription import Subscription
from qmgrd.core.topic_tree import TopicTree

TOPICS_MAX = 10_000  # that are defined
DEFAULTS: dict[str, Any] = {
    "redelivery_limit": 5,
    "republish": "manual",
    "republish_interval_ms": 3_600_000,
    "put_inhibit": False,
}


class Topics:
    """All topics. Invariant: ``tree`` has each of ``subscriptions``, by its filter."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.rows: dict[str, dict[str, Any]] = SortedDict()  # what is defined, by topic
        self.tree: TopicTree[Subscription] = TopicTree()
        self.subscriptions: dict[str, Subscription] = SortedDict()  # by name
        self.proxies = 0  # of these
        self.awaited: set[int] = set()  # for which subscriptions something may await their return
        self.next_out = 0  # the first publication that not all whom it fits have got yet

    def load(self) -> None:
        """Read what is defined."""
        for key, row in rows.scan(self._context.tx, keys.SPACE_TOPIC):
            self.rows[key[1:].decode()] = unpack(row)

    def add(self, subscription: Subscription) -> None:
        """Have *subscription* get what its filter has."""
        self.subscriptions[subscription.name] = subscription
        self.proxies += bool(subscription.manager)
        self.tree.add(subscription.filter, subscription.name, subscription)

    def remove(self, name: str) -> None:
        """Have a subscription get nothing more."""
        found = self.subscriptions.pop(name)
        self.proxies -= bool(found.manager)
        self.tree.remove(found.filter, name)

    def match(self, topic: str) -> tuple[Subscription, ...]:
        """Return the subscriptions that *topic*, which is well-formed, fits."""
        return self.tree.match(topics.levels_of(topic))

    def proxies_of(self, topic: str) -> list[Subscription]:
        """Return the proxies that *topic* fits: each takes a copy of what is published to it."""
        return [found for found in self.match(topic) if found.manager] if self.proxies else []

    def value(self, topic: str, attribute: str) -> Any:
        """Return the value of *attribute* that is in force for *topic*."""
        name = topic
        while name and self.rows:
            row = self.rows.get(name)
            if row is not None and attribute in row:
                return row[attribute]
            name = name.rpartition(topics.MARK)[0]
        return DEFAULTS[attribute]

    def in_force(self, topic: str) -> dict[str, Any]:
        """Return all that is in force for *topic*."""
        return {attribute: self.value(topic, attribute) for attribute in TOPIC_ATTRIBUTES}

    def check_put(self, topic: str) -> None:
        """Raise TOPIC_INVALID or PUT_INHIBITED where nothing can be published to *topic* now."""
        topics.levels_of(topic)
        if self.rows and self.value(topic, "put_inhibit"):
            raise RequestError(
                ErrorCode.PUT_INHIBITED,
                f"puts are inhibited on topic {topic}, or one above it; see: qmctl topic show "
                f"{topic}",
                1_000,
            )

    def define(self, topic: str, given: dict[str, Any]) -> dict[str, Any]:
        """Define what holds for *topic* and all below it; return its row.

        Raises:
            RequestError: TOPIC_INVALID, VALUE_INVALID.
        """
        topics.levels_of(topic)
        row = {}
        for name, value in given.items():
            if name not in TOPIC_ATTRIBUTES:
                raise unknown("topics", topic, name, list(TOPIC_ATTRIBUTES))
            if value is not None:
                attributes.check("topic", topic, name, value)
                row[name] = value
        if topic not in self.rows and len(self.rows) >= TOPICS_MAX:
            raise RequestError(
                ErrorCode.VALUE_INVALID, f"{len(self.rows)} topics are defined, at most that many"
            )
        self.rows[topic] = row
        rows.put(self._context.tx, keys.SPACE_TOPIC + topic.encode(), pack(row))
        self._context.wrote = True
        return self.show(topic)

    def undefine(self, topic: str) -> None:
        """Have *topic* be as the one above has it.

        Raises:
            RequestError: TOPIC_UNKNOWN.
        """
        if topic not in self.rows:
            raise RequestError(
                ErrorCode.TOPIC_UNKNOWN,
                f"nothing is defined for topic {topic} itself; see: qmctl topic ls",
            )
        del self.rows[topic]
        self._context.tx.delete(keys.SPACE_TOPIC + topic.encode())
        self._context.wrote = True

    def show(self, topic: str) -> dict[str, Any]:
        """Return what holds for *topic*, and what it retained."""
        row: dict[str, Any] = {"topic": topic, "given": sorted(self.rows.get(topic, ()))}
        arrival = retained(self._context.tx, topic)
        return row | self.in_force(topic) | {"retained": arrival is not None}


def retained(tx: Transaction, topic: str) -> int | None:
    """Return the arrival of the publication that *topic* retained, or None."""
    row = rows.find(tx, keys.SPACE_RETAINED + topic.encode())
    return None if row is None else int.from_bytes(row, "big")


def retain(tx: Transaction, topic: str, arrival: int) -> None:
    """Have *topic* retain the publication of that *arrival*; 0 for none."""
    key = keys.SPACE_RETAINED + topic.encode()
    if arrival:
        rows.put(tx, key, arrival.to_bytes(8, "big"))
    else:
        tx.delete(key)
