"""Moves or copies to another queue the messages that arrived before the job began.

    not selected                            stays
    leased; for a copy: already in target   stays, counted as skipped
    a dead letter to a queue on which the   stays, counted as skipped
    job's user may not put
    too long for the target; a member of    stays, counted as stayed
    a group with leased or delayed members;
    dead letters that retry.py keeps
    the target refuses messages for now     the job waits, and tries this message again
    otherwise                               moves, counted as done

Each slice and the new cursor are committed in one transaction. Therefore, no message is lost or
moved twice, even if the daemon stops between two slices. A job waits for a full target, even if
puts would evict old messages there.
"""

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.amount import amount
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs import retry
from qmgrd.core.jobs.job import DONE, MORE, Job, JobStep
from qmgrd.core.jobs.slice import next_rows, selector_of
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import index, keys
from qmgrd.core.queue import lane, notes
from qmgrd.core.queue.put_errors import queue_bytes_full_error
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.selection import is_selected
from qmgrd.core.queue.take import is_available
from qmgrd.core.returns.transfer import Copied, Destination, copy, transfer

TRY_AGAIN_MS = 1_000
RATE_SLICES = 10  # number of slices per second of a job with a rate
LATE_MAX_MS = 1_000  # maximum time that a job may catch up when it is behind its rate


def step(context: Context, catalogue: Catalogue, job: Job) -> JobStep:
    """Moves a slice of the messages."""
    source = catalogue.by_id.get(job.row["queue_id"])
    if source is None:
        return JobStep("failed", f"queue {job.row['queue']} was deleted while the job ran")
    if job.paced_ms > context.now.ms:
        return JobStep(wake_ms=_ceil(job.paced_ms))
    move = _Move(context, catalogue, job, source)
    before = job.row["done"]
    try:
        found = move.run()
        if found is MORE and job.row["state"] == "waiting":
            job.row["state"] = "running"  # The message for which the job waited has moved.
            found = move.run()
    except RequestError as error:
        if error.error_class is not ErrorClass.RETRY_LATER:
            return JobStep("failed", error.text)
        found = JobStep("waiting", error.text, context.now.ms + TRY_AGAIN_MS)
    return paced(context, job, found, job.row["done"] - before)


def paced(context: Context, job: Job, found: JobStep, moved: int) -> JobStep:
    """Returns *found*, the job's state after *moved* messages, delayed to limit the job's rate."""
    rate, now_ms = job.row["rate"], context.now.ms
    if not rate or not moved:
        return found
    job.paced_ms = max(job.paced_ms, now_ms - LATE_MAX_MS) + moved * 1_000 / rate
    if found.state == "done":
        return found
    return found._replace(wake_ms=max(found.wake_ms, _ceil(job.paced_ms)))


