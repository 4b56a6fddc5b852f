"""Topics: their definitions, subscriptions and retained publications.

A topic needs no definition. A definition applies to its topic and all topics below it, unless a
nearer definition overrides it. For example, ``flights/JFK/UA`` uses the values of ``flights/JFK``,
then those of ``flights``, then the defaults.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any

from qmgr_protocol import topic as topics
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.limits import TOPIC_ATTRIBUTES
from qmgrd.core.catalogue import attribute as attributes
from qmgrd.core.catalogue import row_checks
from qmgrd.core.catalogue.attributes import unknown_attribute_error
from qmgrd.core.catalogue.republish_intervals import INTERVAL, POLICY, RepublishIntervals
from qmgrd.core.catalogue.sorted_map import SortedMap
from qmgrd.core.catalogue.subscription import Subscription
from qmgrd.core.catalogue.topic_tree import TopicTree
from qmgrd.core.context.context import Context
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.kv import Transaction

TOPICS_MAX = 10_000  # maximum number of topics with a definition
VISITS_PER_ROW = 10  # number of visited nodes and results that take as long as one row of the store
DEFAULTS: dict[str, Any] = {
    "redelivery_limit": 5,
    "republish": "manual",
    "republish_interval_ms": 3_600_000,
    "put_inhibit": False,
}


class Topics:
    """All topics. Invariant: ``tree`` contains all ``subscriptions``, by filter."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self.rows = SortedMap[str, dict[str, Any]]()  # definitions, by topic
        self.intervals = RepublishIntervals(self)
        self.tree: TopicTree[Subscription] = TopicTree()
        self.subscriptions = SortedMap[str, Subscription]()  # subscriptions, by name
        self.proxies: TopicTree[Subscription] = TopicTree()  # the subscriptions that are proxies
        self.owned: dict[str, dict[str, Subscription]] = {}  # subscriptions by owner and name
        self._owned_trees: dict[str, TopicTree[Subscription]] = {}  # the same, by owner and filter
        # Ids of subscriptions with messages that may wait for the subscriber's return.
        self.awaited: set[int] = set()
        self.next_out = 0  # the first publication that has not been completely sent to subscribers

    def load(self) -> None:
        """Reads the definitions. An invalid row is set aside."""
        context = self._context
        for key, row in list(rows.scan(context.tx, keys.SPACE_TOPIC)):
            with context.aside.guard(context, key):
                topic = key[keys.REST].decode()
                self.rows[topic] = row_checks.topic(topic, unpack(row))
        for topic in self.rows:
            self.intervals.look_up(topic)

    def add(self, subscription: Subscription) -> None:
        """Adds *subscription*, which then receives publications that match its filter."""
        self.subscriptions[subscription.name] = subscription
        if subscription.owner:
            self.owned.setdefault(subscription.owner, {})[subscription.name] = subscription
            tree = self._owned_trees.setdefault(subscription.owner, TopicTree())
            tree.add(subscription.filter, subscription.name, subscription)
        if subscription.manager:
            self.proxies.add(subscription.filter, subscription.name, subscription)
        self.tree.add(subscription.filter, subscription.name, subscription)
        if subscription.selector is not None:
            self._context.selectors.change(subscription.owner, subscription.selector.length)

    def remove(self, name: str) -> None:
        """Removes a subscription."""
        found = self.subscriptions.pop(name)
        if found.owner:
            owned = self.owned[found.owner]
            del owned[name]
            self._owned_trees[found.owner].remove(found.filter, name)
            if not owned:
                del self.owned[found.owner], self._owned_trees[found.owner]
        if found.manager:
            self.proxies.remove(found.filter, name)
        self.tree.remove(found.filter, name)
        if found.selector is not None:
            self._context.selectors.change(found.owner, -found.selector.length)

    def match(self, topic: str) -> tuple[Subscription, ...]:
        """Returns the subscriptions that match *topic*, which must be well-formed."""
        return self._match(self.tree, topic)

    def _match(self, tree: TopicTree[Subscription], topic: str) -> tuple[Subscription, ...]:
        found = tree.match(topics.levels_of(topic))
        if tree.visited:  # Otherwise, the result was cached.
            self._context.count_read(1 + tree.visited // VISITS_PER_ROW, 0)
            tree.visited = 0
        return found

    def proxies_of(self, topic: str) -> tuple[Subscription, ...]:
        """Returns the proxies that match *topic*. Each proxy gets a copy of its publications."""
        return self._match(self.proxies, topic) if self.proxies else ()

    def check_filter(self, filter_: tuple[str, ...], owner: str = "") -> None:
        """Raises FILTERS_EXHAUSTED if *filter_* could make a topic visit too many nodes.

        The filters of one *owner* may use half of what those of others leave, so that no user takes
        all of it. Filters that do not raise the number of nodes are always accepted.
        """
        limit = self._context.config.limits.match_visits_max
        reach, own = self.tree.reach_with(filter_), 0
        if owner:
            own = self._owned_trees.get(owner, TopicTree[Subscription]()).reach_with(filter_)
        if reach > self.tree.reach and reach + own > limit:
            raise RequestError(
                ErrorCode.FILTERS_EXHAUSTED,
                f"with filter {topics.MARK.join(filter_)} one topic could match {reach} branches "
                "of all filters"
                + (f", and {own} of your filters" if owner else "")
                + f" (the limit is {limit}, and a user may use half of what others leave): "
                f"subscribe with fewer {topics.ONE} levels, or raise limits.match_visits_max",
            )

    def value(self, topic: str, attribute: str) -> Any:
        """Returns the value of *attribute* in force for *topic*."""
        name = topic
        while name and self.rows:
            row = self.rows.get(name)
            if row is not None and attribute in row:
                return row[attribute]
            name = name.rpartition(topics.MARK)[0]
        return DEFAULTS[attribute]

    def in_force(self, topic: str) -> dict[str, Any]:
        """Returns all attributes in force for *topic*."""
        return {attribute: self.value(topic, attribute) for attribute in TOPIC_ATTRIBUTES}

    def check_put(self, topic: str) -> None:
        """Raises TOPIC_INVALID or PUT_INHIBITED if publications to *topic* are refused."""
        topics.levels_of(topic)
        if self.rows and self.value(topic, "put_inhibit"):
            raise RequestError(
                ErrorCode.PUT_INHIBITED,
                f"puts are inhibited on topic {topic} or a topic above it",
                1_000,
            )

    def define(self, topic: str, given: dict[str, Any]) -> set[int]:
        """Defines attributes for *topic* and all topics below it.

        Returns:
            The intervals of republishing whose use may have changed.

        Raises:
            RequestError: TOPIC_INVALID or VALUE_INVALID.
        """
        topics.levels_of(topic)
        row = {}
        for name, value in given.items():
            if name not in TOPIC_ATTRIBUTES:
                raise unknown_attribute_error("topics", topic, name, list(TOPIC_ATTRIBUTES))
            if value is not None:
                attributes.check("topic", topic, name, value)
                row[name] = value
        if topic not in self.rows and len(self.rows) >= TOPICS_MAX:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"{len(self.rows)} topics are defined, which is the limit: delete a definition",
            )
        before = self.rows.get(topic, {})
        self.rows[topic] = row
        rows.put(self._context.tx, keys.SPACE_TOPIC + topic.encode(), pack(row))
        self._context.wrote = True
        return self._look_up_intervals(topic, before, row)

    def _look_up_intervals(
        self, topic: str, before: dict[str, Any], after: dict[str, Any]
    ) -> set[int]:
        """Updates the intervals of *topic* and the topics below it, if they may have changed."""
        if all(before.get(x) == after.get(x) for x in (POLICY, INTERVAL)):
            return set()
        known = [topic, *_below_of(self.rows.order, topic)]
        self._context.count_read(len(known) // 2, 0)
        return set().union(*map(self.intervals.look_up, known))

    def undefine(self, topic: str) -> set[int]:
        """Deletes the definition of *topic*, which then inherits its attributes.

        Returns the intervals of republishing whose use may have changed.

        Raises:
            RequestError: TOPIC_UNKNOWN.
        """
        if topic not in self.rows:
            raise RequestError(ErrorCode.TOPIC_UNKNOWN, f"topic {topic} itself has no definition")
        before = self.rows.pop(topic)
        self._context.tx.delete(keys.SPACE_TOPIC + topic.encode())
        self._context.wrote = True
        return self._look_up_intervals(topic, before, {})

    def show(self, topic: str) -> dict[str, Any]:
        """Returns the attributes of *topic*, and whether it retains a publication."""
        row: dict[str, Any] = {"topic": topic, "given": sorted(self.rows.get(topic, {}))}
        arrival = retained(self._context.tx, topic)
        return row | self.in_force(topic) | {"retained": arrival is not None}


def retained(tx: Transaction, topic: str) -> int | None:
    """Returns the arrival number of the publication that *topic* retains, or None."""
    row = rows.find(tx, keys.SPACE_RETAINED + topic.encode())
    return None if row is None else int.from_bytes(row, "big")


def retain(tx: Transaction, topic: str, arrival: int) -> None:
    """Sets the *arrival* number of the publication that *topic* retains; 0 means none."""
    key = keys.SPACE_RETAINED + topic.encode()
    if arrival:
        rows.put(tx, key, arrival.to_bytes(8, "big"))
    else:
        tx.delete(key)


def _below_of(ordered: Sequence[str], topic: str) -> Iterator[str]:
    """Yields the topics below *topic* from the list *ordered*. *topic* need not be in the list."""
    end = topic + chr(ord(topics.MARK) + 1)
    yield from ordered[bisect_left(ordered, topic + topics.MARK) : bisect_left(ordered, end)]
