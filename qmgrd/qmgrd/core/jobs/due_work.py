"""Does the work that is due: ends delays, expires messages, forgets UIDs.

A turn does a slice of the schedule. No search is needed, and no turn is long even if much work is
due at the same time. A leased message does not expire until it returns. The daemon checks a leased
message again, at intervals that grow with the duration of the lease.
"""

from contextlib import suppress

from qmgr_protocol import history
from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgr_protocol.group_id import shown
from qmgr_protocol.record import Fields, Uid
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.layout import entry as entries
from qmgrd.core.layout import keys
from qmgrd.core.limits.budget import LOOK_EACH
from qmgrd.core.puts import client_put
from qmgrd.core.queue import lane
from qmgrd.core.queue.notes import Cause
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters
from qmgrd.core.returns.link_shares import MAP_SHARE

SLICE_ROWS = 500
# Number of rows of most expiring messages: two of the schedule, the entry, and the UID.
ROWS_EACH = 4
# Minimum and maximum time until the daemon checks a leased or sent message again.
POSTPONED_MS, POSTPONED_MAX_MS = 1_000, 60_000
NO_PLACE_MS = 10_000  # time until the next attempt if no dead-letter queue accepts a message


class DueWork:
    """The work that the schedule lists as due."""

    def __init__(self, context: Context, catalogue: Catalogue, dead_letters: DeadLetters) -> None:
        self._context = context
        self._catalogue = catalogue
        self._dead_letters = dead_letters

    def run(self) -> None:
        """Does a slice of the work that is due."""
        context = self._context
        if context.schedule.next_ms is None or context.schedule.next_ms > context.now.ms:
            return
        count = min(SLICE_ROWS, context.slice_rows)
        rows_max = context.rows + ROWS_EACH * count
        found = context.schedule.due(context.tx, context.now.ms, count)
        for at, (key, value) in enumerate(found):
            if context.rows >= rows_max or (at and not at % LOOK_EACH and context.budget.is_over):
                break  # Long messages have many rows. The next turn does the rest.
            context.begin_work("due", key)
            context.tx.delete(key)
            context.count_read(1, 0)
            _, _, queue_id, lane_, rank, arrival = keys.DUE.unpack(key)
            queue = self._catalogue.by_id.get(queue_id)
            if queue is None:
                continue  # The queue was deleted with the message.
            context.dirty_queues[queue.id] = queue
            if lane_ == keys.LANE_GROUP:
                self._look_at_group(queue, value)
                continue
            if lane_ == keys.LANE_REMEMBERED:
                queue.forget(context.tx, keys.POSITION.pack(lane_, rank, arrival), value)
                continue
            self._due(queue, keys.message(queue_id, lane_, keys.PRIORITY_TOP - rank, arrival))
            context.wrote = True
        context.working = None
        context.schedule.load(context.tx)  # The first row may have been removed with its message.

    def _due(self, queue: Queue, key: bytes) -> None:
        """Does the work that is due for the message under *key*, whose row in the schedule is
        deleted.
        """
        context, (_, arrival) = self._context, keys.place(key)
        value = context.tx.get(key)
        entry = None if value is None else entries.decode(value)
        if value is None or entry is None or entry.flags == entries.UNREADABLE:
            return
        if queue.is_lost(entry, arrival):
            # A job would remove the message later. The message is already counted as lost.
            lane.lose(queue, context.tx, key, value)
            return
        is_expired = 0 < entry.expires_ms <= context.now.ms
        if key[keys.POSITION_AT] == keys.LANE_DELAYED and not is_expired:
            lane.wake(queue, context.tx, key, entry)
            context.mark_changed(queue)
        elif entry.delayed and not is_expired:
            over = entry._replace(flags=entry.flags & ~entries.DELAYED)
            lane.postpone(queue, context.tx, key, over, entry.expires_ms)
        elif arrival in queue.leases or arrival <= queue.positions.sent_id:
            held_ms = context.now.ms - entry.expires_ms
            wait_ms = min(max(held_ms, POSTPONED_MS), POSTPONED_MAX_MS)
            lane.postpone(queue, context.tx, key, entry, context.now.ms + wait_ms)
        elif is_expired:
            self._expire(queue, key, value, entry)

    def _look_at_group(self, queue: Queue, group_id: bytes) -> None:
        """Expires a group that was incomplete for too long, or forgets an empty group."""
        context = self._context
        context.mark_changed(queue)
        if queue.groups.is_due(context.tx, context.now, queue.bounds, group_id):
            context.event("group expired", queue=queue.name, group=shown(group_id))

    def _expire(self, queue: Queue, key: bytes, value: bytes, entry: entries.Entry) -> None:
        context = self._context
        if queue.bounds.expiry_action == "dead-letter" and not queue.is_transmission:
            # The schedule row is already deleted: make_dead_letter must not delete another row.
            if self._dead_letters.make_dead_letter(
                queue, key, value, Cause(ErrorCode.MESSAGE_EXPIRED)
            ):
                return
            lane.postpone(queue, context.tx, key, entry, context.now.ms + NO_PLACE_MS)
            return
        front = entries.front(context.tx, entry)
        is_reported = (
            not entry.shared  # Otherwise, the report would name each subscription to the publisher.
            and len(front) >= records.HEAD_BYTES
            and front[records.FLAGS_AT] & records.FLAG_REPORT_EXPIRY
        )
        record = entries.record(context.tx, entry) if is_reported else b""
        lane.remove(queue, context.tx, key, value, for_good=False)
        queue.counters.count_expired()
        queue.record_history(history.EXPIRED, key, entry)
        context.event("message expired", queue=queue.name)
        if record:
            self._report(queue, record)

    def _report(self, queue: Queue, record: bytes) -> None:
        """Sends the report that *record* expired to its reply queue, on behalf of its producer."""
        context = self._context
        try:
            # The same function found the reply_to for which the producer needed the right to put.
            reply_to = records.envelope_text(record, records.REPLY_TO)
            head = records.check(record)
            if reply_to is None or not head.origin_length:
                return
            uid = records.uid_of(record, head.origin_length)
            correlation_id = record[records.HEAD_BYTES :][: head.correlation_length]
            report = _report_of(queue.name, uid, correlation_id)
            if self._is_crowded(reply_to):
                raise RequestError(ErrorCode.QUEUE_BYTES_FULL, f"too much waits behind {reply_to}")
            _, _, done = client_put.store(
                context, self._catalogue, self._dead_letters, reply_to, [report]
            )
            for _, error in done.refused:
                raise error
        except RequestError as error:
            context.event("report has no place", queue=queue.name, why=name_of(error.code))

    def _is_crowded(self, reply_to: str) -> bool:
        """Returns whether a report for a peer would wait behind very many messages.

        A peer may request reports to its own queues, and not fetch them. The limits of the queue
        that expired messages leave do not apply to their reports.
        """
        with suppress(RequestError):  # The put fails and is counted.
            queue, _ = self._catalogue.destination(reply_to)
            is_to_peer = queue.is_transmission and not queue.is_publications
            limit_bytes = self._context.config.store.map_bytes // MAP_SHARE
            return is_to_peer and queue.counters.bytes >= limit_bytes
        return False


def _report_of(queue: str, uid: Uid, correlation_id: bytes) -> bytes:
    """Returns the record of the report about an expired message."""
    headers = {"report": ErrorCode.MESSAGE_EXPIRED.name, "uid": str(uid), "queue": queue}
    envelope = {records.HEADERS: headers}
    return records.encode(Fields(b"", correlation_id=correlation_id, envelope=envelope))
