"""Counts the intervals at which topics republish parked publications.

A topic inherits attributes that it does not define. Therefore, a change of one topic affects that
topic and the topics below it. Only topics that define a policy or an interval themselves are
counted. All other topics inherit from the topic above them.
"""

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qmgrd.core.catalogue.topics import Topics

SCHEDULED = "schedule"
POLICY, INTERVAL = "republish", "republish_interval_ms"


class RepublishIntervals:
    """The intervals that are in force.

    Invariant: ``in_force`` counts ``_by_topic``, which contains each topic that republishes by
        schedule and defines the policy or the interval itself.
    """

    def __init__(self, topics: "Topics") -> None:
        self.in_force: Counter[int] = Counter()  # the number of topics by interval
        self._topics = topics
        self._by_topic: dict[str, int] = {}

    def look_up(self, topic: str) -> set[int]:
        """Updates *topic*, whose row changed. Returns the intervals whose use may have changed."""
        before = self._by_topic.pop(topic, None)
        row = self._topics.rows.get(topic, {})
        after = None
        if (POLICY in row or INTERVAL in row) and self._topics.value(topic, POLICY) == SCHEDULED:
            after = self._by_topic[topic] = self._topics.value(topic, INTERVAL)
            self.in_force[after] += 1
        if before is not None:
            self.in_force[before] -= 1
            if not self.in_force[before]:
                del self.in_force[before]
        return {interval for interval in (before, after) if interval is not None}
