"""Events for operators, as messages on SYSTEM.EVENTS.

The queue is like any other queue: durable, open to any reader, and bounded by evicting its oldest
messages. Equal events of one turn become one message that states their number. Applications and
linked queue managers can cause any number of events. So the events that they cannot repeat have the
highest priority: the queue evicts them last.
"""

import json
from typing import Any

from qmgr_protocol import record as records
from qmgr_protocol.record import Fields
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.catalogue.system import AUDIT, EVENTS
from qmgrd.core.context.context import Context, Facts
from qmgrd.core.context.put_records import put_records
from qmgrd.core.returns.dead_letters import DeadLetters

EVENTS_PER_TURN = 100
# The events that no application and no linked queue manager can repeat. Others that report requests
# of operators, such as "inhibited", are also in the audit.
LASTING = frozenset(
    {
        "certificate ended",
        "certificate ends soon",
        "history dropped",
        "history nearly full",
        "last snapshot cannot be noted",
        "link refused",
        "set aside",
        "snapshot failed",
        "snapshots cannot be pruned",
    }
)
# These events are not reported for the event queue itself, because each would cause another event.
# They are normal on the queue of the audit, which counts the records that it drops.
_OF_THE_QUEUE_ITSELF = frozenset(
    {
        "message expired",
        "message dead-lettered",
        "dead letter has no place",
        "queue overflowed",
        "queue full",
    }
)


def put_events(context: Context, catalogue: Catalogue, dead_letters: DeadLetters) -> None:
    """Puts the events of this turn on the queue of events."""
    if not context.events:
        return
    found = [x for x in context.events.items() if not _is_of_events(*x[0])]
    context.events = {}
    if not found or context.store_full or not context.begin_work("events"):
        # The log also has these events. In a full store, the event queue must not use the remaining
        # room.
        return
    found.sort(key=lambda x: x[0][0] not in LASTING)
    batch = [_record(context, event, dict(facts), n) for (event, facts), n in found]
    if len(batch) > EVENTS_PER_TURN:
        left_out = len(batch) - EVENTS_PER_TURN
        batch[EVENTS_PER_TURN:] = [_record(context, "events left out", {}, left_out)]
    queue = catalogue.system(EVENTS)
    put_records(context, dead_letters.make_dead_letter, queue, batch)
    context.mark_changed(queue)
    context.events = {}


def _is_of_events(event: str, facts: Facts) -> bool:
    is_own = ("queue", EVENTS) in facts or ("queue", AUDIT) in facts
    return is_own and event in _OF_THE_QUEUE_ITSELF


def _record(context: Context, event: str, facts: dict[str, Any], count: int) -> bytes:
    facts = {"event": event, "count": count, "manager": context.name} | facts
    body = json.dumps(facts, ensure_ascii=False).encode()
    envelope = {records.HEADERS: facts, records.CONTENT_TYPE: "application/json"}
    priority = records.PRIORITY_MAX if event in LASTING else records.PRIORITY_DEFAULT
    return records.encode(Fields(body, priority=priority, envelope=envelope))
