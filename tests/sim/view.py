"""The view from outside of a queue manager, and of each message that it holds."""

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
    """A message on a queue, as it was last made durable."""

    put: Put
    trailer: bytes
    target: str
    priority: int
    crashes: int  # number of crashes of this queue manager before the arrival
    life: int  # process run in which the message arrived
    is_delayed: bool
    expires_ms: int  # expiry time by the store clock in ms, 0 = never
    ready_ms: int  # store clock in ms before which the message must not be delivered
    outcome: int  # turn after which the message is available
    delivered: int = 0
    failed: int = 0
    is_member: bool = False  # True if the message is stored as part of a group
    # True for a dead letter that cannot return, because its UID already exists on the queue
    is_stuck: bool = False


@dataclass(slots=True)
class Handed:
    """The last delivery of a message that the queue manager sent."""

    lease: int
    connection: int
    deadline_ms: int  # end of the lease, by the store clock in ms
    life: int  # process run, with which its leases end
    unit: Unit | None = None  # unit that includes the message; its lease then has no deadline
    # unit that was asked to include the message; the answer may be pending
    offered: Unit | None = None
    holder: Holder = ()  # consumer of the message, in logical or pinned order
    member: Member | None = None  # position in a group, or None
    came_back: bool = False  # True if the message's return is durable


@dataclass(slots=True)
class Group:
    """The view from outside of a group on a queue."""

    row: GroupRow | None = None  # row, as it was last made durable
    there: dict[int, Handle] = field(default_factory=dict)  # messages on the queue, by number
    left: set[int] = field(default_factory=set)  # numbers that have permanently left
    strangers: set[int] = field(default_factory=set)  # numbers of dead letters that have returned
    outs: list[tuple[int, Handle, Handed]] = field(default_factory=list)  # deliveries in order
    holder: Holder = ()  # last consumer of the group's messages
    is_parked: bool = False  # True if the group was parked at some time
    was_stopped: bool = False  # True if the group waited for an operator at some time
    failed: int = 0  # number of messages that became dead letters because they failed themselves


@dataclass(slots=True)
class View:
    """The view from outside of one queue manager."""

    # maps a queue id to the name and kind of the queue
    queues: dict[int, tuple[str, str]] = field(default_factory=dict)
    # durable attributes, by queue id
    attributes: dict[int, dict[str, Any]] = field(default_factory=dict)
    altered: set[str] = field(default_factory=set)  # queues altered in the last transaction
    held: dict[Handle, Held] = field(default_factory=dict)
    uids: set[tuple[int, str, bytes]] = field(default_factory=set)  # UIDs that are now on a queue
    # UIDs that move in this transaction
    passing: set[tuple[int, str, bytes]] = field(default_factory=set)
    # UIDs that were ever on a queue of that name
    ever: set[tuple[str, bytes]] = field(default_factory=set)
    rows: dict[bytes, bytes] = field(default_factory=dict)  # rows of windows, as last made durable
    # maps a stream to the highest commit id that was sent
    told: dict[bytes, int] = field(default_factory=dict)
    handed: dict[Handle, Handed] = field(default_factory=dict)
    groups: dict[tuple[int, bytes], Group] = field(default_factory=dict)  # groups by queue and id
    # available messages that were never delivered (see order.py)
    waiting: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    # maps queue, priority and producer to the last serial
    order: dict[tuple[int, int, str], int] = field(default_factory=dict)
    life: int = 0
    crashes: int = 0
    fenced: set[int] = field(default_factory=set)
    clock: tuple[int, int, int] = (0, 0, 0)  # store clock in ms, last stamp in us, and turn number

    def group_of(self, queue_id: int, put: Put) -> Group:
        """Returns the group of *put* on a queue. The put must be a member."""
        assert put.member is not None
        return self.groups.setdefault((queue_id, put.member.group_id), Group())

    @property
    def now_ms(self) -> int:
        """The store clock of the last transaction."""
        return self.clock[0]

    def met(self, trailer: bytes, *names: str) -> bool:
        """Returns whether a message with the UID *trailer* is, or just was, on one of *names*."""
        numbers = [number for number, (name, _) in self.queues.items() if name in names]
        found = {(number, "", trailer) for number in numbers}
        return not found.isdisjoint(self.uids) or not found.isdisjoint(self.passing)

    def is_committed(self, unit: Unit) -> bool:
        """Returns whether the producer's stored window includes the commit of *unit*."""
        producer_id, seq_id = unit.commit
        row = self.rows.get(keys.SPACE_PRODUCER + producer_id)
        if row is None or not seq_id or unit.answer not in ("", "acked"):
            return False
        commit_id, _, _, ahead, refused = unpack(row)[:5]
        came = seq_id <= commit_id or seq_id in ids_of(ahead)
        return came and not any(seq_id in ids_of(runs) for _, runs in refused)

    def offer(self, handle: Handle, lease: int, unit: Unit) -> None:
        """Records that *unit* was asked to include a leased message."""
        handed = self.handed.get(handle)
        if handed is not None and handed.lease == lease:
            handed.offered = unit

    def attribute(self, queue_id: int, name: str, default: Any) -> Any:
        """Returns an attribute of a queue, as it was last made durable."""
        return self.attributes.get(queue_id, {}).get(name, default)

    def is_lost(self, held: Held) -> bool:
        """Returns whether a restart removed a message."""
        return held.put.traits.volatile and held.life != self.life

    def is_expired(self, held: Held, now_ms: int) -> bool:
        """Returns whether a message has expired."""
        return 0 < held.expires_ms <= now_ms

    def is_stopped(self, queue_id: int, held: Held) -> bool:
        """Returns whether the group of a message is stopped, or was stopped until now."""
        if held.put.member is None:
            return False  # A message that was moved here may also belong to a group.
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
