"""Puts the records of the audit on SYSTEM.AUDIT, in the turn of the change that they record.

The queue holds records of three priorities (context/audit_trail.py). Above its size, the oldest
records of refused logins leave first, and then those of routine. So strangers push out only records
of strangers (or few others if there are none), and users push out no records of changes by failing.
Records older than audit.age_max_ms leave a few at a time. In a full store, a new record replaces an
old one.
"""

import json
from itertools import accumulate, islice
from typing import Any

from qmgr_protocol import record as records
from qmgr_protocol.record import Fields
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.system import AUDIT
from qmgrd.core.context.audit_trail import CHANGE, ROUTINE, STRANGER, AuditRecord, AuditTrail
from qmgrd.core.context.context import Context, Note
from qmgrd.core.context.put_records import put_records, stamped_bytes
from qmgrd.core.layout import entry as entries
from qmgrd.core.queue import lane, order
from qmgrd.core.queue.order import Rows
from qmgrd.core.queue.queue import Queue
from qmgrd.core.returns.dead_letters import DeadLetters

DROPPED = "AuditDropped"  # the action of a record that states how many records were dropped
TRIM_ROWS = 64  # old records removed in a turn, in addition to twice the number of new ones
TRIM_MAX = 1_000  # old records removed each hour, if nothing is recorded
ANY_TIME_US = 2**63  # later than the time of any record
EVICTED_MAX = 1_000  # old records that new ones replace in a turn of a full store
_FACTS = ("action", "user", "method", "address", "client", "kind", "object", "result")


def put_audit(context: Context, catalogue: Catalogue, dead_letters: DeadLetters) -> None:
    """Puts the records of this turn on the queue of the audit, and logs them."""
    trail = context.audit
    if trail.due_ms is not None and trail.due_ms <= context.now.ms:
        _sum_up(trail)
    if not trail.pending:
        return
    found, trail.pending = trail.pending, []
    for record in found:
        _log(context, record)
    if not context.begin_work("audit"):
        trail.drop(len(found))
        return
    queue = catalogue.system(AUDIT)
    context.mark_changed(queue)
    purged = queue.counters.purged
    batch = _encoded(context, queue, _fitting(context, queue, found))
    done = put_records(context, dead_letters.make_dead_letter, queue, batch)
    evicted = queue.counters.purged - purged
    trail.drop(len(done.refused) + len(found) - len(batch) + evicted)
    _remove_old(context, queue, TRIM_ROWS + 2 * len(batch))


def end_audit(trail: AuditTrail) -> None:
    """Adds the records of all that was only counted, because the queue manager stops."""
    _sum_up(trail)


def trim_audit(context: Context, catalogue: Catalogue) -> None:
    """Removes some of the records that are too old."""
    found = catalogue.queues.get(AUDIT)
    if isinstance(found, Queue) and context.begin_work("audit"):
        _remove_old(context, found, TRIM_MAX)


def _sum_up(trail: AuditTrail) -> None:
    trail.sum_up()
    if trail.dropped:
        # Strangers can cause one in each minute, so the record must not push out those of users.
        trail.record(AuditRecord(DROPPED, count=trail.dropped, priority=STRANGER))
        trail.dropped = 0


def _fitting(context: Context, queue: Queue, found: list[AuditRecord]) -> list[AuditRecord]:
    """Returns the records for which the store has room, those of changes first if it is full."""
    size = sum(2 * len(str(record)) + 256 for record in found)
    if not context.operators_full and size <= context.operator_bytes:
        context.room_bytes -= size
        context.operator_bytes -= size
        return found
    wanted = sorted(found, key=lambda record: -record.priority)[:EVICTED_MAX]
    users = [record for record in wanted if not record.is_stranger]
    strangers = wanted[len(users) :]
    users = users[: _remove(context, queue, len(users), ANY_TIME_US)]
    return users + strangers[: _remove(context, queue, len(strangers), ANY_TIME_US, (STRANGER,))]


def _encoded(context: Context, queue: Queue, found: list[AuditRecord]) -> list[bytes]:
    """Returns the records to put. Those of strangers that would replace others are left out.

    If the queue is full, the room of older records of strangers is available to new ones. One is
    put in any case, so that the audit shows that there were some.
    """
    batch = [(record.is_stranger, _encode(context, record)) for record in found]
    encoded = [value for _, value in batch]
    if queue.has_room(len(encoded), stamped_bytes(context, encoded)):
        return encoded
    users = [value for is_stranger, value in batch if not is_stranger]
    strangers = [value for is_stranger, value in batch if is_stranger]
    rows = islice(_of_priority(context, queue, STRANGER), len(strangers))
    room = sum(entries.record_bytes(entries.decode(value)) for _, value in rows)
    sizes = accumulate(stamped_bytes(context, [value]) for value in strangers)
    return users + strangers[: max(1, sum(size <= room for size in sizes))]


def _of_priority(context: Context, queue: Queue, priority: int) -> Rows:
    head, grouped = queue.positions.ready[priority], queue.positions.grouped[priority]
    return order.of_priority(queue, context.tx, priority, head, grouped)


def _remove_old(context: Context, queue: Queue, count: int) -> None:
    """Removes up to *count* records that are older than the limit."""
    _remove(context, queue, count, context.now.wall_us - context.config.audit.age_max_ms * 1_000)


def _remove(
    context: Context,
    queue: Queue,
    count: int,
    before_us: int,
    priorities: tuple[int, ...] = (STRANGER, ROUTINE, CHANGE),
) -> int:
    """Removes up to *count* records put before *before_us*, those of the first priority first.

    Returns their number.
    """
    leaving: list[tuple[bytes, bytes]] = []
    for priority in priorities:
        rows = _of_priority(context, queue, priority)
        for key, value in islice(rows, count - len(leaving)):
            if entries.decode(value).put_us >= before_us:
                break
            leaving.append((key, value))
    for key, value in leaving:
        lane.remove(queue, context.tx, key, value)
        queue.counters.count_purged()
    if leaving:
        context.mark_changed(queue)
    return len(leaving)


def _facts(context: Context, record: AuditRecord) -> dict[str, Any]:
    """Returns the facts of a record that selectors can use."""
    facts = {name: getattr(record, name) for name in _FACTS}
    return facts | {
        "connection": record.connection,
        "count": record.count,
        "manager": context.name,
        "since_us": record.since_us,
    }


def _encode(context: Context, record: AuditRecord) -> bytes:
    facts = _facts(context, record)
    body = json.dumps(facts | {"detail": record.detail}, ensure_ascii=False).encode()
    envelope = {records.HEADERS: facts, records.CONTENT_TYPE: "application/json"}
    return records.encode(Fields(body, priority=record.priority, envelope=envelope))


def _log(context: Context, record: AuditRecord) -> None:
    if context.config.audit.log:
        facts = {key: value for key, value in _facts(context, record).items() if value}
        if record.detail:
            facts["detail"] = record.detail
        # The trail limits the number of lines. Refused logins must not replace the other lines.
        context.outcome.notes.append(Note("info", "audit", facts, record.is_stranger))
