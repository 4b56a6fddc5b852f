"""Jobs: work that may exceed a turn, done a slice per turn, resumed after a restart.

A job is a stored row with a cursor. Each turn gives every job a share of rows; what it does in a
turn is durable together with its new cursor.
"""

from itertools import groupby, islice
from operator import itemgetter
from typing import Any

from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.messages import Ok
from qmgrd.core import entry as entries
from qmgrd.core import keys, lane, producer
from qmgrd.core import row as rows
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.origin_eviction import evict

SLICE_ROWS = 500
# All that a queue has, but for its rows in the schedule, which find nothing when they are due.
_OF_A_QUEUE = (
    keys.SPACE_COUNTERS, keys.SPACE_MESSAGE, keys.SPACE_UID, keys.SPACE_ORIGIN,
    keys.SPACE_CORRELATION, keys.SPACE_GROUP, keys.SPACE_NOTE,
)  # fmt: skip
RETENTION_PERIOD_MS = 3_600_000


class Job:
    """One job. Invariant: everything before ``row["cursor"]`` is done."""

    def __init__(self, job_id: int, row: dict[str, Any]) -> None:
        self.id = job_id
        self.row = row
        self.waiting: tuple[int, int] | None = None  # connection and request to answer at its end


class Jobs:
    """All jobs that are not done."""

    def __init__(self, context: Context, catalogue: Catalogue) -> None:
        self._context = context
        self._catalogue = catalogue
        self.running: dict[int, Job] = {}
        self.producers_in_use: dict[bytes, int] = {}  # kept whatever their age
        self.producers_gone = 0  # rows that retention removed in this turn

    def load(self) -> None:
        """Read what a stop left undone."""
        for key, row in rows.scan(self._context.tx, keys.SPACE_JOB):
            job_id = int.from_bytes(key[1:], "big")
            self.running[job_id] = Job(job_id, unpack(row))

    def dropped(self) -> set[int]:
        """Return the ids of the deleted queues of which something may be left."""
        return {job.row["queue_id"] for job in self.running.values() if job.row["kind"] == "drop"}

    def start(self, kind: str, **facts: Any) -> Job:
        """Begin a job in this turn: ``purge``, ``sweep``, ``drop``, ``retention``, ``origins``."""
        job = Job(self._context.ids.next(), {"kind": kind, "cursor": b"", "done": 0, **facts})
        self._store(job)
        self.running[job.id] = job
        return job

    def run(self) -> None:
        """Give a job its slice, and others too, in rotation, until the turn has had its rows."""
        budget = self._context.turn_rows
        for count, job in enumerate(list(self.running.values())):
            if count and self._context.rows > budget:
                return
            self.running[job.id] = self.running.pop(job.id)  # The last to have its next slice.
            finished = getattr(self, f"_{job.row['kind']}")(job)
            if not finished:
                self._store(job)
                continue
            self._context.tx.delete(keys.job(job.id))
            self._context.wrote = True
            del self.running[job.id]
            if job.waiting is not None:
                self._answer(job, *job.waiting)

    def _answer(self, job: Job, connection: int, request_id: int) -> None:
        self._context.send(connection, Ok(request_id, {"messages": job.row["done"]}))

    def _store(self, job: Job) -> None:
        rows.put(self._context.tx, keys.job(job.id), pack(job.row))
        self._context.wrote = True

    def _slice(self, job: Job, prefix: bytes) -> tuple[list[tuple[bytes, bytes]], bool]:
        """Return the next rows under *prefix* and whether they are the last; move the cursor.

        They are SLICE_ROWS, counting the body rows of long messages; fewer in a small map.
        """
        weight_max = min(SLICE_ROWS, self._context.turn_rows)
        found: list[tuple[bytes, bytes]] = []
        start, weight, last = max(job.row["cursor"], prefix), 0, True
        for key, value in self._context.tx.scan(start, keys.after(prefix)):
            if weight >= weight_max:
                last = False
                break
            found.append((key, value))
            weight += 1
            if key.startswith(keys.SPACE_MESSAGE):
                weight += entries.body_rows(entries.decode(value))
        self._context.rows += 2 * weight
        if found:
            job.row["cursor"] = found[-1][0] + b"\0"
        return found, last

    def _purge(self, job: Job) -> bool:
        """Remove what arrived before the purge and is not leased."""
        queue = self._catalogue.by_id.get(job.row["queue_id"])
        if queue is None:
            return True
        found, last = self._slice(job, keys.lane(queue.id, keys.LANE_READY))
        for key, value in found:
            arrival = keys.place(key)[1]
            if arrival < job.row["before"] and arrival not in queue.leases:
                lane.remove(queue, self._context.tx, key, value)
                queue.counters.purged += 1
                job.row["done"] += 1
        self._context.touch(queue)
        return last

    def _sweep(self, job: Job) -> bool:
        """Remove what was not persistent and is gone since a restart; its arrivals are a range."""
        queue = self._catalogue.by_id.get(job.row["queue_id"])
        if queue is None:
            return True
        left = min(SLICE_ROWS, self._context.turn_rows)
        tx, first, before = self._context.tx, job.row["first"], job.row["before"]
        for number in range(len(job.row["cursor"]), 2 * (keys.PRIORITY_TOP + 1)):
            lane_, priority = divmod(number, keys.PRIORITY_TOP + 1)
            start = keys.message(queue.id, lane_, priority, max(first, job.row.get("at", 0)))
            found = list(
                islice(tx.scan(start, keys.message(queue.id, lane_, priority, before)), left)
            )
            for key, value in found:
                if entries.decode(value).volatile:
                    lane.remove(queue, tx, key, value)
                    job.row["done"] += 1
            left -= len(found)
            self._context.rows += 2 * len(found)
            if not left:
                job.row["at"] = keys.place(found[-1][0])[1] + 1
                return False
            job.row["cursor"], job.row["at"] = bytes(number + 1), 0
        return True

    def _drop(self, job: Job) -> bool:
        """Remove all that a deleted queue left, in the order of keys, as the cursor goes."""
        queue_id, tx = job.row["queue_id"], self._context.tx
        for space in _OF_A_QUEUE:
            found, _ = self._slice(job, keys.of_queue(space, queue_id))
            for key, value in found:
                if space == keys.SPACE_MESSAGE:
                    entries.delete_rows(tx, entries.decode(value))
                tx.delete(key)
            if found:
                return False
        return True

    def _origins(self, job: Job) -> bool:
        """Remove origins of which nothing is on their queue any more."""
        tx = self._context.tx
        found, last = self._slice(job, keys.SPACE_ORIGIN)
        of_queue = itemgetter(slice(1, keys.POSITION_AT))
        for queue_id, group in groupby(found, lambda row: of_queue(row[0])):
            queue = self._catalogue.by_id.get(int.from_bytes(queue_id, "big"))
            if queue is not None:
                gone, looked_at = evict(queue, tx, list(group))
                job.row["done"] += gone
                self._context.rows += looked_at
        return last

    def _retention(self, job: Job) -> bool:
        """Remove producers that nobody used for long."""
        now_ms = self._context.now.ms
        limit_ms = self._context.config.producer.retention_ms
        found, last = self._slice(job, keys.SPACE_PRODUCER)
        for key, value in found:
            used_ms = producer.used_ms_of(key, value)
            if used_ms is None or used_ms + limit_ms >= now_ms:
                continue
            if key[1:] not in self.producers_in_use:
                self._context.tx.delete(key)
                self.producers_gone += 1
        return last
