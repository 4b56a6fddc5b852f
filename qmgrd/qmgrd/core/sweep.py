"""What happens when something is due: a delay is over, a message expires, a UID is forgotten.

A slice of what the schedule has a turn, so nothing is searched and no turn is long, however much is
due at once. What is leased does not expire until it comes back.
"""

from qmgr_protocol import record as records
from qmgr_protocol.errors import ErrorCode, RequestError, name_of
from qmgr_protocol.record import Fields, Uid
from qmgrd.core import entry as entries
from qmgrd.core import keys, lane
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.dead_letters import Cause, DeadLetters
from qmgrd.core.queue import Queue

SLICE_ROWS = 500
POSTPONED_MS = 1_000  # what is leased, or under way, is looked at again after that


class Sweep:
    """Does what is due."""

    def __init__(self, context: Context, catalogue: Catalogue, dead_letters: DeadLetters) -> None:
        self._context = context
        self._catalogue = catalogue
        self._dead_letters = dead_letters

    def run(self) -> None:
        """Do a slice of what is due by now."""
        context = self._context
        count = min(SLICE_ROWS, context.turn_rows)
        found = context.schedule.take(context.tx, context.now.ms, count)
        for key, value in found:
            _, _, queue_id, lane_, rank, arrival = keys.DUE.unpack(key)
            queue = self._catalogue.by_id.get(queue_id)
            if queue is None:
                continue  # Deleted since, with the message.
            context.dirty_queues[queue.id] = queue
            if lane_ == keys.LANE_REMEMBERED:
                queue.forget(context.tx, keys.POSITION.pack(lane_, rank, arrival), value)
                continue
            self._due(queue, keys.message(queue_id, lane_, keys.PRIORITY_TOP - rank, arrival))
        if found:
            context.rows += 3 * len(found)
            context.wrote = True

    def _due(self, queue: Queue, key: bytes) -> None:
        """Do what is due to the message under *key*, whose row in the schedule is gone."""
        context, (_, arrival) = self._context, keys.place(key)
        value = context.tx.get(key)
        entry = None if value is None else entries.decode(value)
        if value is None or entry is None or entry.flags == entries.UNREADABLE:
            return
        context.count_read(1, entries.record_bytes(entry))
        if queue.is_lost(entry, arrival):
            lane.remove(queue, context.tx, key, value)  # Counted when it was lost.
            return
        is_expired = 0 < entry.expires_ms <= context.now.ms
        if key[keys.POSITION_AT] == keys.LANE_DELAYED and not is_expired:
            lane.wake(queue, context.tx, key, entry)
            context.touch(queue)
        elif arrival in queue.leases or arrival <= queue.sent_id:
            lane.postpone(queue, context.tx, key, entry, context.now.ms + POSTPONED_MS)
        elif is_expired:
            self._expire(queue, key, value, entry)

    def _expire(self, queue: Queue, key: bytes, value: bytes, entry: entries.Entry) -> None:
        context = self._context
        record = entries.record(context.tx, entry)
        if queue.bounds.expired == "dead-letter" and not queue.is_transmission:
            # Its row in the schedule is gone: no other is to be removed in its place.
            if self._dead_letters.bury(queue, key, value, Cause(ErrorCode.MESSAGE_EXPIRED)):
                return
            lane.postpone(queue, context.tx, key, entry, context.now.ms + 10 * POSTPONED_MS)
            return
        lane.remove(queue, context.tx, key, value)
        queue.counters.expired += 1
        context.event("message expired", queue=queue.name)
        if len(record) >= records.HEAD_BYTES and record[7] & records.FLAG_REPORT_EXPIRY:
            self._report(queue, record)

    def _report(self, queue: Queue, record: bytes) -> None:
        """Tell the queue that *record* wants its reply on that it expired."""
        context = self._context
        try:
            fields = records.decode(record)
            reply_to = fields.envelope.get(records.REPLY_TO)
            if type(reply_to) is not str or fields.uid is None:
                return
            report = _report_of(queue.name, fields.uid, fields.correlation_id)
            target, bound_for = self._catalogue.destination(reply_to)
            limit = context.config.limits.message_max_bytes
            done = target.put(context.tx, context.now, context.stamper, [report], limit, bound_for)
            context.touch(target)
            for _, error in done.refused:
                raise error
        except RequestError as error:
            context.event("report has no place", queue=queue.name, why=name_of(error.code))


def _report_of(queue: str, uid: Uid, correlation_id: bytes) -> bytes:
    """Return the record that says that a message expired."""
    headers = {"report": ErrorCode.MESSAGE_EXPIRED.name, "uid": str(uid), "queue": queue}
    envelope = {records.HEADERS: headers}
    return records.encode(Fields(b"", correlation_id=correlation_id, envelope=envelope))
