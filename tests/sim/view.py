"""What is known of a queue manager from outside, and of each message that it holds."""

from dataclasses import dataclass, field
from typing import Any

from qmgr_protocol.codec import unpack
from qmgr_protocol.window import ids_of
from qmgrd.core.layout import keys
from qmgrd.core.queue.group.row import GroupRow
from tests.sim.ledger import Holder, Member, Put, Unit

Handle = tuple[int, int]  # queue id and arrival


@dataclass(slots=True)
class Held:
    """A message on a queue, as last made durable."""

    put: Put
    trailer: bytes
    target: str
    priority: int
    crashes: int  # of this queue manager, when it arrived
    life: int  # of the process in which it arrived
    is_delayed: bool
    expires_ms: int  # store clock, 0 = never
    ready_ms: int  # store clock before which nobody is to have it
    outcome: int  # after which it could be had
    delivered: int = 0
    failed: int = 0
    is_member: bool = False  # it lies on its queue as a member of a group
    is_stuck: bool = False  # a dead letter without a place: that of its UID came elsewhere from


@dataclass(slots=True)
class Handed:
    """The last delivery of a message that left the queue manager."""

    lease: int
    connection: int
    deadline_ms: int  # store clock
    life: int  # of the process: leases die with it
    unit: Unit | None = None  # that took it in: then there is no deadline
    offered: Unit | None = None  # that was asked to: its client may not know yet that it did
    holder: Holder = ()  # who was handed it in logical or pinned order
    member: Member | None = None  # its place in a group, if it has one there
    came_back: bool = False  # that is durable


@dataclass(slots=True)
class Group:
    """What is known of a group on a queue."""

    row: GroupRow | None = None  # as last made durable
    there: dict[int, Handle] = field(default_factory=dict)  # its members, by number
    left: set[int] = field(default_factory=set)  # for good
    strangers: set[int] = field(default_factory=set)  # numbers of dead letters that came back
    outs: list[tuple[int, Handle, Handed]] = field(default_factory=list)  # handed out in order
    holder: Holder = ()  # who was handed some of it last
    is_parked: bool = False  # it was, at some time
    was_stopped: bool = False  # it waited for an operator, at some time
    failed: int = 0  # of its members, that are dead letters for what became of themselves


@dataclass(slots=True)
class View:
    """What is known of one queue manager from outside."""

    queues: dict[int, tuple[str, str]] = field(default_factory=dict)  # id: name, kind
    attributes: dict[int, dict[str, Any]] = field(default_factory=dict)  # by id, as durable
    altered: set[str] = field(default_factory=set)  # queues, in the last transaction
    held: dict[Handle, Held] = field(default_factory=dict)
    uids: set[tuple[int, str, bytes]] = field(default_factory=set)  # on a queue now
    passing: set[tuple[int, str, bytes]] = field(default_factory=set)  # moving just now
    ever: set[tuple[str, bytes]] = field(default_factory=set)  # on a queue of that name, ever
    rows: dict[bytes, bytes] = field(default_factory=dict)  # windows, as last made durable
    told: dict[bytes, int] = field(default_factory=dict)  # stream: highest commit id that left
    handed: dict[Handle, Handed] = field(default_factory=dict)
    groups: dict[tuple[int, bytes], Group] = field(default_factory=dict)  # by queue and id
    waiting: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # see order.py
    order: dict[tuple[int, int, str], int] = field(default_factory=dict)  # and producer: serial
    life: int = 0
    crashes: int = 0
    fenced: set[int] = field(default_factory=set)
    clock: tuple[int, int, int] = (0, 0, 0)  # store clock ms, last stamp us, turn number

    def group_of(self, queue_id: int, put: Put) -> Group:
        """Return the group of *put*, which has to be in one, on a queue."""
        assert put.member is not None
        return self.groups.setdefault((queue_id, put.member.group_id), Group())

    @property
    def now_ms(self) -> int:
        """The store clock of the last transaction."""
        return self.clock[0]

    def met(self, trailer: bytes, *names: str) -> bool:
        """Return whether a message of that UID is on one of *names*, or was until just now."""
        numbers = [number for number, (name, _) in self.queues.items() if name in names]
        found = {(number, "", trailer) for number in numbers}
        return not found.isdisjoint(self.uids) or not found.isdisjoint(self.passing)

    def is_committed(self, unit: Unit) -> bool:
        """Return whether the window of its producer has the commit of *unit*, as last stored."""
        producer_id, seq_id = unit.commit
        row = self.rows.get(keys.SPACE_PRODUCER + producer_id)
        if row is None or not seq_id or unit.answer not in ("", "acked"):
            return False
        commit_id, _, _, ahead, refused = unpack(row)[:5]
        came = seq_id <= commit_id or seq_id in ids_of(ahead)
        return came and not any(seq_id in ids_of(runs) for _, runs in refused)

    def offer(self, handle: Handle, lease: int, unit: Unit) -> None:
        """Take note that *unit* is asked to take in what is leased."""
        handed = self.handed.get(handle)
        if handed is not None and handed.lease == lease:
            handed.offered = unit

    def attribute(self, queue_id: int, name: str, default: Any) -> Any:
        """Return an attribute of a queue, as last made durable."""
        return self.attributes.get(queue_id, {}).get(name, default)

    def is_lost(self, held: Held) -> bool:
        """Return whether a message is gone with a restart."""
        return held.put.traits.volatile and held.life != self.life

    def is_expired(self, held: Held, now_ms: int) -> bool:
        """Return whether the time of a message is over."""
        return 0 < held.expires_ms <= now_ms

    def is_stopped(self, queue_id: int, held: Held) -> bool:
        """Return whether a message is in a group that waits for an operator, or did until now."""
        if held.put.member is None:
            return False  # One that was moved here may be a member, too.
        row = self.group_of(queue_id, held.put).row
        return row is not None and (
            row.is_paused or row.parked_number > 0 or row.changed_ms >= self.now_ms
        )

    def stopped(self, *, clean: bool) -> None:
        """Take note that a process is gone, with all leases and what is not persistent."""
        self.life += 1
        self.crashes += not clean
        for (queue_id, _), held in self.held.items():
            if held.put.traits.volatile:
                self.uids.discard((queue_id, held.target, held.trailer))
