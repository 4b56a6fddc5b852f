"""Runs a daemon without one of its defences: ``python -m tests.process.hostile.planted events``.

The hostile clients must find each fault, see tests/process/test_hostile_planted.py.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

from qmgr_protocol import messages as m
from qmgrd.core import broker, growth
from qmgrd.core.catalogue import system
from qmgrd.core.catalogue.catalogue import Catalogue
from qmgrd.core.context.context import Context
from qmgrd.core.jobs.group_refresh import refresh_groups
from qmgrd.core.jobs.jobs import Jobs
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.limits import budget
from qmgrd.core.limits.unread_replies import UnreadReplies
from qmgrd.core.queue import settle
from qmgrd.core.queue.lease_number import LeaseNumbers
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.settle import ack_all
from qmgrd.core.requests.queues import QueueAdmin
from qmgrd.core.returns.events import put_events
from qmgrd.core.sessions.session import Session
from qmgrd.main import main
from qmgrd.net.unsent import Unsent

READ_S = 0.01
ENDLESS_BYTES = 1 << 40


def events() -> None:
    """Lets clients put on system queues, and writes events after the last check of groups."""
    destination, refresh, put_all = Catalogue.destination, refresh_groups, put_events
    is_over: list[bool] = []
    last: list[Jobs] = []

    def to_anywhere(self: Catalogue, name: str) -> tuple[Queue, str]:
        return (self.system(name), "") if name == system.EVENTS else destination(self, name)

    def refresh_once(context: Context, jobs: Jobs) -> None:
        last[:] = [jobs]
        if is_over:
            is_over.clear()  # Events were written after the check, which is too late.
        else:
            refresh(context, jobs)

    def put_late(context: Context, *arguments: Any) -> None:
        refresh(context, last[0])
        put_all(context, *arguments)
        is_over.append(True)

    Catalogue.destination = to_anywhere  # type: ignore[method-assign]
    vars(broker).update(put_events=put_late, refresh_groups=refresh_once)


def stall() -> None:
    """Removes the time budget of turns, and makes a read as expensive as a long scan."""
    status, begin = QueueAdmin.status, budget.Budget.__init__

    def slow_status(self: QueueAdmin, session: Session, message: m.Status) -> None:
        time.sleep(READ_S)
        status(self, session, message)

    def endless(self: budget.Budget, turn_ms: int, clock_ns: Any = None) -> None:
        begin(self, turn_ms)

    QueueAdmin.status = slow_status  # type: ignore[method-assign]
    budget.Budget.__init__ = endless  # type: ignore[method-assign]


def ack_any(
    queue: Queue, tx: Transaction, now: Now, handles: bytes, numbers: LeaseNumbers
) -> list[tuple[int, int]]:
    """Acknowledges messages by the positions in handles, whoever holds the leases."""
    exceptions = []
    for at, (priority, arrival, number) in enumerate(m.HANDLE.iter_unpack(handles)):
        lease = queue.leases.get(arrival)
        if lease is None:
            handle, holder = m.HANDLE.pack(priority, arrival, number), numbers
        else:
            handle = m.HANDLE.pack(priority, arrival, lease.number)
            holder = lease.lessee.numbers
        exceptions += [(at, code) for _, code in ack_all(queue, tx, now, handle, holder)]
    return exceptions


def rob() -> None:
    """Makes an ack need only a position, so that any client can settle any lease."""
    settle.ack_all = ack_any


def bloat() -> None:
    """Stores an unlimited number of replies that peers do not fetch."""
    UnreadReplies.block = lambda self, connection: None  # type: ignore[method-assign]
    UnreadReplies.count_made = lambda self, connection, size_bytes: None  # type: ignore[method-assign]
    Unsent.room_bytes = lambda self, now_ms: ENDLESS_BYTES  # type: ignore[method-assign]
    Unsent.tick = lambda *_, **__: None  # type: ignore[method-assign]


def grow() -> None:
    """Lets requests other than puts add rows even if the store is full."""
    growth.check = lambda broker, message: None


FAULTS: dict[str, Callable[[], None]] = {
    "events": events,
    "stall": stall,
    "bloat": bloat,
    "rob": rob,
    "grow": grow,
}

if __name__ == "__main__":
    FAULTS[sys.argv.pop(1)]()
    main()
