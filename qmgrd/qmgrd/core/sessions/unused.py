"""Deletes queues and durable subscriptions that have been unused for their ``unused_expiry_ms``.

Consumers and gets use a queue. Altering or defining the queue again also counts as use. Puts do not
count, because a queue that only fills up is useless. While a message is leased, its queue is in
use.
"""

from typing import Any

from qmgrd.core.catalogue import system
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.subscription import is_durable
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.jobs import RUNNING_MAX, Jobs
from qmgrd.core.limits.timers import Timer
from qmgrd.core.queue.queue import Queue
from qmgrd.core.sessions.delivery import Delivery
from qmgrd.core.sessions.removal import Removal

# The longest time between two checks, and the longest time that clients have to return after a
# start.
LOOK_MS = 3_600_000
LATER_MS = 1_000  # time until the next check if too many jobs are running or the queue is in use
DELETING_MAX = RUNNING_MAX // 2  # number of jobs above which no queue is deleted yet


class Unused:
    """Watches each queue that has an ``unused_expiry_ms``.

    The queue's row contains the time of its last use, as of the last check.
    """

    def __init__(
        self, context: Context, catalogue: Catalogue, jobs: Jobs, delivery: Delivery
    ) -> None:
        self._context = context
        self._catalogue = catalogue
        self._jobs = jobs
        self._removal = Removal(catalogue, delivery, jobs)
        self._watches: dict[int, Timer] = {}  # timers by queue id
        delivery.on_use.append(self.used)

    def load(self) -> None:
        """Watches the defined queues.

        Clients that used a queue before the stop are given time to return.
        """
        now_ms = self._context.now.ms
        for queue in self._catalogue.by_id.values():
            if unused_ms := _limit_ms(queue):
                row = self._catalogue.row(queue.name)
                least_ms = now_ms - unused_ms + min(unused_ms, LOOK_MS)
                row["used_ms"] = max(row.get("used_ms", 0), least_ms)
                self._watch(queue)

    def used(self, queue: Queue) -> None:
        """Records the start or end of a use of *queue*, or a change of its attributes."""
        if queue.deleted or not _limit_ms(queue):
            self._stop_watching(queue)
            return
        # No row is written here, because a client that polls would cause a write for each get.
        self._catalogue.row(queue.name)["used_ms"] = self._context.now.ms
        if queue.id not in self._watches or not queue.waiting:
            self._watch(queue)

    def _watch(self, queue: Queue, least_ms: int = 1) -> None:
        self._stop_watching(queue)
        now_ms = self._context.now.ms
        due_ms = self._catalogue.row(queue.name).get("used_ms", 0) + _limit_ms(queue)
        self._look_at_ms(queue, min(max(due_ms, now_ms + least_ms), now_ms + LOOK_MS))

    def _look_at_ms(self, queue: Queue, at_ms: int) -> None:
        self._watches[queue.id] = self._context.timers.at(at_ms, lambda: self._look_at(queue))

    def _stop_watching(self, queue: Queue) -> None:
        timer = self._watches.pop(queue.id, None)
        if timer is not None:
            self._context.timers.cancel(timer)

    def _look_at(self, queue: Queue) -> None:
        self._watches.pop(queue.id, None)
        context, unused_ms, name = self._context, _limit_ms(queue), queue.name
        if queue.deleted or not unused_ms or not context.begin_work("unused", name):
            return
        row, now_ms = self._catalogue.row(name), context.now.ms
        is_in_use = bool(queue.waiting or queue.leases)
        if is_in_use:
            row["used_ms"] = now_ms
        if now_ms < row.get("used_ms", 0) + unused_ms:
            if unused_ms > LOOK_MS:  # Otherwise, the next start gives users that time.
                self._catalogue.store_row(name, row)
            self._watch(queue, LATER_MS if is_in_use else 1)
        elif len(self._jobs.running) >= DELETING_MAX:
            self._look_at_ms(queue, context.now.ms + LATER_MS)
        else:
            self._delete(queue)

    def _delete(self, queue: Queue) -> None:
        what = "queue" if queue.references is None else "subscription"
        facts: dict[str, Any] = {what: queue.name, "messages": self._removal.remove(queue.name)}
        self._context.event(f"{what} expired", **facts)
        self._context.note("warning", f"{what} expired", **facts)


def _limit_ms(queue: Queue) -> int:
    """Returns the time for which *queue* may be unused. 0 means forever."""
    if queue.name in system.ATTRIBUTES or not (queue.references is None or is_durable(queue.name)):
        return 0
    return queue.bounds.unused_expiry_ms
