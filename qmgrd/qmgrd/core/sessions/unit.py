"""A unit of work: puts and gets that take effect together or not at all. Units are in memory only.

    put ──▶ held: checked, stamped, position kept──commit──▶ appended at that position
    get ──▶ leased, without a deadline            ──commit──▶ removed
                                                  ──backout──▶ puts are dropped, gets returned

A commit happens in one turn, so it is atomic, even in a crash. Nothing is stored before the commit.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from qmgr_protocol.topic import MARK
from qmgrd.core.layout.index import is_last
from qmgrd.core.limits.timers import Timer
from qmgrd.core.queue.held_puts import HeldPut
from qmgrd.core.queue.lease import Lessee
from qmgrd.core.queue.queue import Queue

if TYPE_CHECKING:
    from qmgrd.core.sessions.session import Session

PUT_BYTES = 1024  # the number of bytes in memory for a put, in addition to its record


class SessionUnit:
    """One unit of work. Invariant: ``gets`` counts the leases of ``lessees``."""

    __slots__ = ("bytes", "held_bytes", "lessees", "number", "puts", "rows", "session", "timer")

    def __init__(self, number: int, session: "Session") -> None:
        self.number = number
        self.session = session
        self.puts: list[HeldPut] = []
        self.lessees: dict[int, Lessee] = {}  # lessees by queue id
        self.bytes = 0
        self.held_bytes = 0  # the number of bytes that the puts use in memory
        self.rows = 0
        self.timer: Timer | None = None  # the timer for the maximum age

    @property
    def gets(self) -> int:
        """The number of messages that the unit has leased."""
        return sum(len(lessee.leases) for lessee in self.lessees.values())

    def lessee(self, queue: Queue) -> Lessee:
        """Returns the lessee for messages that this unit gets from *queue*."""
        found = self.lessees.get(queue.id)
        if found is None:
            session = self.session
            found = Lessee(queue, session.numbers, session.name, is_unit=True)
            self.lessees[queue.id] = found
        return found

    def names(self) -> Iterator[str]:
        """Yields the names of the queues and topics that the puts of this unit reach."""
        reached = {(x.queue.id, x.prepared.target): x.queue for x in self.puts}
        for (_, encoded), queue in reached.items():
            target = encoded.decode()
            if queue.is_publications:
                yield MARK + target
            elif queue.is_transmission:  # The target belongs to the link's peer, or is behind it.
                yield target if "@" in target else target + queue.name
            else:
                yield queue.name

    def add_puts(self, queue: Queue, puts: list[HeldPut], rows: int) -> int:
        """Adds puts to *queue*, for which the commit writes *rows* rows.

        Returns their size in memory.
        """
        size, arrivals = 0, dict[bytes, int]()
        for held in puts:
            arrivals[held.index_key] = held.arrival
            size += len(held.prepared.record)
            member = held.prepared.member
            if member is not None:
                queue.groups.pending.keep(member, is_last=is_last(held.prepared.record))
        queue.uncommitted.add(arrivals, size)
        self.puts += puts
        self.bytes += size
        self.rows += rows
        size += PUT_BYTES * len(puts)
        self.held_bytes += size
        self.session.unit_bytes += size
        return size

    def remove_puts(self) -> list[HeldPut]:
        """Removes all puts from the unit, and returns them."""
        self.session.unit_bytes -= self.held_bytes
        self.held_bytes = 0
        puts, self.puts = self.puts, []
        for queue, prepared, _, index_key in puts:
            queue.uncommitted.remove(index_key, len(prepared.record))
            if prepared.member is not None:
                queue.groups.pending.give_up(prepared.member)
        return puts
