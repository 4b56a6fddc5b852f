"""The outside view of a queue manager and of each message that it holds."""

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
    life: int  # the process run in which it arrived
    is_delayed: bool
    expires_ms: int  # store clock, 0 = never
    ready_ms: int  # store clock before which it must not be delivered
    outcome: int  # the turn after which it is available
    delivered: int = 0
    failed: int = 0
    is_member: bool = False  # stored as a member of a group
    is_stuck: bool = False  # a dead letter that cannot return: its UID is there already


@dataclass(slots=True)
class Handed:
    """The last delivery of a message that the queue manager sent."""

    lease: int
    connection: int
    deadline_ms: int  # store clock
    life: int  # the process run: its leases end with it
    unit: Unit | None = None  # the unit that includes it: then the lease has no deadline
    offered: Unit | None = None  # the unit that was asked to include it; the answer may be pending
    holder: Holder = ()  # its consumer, in logical or pinned order
    member: Member | None = None  # its position in a group, if it has one
    came_back: bool = False  # its return is durable


@dataclass(slots=True)
class Group:
    """A group on a queue, as seen from outside."""

    row: GroupRow | None = None  # as last made durable
    there: dict[int, Handle] = field(default_factory=dict)  # its members, by number
    left: set[int] = field(default_factory=set)  # for good
    strangers: set[int] = field(default_factory=set)  # numbers of dead letters that came back
    outs: list[tuple[int, Handle, Handed]] = field(default_factory=list)  # deliveries in order
    holder: Holder = ()  # the last consumer of its members
    is_parked: bool = False  # it was, at some time
    was_stopped: bool = False  # it waited for an operator, at some time
    failed: int = 0  # members that became dead letters through their own failures


@dataclass(slots=True)
class View:
    """The outside view of one queue manager."""

    queues: dict[int, tuple[str, str]] = field(default_factory=dict)  # id: name, kind
    attributes: dict[int, dict[str, Any]] = field(default_factory=dict)  # by id, as durable
    altered: set[str] = field(default_factory=set)  # queues, in the last transaction
    held: dict[Handle, Held] = field(default_factory=dict)
    uids: set[tuple[int, str, bytes]] = field(default_factory=set)  # on a queue now
    passing: set[tuple[int, str, bytes]] = field(default_factory=set)  # moving in this transaction
    ever: set[tuple[str, bytes]] = field(default_factory=set)  # ever on a queue of that name
    rows: dict[bytes, bytes] = field(default_factory=dict)  # windows, as last made durable
    told: dict[bytes, int] = field(default_factory=dict)  # stream: highest commit id sent
    handed: dict[Handle, Handed] = field(default_factory=dict)
    groups: dict[tuple[int, bytes], Group] = field(default_factory=dict)  # by queue and id
    waiting: dict[tuple[int, int], list[int]] = field(default_factory=dict)  # see order.py
    order: dict[tuple[int, int, str], int] = field(default_factory=dict)  # and producer: serial
    life: int = 0
    crashes: int = 0
    fenced: set[int] = field(default_factory=set)
    clock: tuple[int, int, int] = (0, 0, 0)  # store clock ms, last stamp us, turn number

    def group_of(self, queue_id: int, put: Put) -> Group:
        """Returns the group of *put* on a queue; the put must be a member."""
        assert put.member is not None
        return self.groups.setdefault((queue_id, put.member.group_id), Group())

    @property
    def now_ms(self) -> int:
        """The store clock of the last transaction."""
        return self.clock[0]

    def met(self, trailer: bytes, *names: str) -> bool:
        """Returns whether a message with that UID is on one of *names*, or was until just now."""
        numbers = [number for number, (name, _) in self.queues.items() if name in names]
        found = {(number, "", trailer) for number in numbers}
        return not found.isdisjoint(self.uids) or not found.isdisjoint(self.passing)

    def is_committed(self, unit: Unit) -> bool:
        """Returns whether the stored window of its producer includes the commit of *unit*."""
        producer_id, seq_id = unit.commit
        row = self.rows.get(keys.SPACE_PRODUCER + producer_id)
        if row is None or not seq_id or unit.answer not in ("", "acked"):
            return False
        commit_id, _, _, ahead, refused = unpack(row)[:5]
        came = seq_id <= commit_id or seq_id in ids_of(ahead)
        return came and not any(seq_id in ids_of(runs) for _, runs in refused)

    def offer(self, handle: Handle, lease: int, unit: Unit) -> None:
        """Records that *unit* is asked to include a leased message."""
        handed = self.handed.get(handle)
        if handed is not None and handed.lease == lease:
            handed.offered = unit

    def attribute(self, queue_id: int, name: str, default: Any) -> Any:
        """Returns an attribute of a queue, as last made durable."""
        return self.attributes.get(queue_id, {}).get(name, default)

    def is_lost(self, held: Held) -> bool:
        """Returns whether a restart removed a message."""
        return held.put.traits.volatile and held.life != self.life

    def is_expired(self, held: Held, now_ms: int) -> bool:
        """Returns whether a message has expired."""
        return 0 < held.expires_ms <= now_ms

    def is_stopped(self, queue_id: int, held: Held) -> bool:
        """Returns whether the group of a message is stopped, or was until now."""
        if held.put.member is None:
            return False  # A message that was moved here may be a member, too.
        row = self.group_of(queue_id, held.put).row
        return row is not None and (
            row.is_paused or row.parked_number > 0 or row.changed_ms >= self.now_ms
        )

    def stopped(self, *, clean: bool) -> None:
        """Records that a process ended, with all its leases and non-persistent messages."""
        self.life += 1
        self.crashes += not clean
        for (queue_id, _), held in self.held.items():
            if held.put.traits.volatile:
                self.uids.discard((queue_id, held.target, held.trailer))