def _ceil(ms: float) -> int:
    return -int(-ms // 1)


class _Move:
    """One slice of a move."""

    def __init__(self, context: Context, catalogue: Catalogue, job: Job, source: Queue) -> None:
        self._context = context
        self._catalogue = catalogue
        self._job = job
        self._source = source
        self._selector = selector_of(context, job, source)
        self._is_copy = job.row["kind"] == "copy"
        self._allowed: dict[str, bool] = {}  # whether the job's user may put on each queue

    def run(self) -> JobStep:
        """Moves the messages of the slice.

        Raises:
            RequestError: The target refuses messages temporarily or permanently.
        """
        row, place = self._job.row, self._target()
        left = self._quota()
        found, last = next_rows(
            self._context,
            self._job,
            keys.lane(self._source.id, row.get("lane", keys.LANE_READY)),
            self._selector,
        )
        end = row["cursor"]
        for key, value in found:
            if not left or not self._job.may_put_more:
                row["cursor"] = key
                return MORE
            # The job continues from here if the target stops accepting messages.
            row["cursor"] = key
            left -= self._one(key, value, place)
            if row["done"] and row["done"] == row["messages_max"]:
                return self._done()
        row["cursor"] = end
        if last and "lane" not in row and self._source.counters.grouped:
            row["lane"] = keys.LANE_GROUPED
            return self.run() if left == self._quota() or not self._job.is_limited else MORE
        return self._done() if last else MORE

    def _done(self) -> JobStep:
        return DONE._replace(text=self._job.stayed_text())

    def _quota(self) -> int:
        """Returns the number of messages that may move in this slice."""
        rate = self._job.row["rate"]
        return max(rate // RATE_SLICES, 1) if rate else self._context.turn_rows

    def _target(self) -> Destination | None:
        """Returns the target of all messages, or None if each message has its own."""
        name = self._job.row["target"]
        if not name:
            return None
        place = Destination(*self._catalogue.destination(name))
        if place.queue is self._source:
            raise RequestError(
                ErrorCode.VALUE_INVALID,
                f"{name} now refers to queue {self._source.name} itself: choose another target",
            )
        return place

    def _one(self, key: bytes, value: bytes, target: Destination | None) -> bool:
        """Moves, copies or skips a message. Returns whether the message was moved or copied."""
        job, source, arrival = self._job, self._source, keys.place(key)[1]
        if arrival >= job.row["before"]:
            return False
        if arrival in source.leases:
            job.count("examined")
            job.count("skipped")
            return False
        sound = entries.open_sound(self._context.tx, value, entries.OUTLINE_ABOVE_BYTES)
        if sound is None:
            lane.set_aside(source, self._context.tx, key, value)
            self._context.mark_changed(source)
            return False
        if not is_available(source, sound.entry, arrival, self._context.now):
            return False
        if not is_selected(
            self._selector, source, self._context.tx, key, sound.entry, sound.record
        ):
            job.count("examined")
            return False
        if torn := self._tears(key, sound.record):
            job.count("examined")
            job.count_stayed(torn)
            return False
        raw = notes.raw(self._context.tx, source.id, arrival) if sound.entry.noted else b""
        place = self._place(notes.decode(raw), records.own_bytes(sound.record), target)
        if place is None:
            job.count("examined")
            job.count("skipped")
            return False
        if isinstance(place, str):
            job.count("examined")
            job.count_stayed(place)
            return False
        outcome = self._go(key, value, sound.entry, place, raw)
        job.count("examined")
        job.count(outcome)
        return outcome == "done"

    def _tears(self, key: bytes, record: bytes) -> str:
        """Returns the reason why a message has to stay with its group, or "".

        If the message left alone, the consumer of the other members would acknowledge an incomplete
        group.
        """
        group = index.selected_by(record)[1]
        if key[keys.POSITION_AT] != keys.LANE_GROUPED or group is None:
            return ""
        groups = self._source.groups
        if groups.held_groups.leased_of(group[0]):
            return "other members of its group are leased"
        row = groups.row(self._context.tx, group[0])
        return "other members of its group are delayed" if row is not None and row.waiting else ""

    def _place(
        self, note: notes.Note, size: int, target: Destination | None
    ) -> Destination | str | None:
        """Returns the destination of a message of *size* bytes, or the reason why it stays.

        Returns None if the user who began the job may not put on the destination.
        """
        row, name, place = self._job.row, self._context.name, target
        if retry.is_retry(row, note):
            why = retry.reason_to_stay(note, row["retries_max"], is_targeted=target is not None)
            if why:
                return why
            original = notes.original_queue(note, name)
            if target is None and original and not self._may_put(original):
                return None
            found = target or retry.origin(self._catalogue, original)
            if isinstance(found, str):
                return found
            place = found
        assert place is not None, "a job without a target is a retry"
        if place.queue is self._source:
            return retry.on_original_queue(self._source.name)
        if size > place.queue.longest(self._context.config.limits.message_max_bytes):
            return f"too large for queue {place.queue.name}"
        return place

    def _may_put(self, name: str) -> bool:
        """Returns whether the user who began the job may put on queue *name*, for this slice."""
        found = self._allowed.get(name)
        if found is None:
            found = self._allowed[name] = self._job.may_put(name)
        return found

    def _go(
        self, key: bytes, value: bytes, entry: entries.Entry, target: Destination, raw: bytes
    ) -> str:
        """Moves or copies a message with the note *raw* to *target*.

        Returns the name of the counter to increment.
        """
        context, source, size = self._context, self._source, entries.record_bytes(entry)
        expires_ms, note = entry.expires_ms, notes.decode(raw)
        if retry.is_retry(self._job.row, note):
            expires_ms = retry.expires_ms(note, context.now.ms)
            raw = notes.encode(retry.note_after(note))
        _check_room(target.queue, size)
        cap_ms = target.queue.bounds.expiry_max_ms
        if cap_ms:
            expires_ms = min(expires_ms or records.EXPIRY_END, context.now.ms + cap_ms)
        if self._is_copy:
            copied = copy(context, source, key, value, target, expires_ms=expires_ms, note=raw)
            if copied is Copied.HELD:
                raise _uncommitted_error(target.queue)
            if copied is not Copied.NEW:
                return "skipped"
            self._job.count_put(size)
            return "done"
        if not transfer(context, source, key, value, target, expires_ms=expires_ms, note=raw):
            raise _uncommitted_error(target.queue)
        self._job.count_put(size)
        source.counters.count_moved()
        source.record_history(history.MOVED, key, entry, target=target.queue.name)
        return "done"


def _check_room(queue: Queue, size: int) -> None:
    if queue.has_room(1, 0) and not queue.has_room(1, size):
        raise queue_bytes_full_error(queue, size)
    if not queue.has_room(1, size):
        raise RequestError(
            ErrorCode.QUEUE_FULL,
            f"queue {queue.name} is full: {amount(queue.messages, 'message')} of at most "
            f"{queue.bounds.depth_max}, {queue.counters.bytes} bytes of {queue.bounds.bytes_max}",
            TRY_AGAIN_MS,
        )


def _uncommitted_error(queue: Queue) -> RequestError:
    return RequestError(
        ErrorCode.DUPLICATE_UNCOMMITTED,
        f"an uncommitted unit of work has put the same message on queue {queue.name}",
        TRY_AGAIN_MS,
    )
