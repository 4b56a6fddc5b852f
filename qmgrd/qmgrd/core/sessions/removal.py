"""Deletes queues and subscriptions, on request or when they are unused."""

from typing import Any

from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.jobs import drop
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.queue.queue import Queue
from qmgrd.core.sessions.delivery import Delivery


class Removal:
    """Deletes definitions, and starts the jobs that remove the stored messages."""

    def __init__(self, catalogue: Catalogue, delivery: Delivery, jobs: Jobs) -> None:
        self._catalogue = catalogue
        self._delivery = delivery
        self._jobs = jobs

    def remove(self, name: str) -> int:
        """Deletes the queue or subscription *name* immediately. Returns the number of its messages.

        The consumers of the queue end. A job removes its messages.
        """
        queue = self._catalogue.queues[name]
        self._catalogue.remove_queue(name)
        if not isinstance(queue, Queue):
            return 0
        self._delivery.queue_deleted(queue)
        counters = queue.counters
        total = counters.depth + counters.delayed + counters.parked
        facts: dict[str, Any] = drop.facts_of(queue)
        if queue.references is not None:
            facts["holds"] = True
        self._jobs.start("drop", total=total, **facts)
        return total
