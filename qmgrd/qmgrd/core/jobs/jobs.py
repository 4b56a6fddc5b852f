"""Runs all jobs: chooses the next slice, wakes waiting jobs, and replies when jobs end.

Each turn gives every runnable job a share of its rows. The last hundred ended jobs are kept for an
hour so that operators can see them. `job.py` defines a job.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from qmgr_protocol.amount import amount
from qmgr_protocol.codec import pack, unpack
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.field import SEQ_END
from qmgr_protocol.messages import Error, Ok
from qmgrd.core.access.rights import Rights
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs import (
    drop,
    group_end,
    group_watch,
    move,
    origin_eviction,
    owner,
    purge,
    republish,
    retained,
    retention,
    sweep,
)
from qmgrd.core.jobs.job import (
    ASIDE,
    CANCELLABLE,
    MOVES,
    NEEDED,
    REPUBLISHES,
    Job,
    JobStep,
    new_row,
    read_row,
    record_of,
)
from qmgrd.core.layout import keys
from qmgrd.core.layout import owner as owners
from qmgrd.core.layout import row as rows
from qmgrd.core.layout.unused_bodies import SLICE_ROWS
from qmgrd.core.layout.value_checks import number
from qmgrd.core.queue.queue import Queue

# The maximum number of running jobs that requests began, and the same for deletions.
RUNNING_MAX = 1_000
SLICE_COST_ROWS = 10  # minimum cost of a slice in rows, even if the slice finds nothing
ENDED_MAX = 100
ENDED_KEPT_MS = 3_600_000
_Work = Callable[[Context, Catalogue, Job], JobStep]
_WORK: dict[str, _Work] = {
    "purge": purge.step,
    "drop": drop.step,
    "sweep": sweep.step,
    "origins": origin_eviction.step,
    "group": group_end.step,
    "retained": retained.step,
    **dict.fromkeys(MOVES, move.step),
    **dict.fromkeys(REPUBLISHES, republish.step),
}


class Jobs:
    """All jobs. Invariant: all jobs in ``_ready`` are in ``running``, and none is in ``ended``."""

    def __init__(self, context: Context, catalogue: Catalogue, rights: Rights) -> None:
        self._context = context
        self._catalogue = catalogue
        self._rights = rights
        self.running: dict[int, Job] = {}
        self.ended: dict[int, Job] = {}  # ended jobs; the job that ended first comes first
        # The number of running jobs that requests began, by user; "" if a job has no user.
        self.requested: Counter[str] = Counter()
        self.deletions = 0  # the number of running jobs that delete the rows of a queue
        self._ready: dict[int, Job] = {}  # job ids in the order of their next slices
        self._ending: dict[tuple[int, bytes], Job] = {}  # jobs by the group that they remove
        self._watching: dict[int, Job] = {}  # jobs by the id of the queue that they examine
        # Producers that are kept regardless of their age.
        self.producers_in_use: dict[bytes, int] = {}
        self._producers_gone: list[bytes] = []  # producers that retention removed in this turn

    def load(self) -> None:
        """Reads the jobs that were unfinished at the last stop, and the jobs that had ended."""
        self._context.unused_bodies.load(self._context.tx)
        ended = []
        for key, row in list(rows.scan(self._context.tx, keys.SPACE_JOB)):
            with self._context.aside.guard(self._context, key):
                job_id = number(
                    int.from_bytes(key[keys.REST], "big"), "the number of the job", 1, SEQ_END - 1
                )
                job = Job(job_id, read_row(unpack(row)), row)
                if job.is_over:
                    ended.append(job)
                else:
                    self._run(job)
        ended.sort(key=lambda job: (job.row["ended_us"], job.id))
        self.ended = {job.id: job for job in ended}

    def _run(self, job: Job) -> None:
        owner.adopt(self._rights, job)
        self.running[job.id] = job
        self._make_ready(job)
        kind, queue_id = job.row["kind"], job.row["queue_id"]
        if kind in CANCELLABLE:
            self.requested[job.user] += 1
        elif kind == "drop":
            self.deletions += 1
        elif kind == "group":
            self._ending[queue_id, job.row["group"]] = job
        elif kind == "watch":
            self._watching[queue_id] = job

    def forget(self, job: Job) -> None:
        """Deletes the row of the running job *job*."""
        del self.running[job.id]
        self._ready.pop(job.id, None)
        self._stop(job)

    def dropped(self) -> set[int]:
        """Returns the ids of deleted queues that may still have rows."""
        return {job.row["queue_id"] for job in self.running.values() if job.row["kind"] == "drop"}

    @property
    def busy(self) -> bool:
        """Whether a job, or the deletion of unused bodies, can continue immediately."""
        return bool(self._ready) or self._deletes_bodies

    @property
    def _deletes_bodies(self) -> bool:
        return self._context.unused_bodies.busy and not self._context.is_maintenance

    def check_room(self, user: str) -> None:
        """Raises JOBS_EXHAUSTED if *user* may begin no further job, such as a purge.

        A user can have at most as many jobs as it leaves free for others. Jobs that the daemon
        itself begins have separate limits: it starts one for each new subscription, and for each
        group that leaves.
        """
        count, own = self.requested.total(), self.requested[user] if user else 0
        if count >= RUNNING_MAX:
            raise _exhausted_error(f"{count} jobs run (the limit is {RUNNING_MAX})")
        if own >= RUNNING_MAX - count:
            raise _exhausted_error(
                f"user {owners.name_of(user)} has {amount(own, 'running job')}, and a user must "
                f"leave as many of the {RUNNING_MAX} free as it has: {RUNNING_MAX - count} are free"
            )

    def check_deletions(self) -> None:
        """Raises JOBS_EXHAUSTED if no further queue or subscription may be deleted now."""
        if self.deletions >= RUNNING_MAX:
            raise RequestError(
                ErrorCode.JOBS_EXHAUSTED,
                f"the messages of {self.deletions} deleted queues and subscriptions are being "
                f"removed (the limit is {RUNNING_MAX}); try again later",
                1_000,
            )

    def start(self, kind: str, *, user: str = "", **facts: Any) -> Job:
        """Begins a job of *kind* (see job.py) in this turn.

        Args:
            kind: The kind of the job.
            user: The user who began the job, and whose rights it needs. A job without a user may
                do everything.
            facts: The facts of the row that differ from the defaults.
        """
        if user:
            facts["user"] = user
        if kind in REPUBLISHES:
            facts["before"] = self._context.turn_number  # Parked messages are ordered by turn.
        row = new_row(kind, self._context.now.wall_us, facts)
        job = Job(self._context.ids.next(), row)
        self._store(job)
        self._run(job)
        return job

    def start_hourly(self) -> None:
        """Begins the jobs of each hour, unless they run already."""
        running = {job.row["kind"] for job in self.running.values()}
        for kind in ("retention", "origins"):
            if kind not in running:
                self.start(kind)

    def end_group(self, queue: Queue, group_id: bytes) -> None:
        """Starts to remove a group from *queue*.

        If too many groups are leaving, waits before it starts.
        """
        if (queue.id, group_id) in self._ending:
            return
        if len(self._ending) >= group_watch.ENDING_MAX:
            self.watch_groups(queue)
            return
        self.start("group", queue=queue.name, queue_id=queue.id, group=group_id)

    def watch_groups(self, queue: Queue) -> None:
        """Starts to examine all groups of *queue*.

        If such a job is already running, it runs once more.
        """
        job = self._watching.get(queue.id)
        if job is None:
            self.start("watch", queue=queue.name, queue_id=queue.id)
        elif not job.row["again"]:
            job.row["again"] = True
            self._store(job)

    def find(self, job_id: int) -> Job:
        """Returns job *job_id*.

        Raises:
            RequestError: JOB_UNKNOWN.
        """
        job = self.running.get(job_id) or self.ended.get(job_id)
        if job is None:
            raise RequestError(
                ErrorCode.JOB_UNKNOWN,
                f"job {job_id} does not exist or is forgotten: "
                f"the last {ENDED_MAX} ended jobs are kept for an hour",
            )
        return job

    def all(self) -> list[Job]:
        """Returns all jobs in the order in which they started."""
        return sorted([*self.running.values(), *self.ended.values()], key=lambda job: job.id)

    def cancel(self, job_id: int) -> Job:
        """Ends a job before it is done. A job that has ended does not change.

        Raises:
            RequestError: JOB_UNKNOWN, or VALUE_INVALID if the daemon itself requires the job.
        """
        job = self.find(job_id)
        kind = job.row["kind"]
        if kind not in CANCELLABLE:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"the queue manager needs job {job_id} ({kind}) to finish; only "
                f"these kinds can be cancelled: {', '.join(CANCELLABLE)}",
            )
        if not job.is_over:
            self._end(job, "cancelled", "")
        return job

    def run(self) -> None:
        """Runs slices of the jobs in rotation, at least one, while the turn has rows and time."""
        context = self._context
        if self._deletes_bodies:
            rows_max = min(SLICE_ROWS, context.slice_rows)
            context.count_read(context.unused_bodies.delete_slice(context.tx, rows_max), 0)
        for count, job in enumerate(list(self._ready.values())):
            if count and (context.rows > context.turn_rows or context.budget.is_over):
                return
            if not context.begin_work("job", job.id):
                del self._ready[job.id]
                continue
            context.count_read(SLICE_COST_ROWS, 0)
            # The next slice of this job comes after the other jobs.
            self._ready[job.id] = self._ready.pop(job.id)
            step = self._work(job)
            owner.charge(self._rights, job)
            self._settle(job, step)

    def _work(self, job: Job) -> JobStep:
        kind = job.row["kind"]
        job.error = owner.refusal(self._rights, job)
        if job.error is not None:
            return JobStep("failed", owner.failed_text(job.error))
        if wait_ms := owner.wait_ms(self._rights, job, self._context.now.ms):
            return JobStep(job.row["state"], job.row["text"], self._context.now.ms + wait_ms)
        if kind == "watch":
            return group_watch.step(self._context, self._catalogue, job, self._ending)
        if kind != "retention":
            return _WORK[kind](self._context, self._catalogue, job)
        self._forget_ended()
        return retention.step(self._context, job, self.producers_in_use, self._producers_gone)

    def take_producers_gone(self) -> list[bytes]:
        """Returns the producers that retention removed since the last call."""
        found, self._producers_gone = self._producers_gone, []
        return found

    def _settle(self, job: Job, step: JobStep) -> None:
        """Records the state of *job* after a slice."""
        if step.state not in ("running", "waiting"):
            self._end(job, step.state, step.text)
            return
        job.row["state"], job.row["text"] = step.state, step.text
        self._store(job)
        if step.wake_ms > self._context.now.ms:
            del self._ready[job.id]
            self._context.timers.at(step.wake_ms, partial(self._wake, job))

    def _wake(self, job: Job) -> None:
        if job.id in self.running:
            self._make_ready(job)

    def _make_ready(self, job: Job) -> None:
        if job.row["state"] != ASIDE:
            self._ready[job.id] = job

    def hold_back(self) -> None:
        """Suspends the jobs found at the start. Jobs that operators begin later run as usual."""
        self._ready.clear()

    def set_aside(self, job_id: int, why: str) -> None:
        """Prevents a running job from receiving further slices, even after restarts."""
        job = self.running.get(job_id)
        if job is not None:
            self._ready.pop(job_id, None)
            job.row |= {"state": ASIDE, "text": f"a slice of the job failed twice: {why}"}
            self._store(job)

    def resume(self, job_id: int) -> None:
        """Resumes a job that was set aside."""
        job = self.running.get(job_id)
        if job is not None:
            job.row |= {"state": "running", "text": ""}
            self._store(job)
            self._make_ready(job)

    def give_up(self, job_id: int) -> None:
        """Ends a job that was set aside.

        Raises:
            RequestError: VALUE_INVALID if only this job can remove the remaining rows.
        """
        job = self.running.get(job_id)
        if job is None:
            return
        if job.row["kind"] in NEEDED:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"only job {job_id} ({job.row['kind']}) can remove the remaining rows of "
                f"queue {job.row['queue']}; retry it instead",
            )
        self._end(job, "failed", job.row["text"])

    def _end(self, job: Job, state: str, text: str) -> None:
        now = self._context.now
        job.row |= {"state": state, "text": text, "ended_us": now.wall_us, "ended_ms": now.ms}
        self._store(job)
        self.forget(job)
        self.ended[job.id] = job
        job.wanted = None
        while len(self.ended) > ENDED_MAX:
            self._forget(next(iter(self.ended)))
        if job.row["kind"] in CANCELLABLE:
            self._context.audit.record(record_of(job))
        if job.waiting is not None:
            self._answer(job, *job.waiting)

    def _stop(self, job: Job) -> None:
        kind, queue_id = job.row["kind"], job.row["queue_id"]
        if kind in CANCELLABLE:
            self.requested[job.user] -= 1
            self.requested += Counter()  # removes users without jobs
        elif kind == "drop":
            self.deletions -= 1
        elif kind == "watch":
            del self._watching[queue_id]
        elif kind == "group":
            del self._ending[queue_id, job.row["group"]]
            for waiting in self._watching.values():
                self._make_ready(waiting)  # Another group may leave now.

    def _answer(self, job: Job, connection: int, request_id: int) -> None:
        done = job.row["done"]
        if job.row["state"] == "done":
            self._context.send(connection, Ok(request_id, {"messages": done}))
            return
        error = job.error or RequestError(
            ErrorCode.CANCELLED, f"job {job.id} was cancelled after it had removed {done} messages"
        )
        answer = Error(request_id, error.code, error.error_class, 0, error.text)
        self._context.send(connection, answer)

    def _forget_ended(self) -> None:
        """Forgets the jobs that ended more than an hour ago."""
        limit_ms = self._context.now.ms - ENDED_KEPT_MS
        for job in [job for job in self.ended.values() if job.row["ended_ms"] <= limit_ms]:
            self._forget(job.id)

    def _forget(self, job_id: int) -> None:
        del self.ended[job_id]
        self._context.tx.delete(keys.job(job_id))
        self._context.wrote = True

    def _store(self, job: Job) -> None:
        """Writes the row of *job* if it changed. A waiting job causes no write."""
        row = pack(job.row)
        if row != job.stored:
            job.stored = row
            rows.put(self._context.tx, keys.job(job.id), row)
            self._context.wrote = True


def _exhausted_error(why: str) -> RequestError:
    text = f"{why}; wait for one to end, or cancel one"
    return RequestError(ErrorCode.JOBS_EXHAUSTED, text, 1_000)
