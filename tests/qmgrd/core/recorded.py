"""The records of the audit, as a test sees them."""

import json
from typing import Any

from qmgr_protocol import record as records
from qmgrd.core.broker import Broker
from qmgrd.core.catalogue.system import AUDIT
from qmgrd.core.layout import entry as entries
from qmgrd.core.queue import order
from qmgrd.core.queue.queue import Queue
from tests.qmgrd.core.harness import Manager


def stored_audit(manager: Manager) -> list[bytes]:
    """Returns the records that are stored, in the order of their arrival, without a request."""
    found: list[bytes] = []

    def read(broker: Broker) -> None:
        queue = broker.catalogue.queues.get(AUDIT)
        if isinstance(queue, Queue):
            tx = broker.context.tx
            for _, value in order.by_arrival(queue, tx, 0):
                found.append(entries.record(tx, entries.decode(value)))

    manager.turns.intake.event(0, read)
    manager.turn()
    return found


def audit_of(manager: Manager) -> list[dict[str, Any]]:
    """Returns the content of the stored records, in the order of their arrival."""
    return [json.loads(records.decode(found).body) for found in stored_audit(manager)]


def actions(manager: Manager, **facts: Any) -> list[str]:
    """Returns the actions of the stored records that have these *facts*."""
    return [
        found["action"]
        for found in audit_of(manager)
        if all(found[name] == value for name, value in facts.items())
    ]
