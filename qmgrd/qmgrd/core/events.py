"""Events: what operators may want to know, as messages on SYSTEM.EVENTS.

The queue is like any other: durable, read by who likes, bounded by having its oldest make room. In
one turn the same event of the same things is told once, with how often it was.
"""

import json
from typing import TYPE_CHECKING, Any

from qmgr_protocol import record as records
from qmgr_protocol.record import Fields
from qmgrd.core import overflow
from qmgrd.core.catalogue import Catalogue
from qmgrd.core.context import Context
from qmgrd.core.system import EVENTS

if TYPE_CHECKING:
    from qmgrd.core.dead_letters import DeadLetters

EVENTS_PER_TURN = 100


def tell(context: Context, catalogue: Catalogue, dead_letters: "DeadLetters") -> None:
    """Put what happened in this turn on the queue of events."""
    if not context.events:
        return
    found = list(context.events.items())
    context.events = {}
    batch = [_record(context, event, dict(facts), n) for (event, facts), n in found]
    if len(batch) > EVENTS_PER_TURN:
        left_out = len(batch) - EVENTS_PER_TURN
        batch[EVENTS_PER_TURN:] = [_record(context, "events left out", {}, left_out)]
    if context.store_full:
        return  # The log has them; the queue must not take the last room.
    queue = catalogue.system(EVENTS)
    overflow.make_room(context, dead_letters, queue, len(batch), sum(map(len, batch)))
    limit = context.config.limits.message_max_bytes
    queue.put(context.tx, context.now, context.stamper, batch, limit)
    context.touch(queue)


def _record(context: Context, event: str, facts: dict[str, Any], count: int) -> bytes:
    facts = {"event": event, "count": count, "manager": context.name} | facts
    body = json.dumps(facts, ensure_ascii=False).encode()
    envelope = {records.HEADERS: facts, records.CONTENT_TYPE: "application/json"}
    return records.encode(Fields(body, envelope=envelope))
