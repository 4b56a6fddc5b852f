"""One consumer: the messages that it holds, and its credit for more.

    credit at the queue manager ──Deliver──▶ buffer ──take──▶ application ──settle──▶ free
              ▲                                                                        │
              └────────────────── Credit, once half is free ───────────────────────────┘

1. prefetch >= credit + held, in messages, and the same in bytes. A message is held from its arrival
   until it is settled or its lease ends. Credit and buffer together depend on the speed of the
   application (read_ahead.py).
2. A lost connection ends all leases. Messages in the buffer are dropped, as they are delivered
   again. Messages that the application took stay held until it settles them. If such a message is
   delivered again to the same client, the application does not get it twice: its settle ends the
   new lease.
3. A message whose lease has ended is not handed out, as another consumer may have it. If that
   happens in the buffer, the consumer gets no credit until the application asks for a message.
4. The lease of a message starts again soon after the application took it (active_leases.py).
5. A message that was delivered before is handed out at its place in the queue's order, before later
   messages of the buffer.
"""

from bisect import bisect
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from qmgr_client import message as messages
from qmgr_client.sansio.active_leases import ActiveLeases
from qmgr_client.sansio.group_returns import GroupReturn, GroupReturns, member_of
from qmgr_client.sansio.read_ahead import ReadAhead
from qmgr_protocol import messages as m

MARGIN_MS = 1_000
HANDED_MAX = 10_000  # messages in the application that the client recognizes when redelivered
_PLACE = slice(0, 9)  # of a delivery item: priority, arrival
_PUT_TIME = slice(22, 30)


class Lapsed(NamedTuple):
    """A message that is to be returned unread. Its lease ended before the application took it."""

    queue_id: int
    handle: bytes
    group_return: GroupReturn | None  # is answered once the message is returned


Identity: TypeAlias = tuple[int, bytes, bytes]  # of a message: queue id, place, put time


class HeldLease(NamedTuple):
    """A message that this client has under lease."""

    size_bytes: int  # of the record
    until_ms: int  # when the lease ends, by the clock of this client


@dataclass(slots=True)
class ConsumerState:
    """One consumer, across all connections."""

    ticket: int
    queue: str
    prefetch: int  # messages
    bytes_max: int
    lease_wanted_ms: int  # 0 uses the lease_ms of the queue
    selection: tuple[str, bytes, bytes]  # where, correlation id, group id
    groups: tuple[int, bool] = (m.PHYSICAL, False)  # order, all_available
    auto_renew: bool = False  # whether leases are renewed while the application works
    lease_ms: int = 0  # as the queue manager granted it
    margin_ms: int = 0  # A message is handed out only if more of its lease than this is left.
    request_id: int = 0  # on this connection
    is_open: bool = False  # on this connection
    is_cancelled: bool = False
    is_idle: bool = False  # The application took no message for as long as a lease lasts.
    is_waiting: bool = False  # The application asked for a message when the buffer was empty.
    credit_messages: int = 0  # which the queue manager may still send
    credit_bytes: int = 0
    held: dict[bytes, HeldLease] = field(default_factory=dict)  # by handle, in the order of arrival
    held_bytes: int = 0
    buffer: deque[tuple[int, bytes]] = field(default_factory=deque)  # queue id and item
    group_returns: GroupReturns = field(default_factory=GroupReturns)
    lapsed: list[Lapsed] = field(default_factory=list)  # shared by all consumers of a client
    read_ahead: ReadAhead = field(init=False)
    active: ActiveLeases = field(init=False)
    handed: dict[bytes, Identity] = field(default_factory=dict)  # by the application's handle
    renamed: dict[bytes, bytes] = field(default_factory=dict)  # such a handle to the latest one
    started_early: bytes = b""  # the handle whose lease started before the application took it

    def __post_init__(self) -> None:
        self.read_ahead = ReadAhead(self.prefetch)
        self.active = ActiveLeases(auto_renew=self.auto_renew)

    @property
    def free(self) -> tuple[int, int]:
        """The messages and bytes that could be granted."""
        if self.is_idle:
            return 0, 0
        most = min(self.prefetch - len(self.held), self.read_ahead.messages - len(self.buffer))
        return (
            max(most - self.credit_messages, 0),
            max(self.bytes_max - self.credit_bytes - self.held_bytes, 0),
        )

    def grant(self) -> tuple[int, int]:
        """Grants all free credit, and returns it."""
        count, size = self.free
        self.credit_messages += count
        self.credit_bytes += size
        return count, size

    def granted(self, lease_ms: int) -> None:
        """Records how long leases last."""
        self.lease_ms, self.margin_ms = lease_ms, min(lease_ms // 8, MARGIN_MS)
        self.read_ahead.leased_for(lease_ms)

    @property
    def is_ordered(self) -> bool:
        """Whether the messages of a group are delivered in the order of their numbers."""
        return self.groups[0] != m.PHYSICAL

    def return_group(self, group_id: bytes, number: int) -> GroupReturn | None:
        """Drops the later messages of a group one of whose messages is returned.

        Later messages that are still on their way are dropped when they arrive. If the same number
        has arrived again, the messages behind it are kept: the old lease had ended already.
        """
        found = [member_of(item) for _, item in self.buffer]
        numbers = [member[1] if member and member[0] == group_id else 0 for member in found]
        again = max((i for i, other in enumerate(numbers) if 0 < other <= number), default=-1)
        end = len(numbers) if again < 0 else again
        stale = [other > number and i < end for i, other in enumerate(numbers)]
        for (_, item), is_stale in zip(self.buffer, stale, strict=True):
            if is_stale:
                self.remove_lease(item[: m.HANDLE.size])
        pairs = zip(self.buffer, stale, strict=True)
        self.buffer = deque(held for held, is_stale in pairs if not is_stale)
        return None if again >= 0 else self.group_returns.add(group_id, number)

    def remove_lease(self, handle: bytes) -> bool:
        """Forgets the message held under *handle*. Returns whether there was one."""
        held = self.held.pop(handle, None)
        if held is None:
            return False
        self.held_bytes -= held.size_bytes
        self.active.forget(handle)
        return True

    def expire(self, now_ms: int) -> bool:
        """Forgets the messages whose leases have ended. Returns whether there were any."""
        handles = [handle for handle, held in self.held.items() if held.until_ms <= now_ms]
        for handle in handles:
            self.remove_lease(handle)
        if handles and self.buffer:
            over = [x for x in self.buffer if x[1][: m.HANDLE.size] not in self.held]
            self.buffer = deque(x for x in self.buffer if x[1][: m.HANDLE.size] in self.held)
            self.is_idle |= bool(over)
            for queue_id, item in over:
                self.lapse(queue_id, item)
        return bool(handles)

    def lapse(self, queue_id: int, item: bytes) -> None:
        """Returns a message unread whose lease ended in the buffer.

        In an ordered consumer, the later messages of its group are dropped, too. Otherwise they
        would be handed out before it.
        """
        handle = item[: m.HANDLE.size]
        self.remove_lease(handle)
        member = member_of(item) if self.is_ordered else None
        self.lapsed.append(Lapsed(queue_id, handle, self.return_group(*member) if member else None))

    def keep(self, queue_id: int, item: bytes) -> None:
        """Buffers a message. A redelivered one goes to its place in the queue's order."""
        buffer = self.buffer
        if not buffer or self.is_ordered or not messages.is_redelivered(item):
            buffer.append((queue_id, item))
        else:
            buffer.insert(
                bisect(buffer, place_of(item), key=lambda x: place_of(x[1])), (queue_id, item)
            )

    def start_next(self, now_ms: int) -> bool:
        """Starts the lease of the next message if it is time. Returns whether it starts."""
        if not self.buffer or not self.active.starts_early(now_ms):
            return False
        queue_id, item = self.buffer[0]
        held = self.held.get(item[: m.HANDLE.size])
        if held is None or held.until_ms <= now_ms + self.margin_ms:
            return False  # It will not be handed out.
        self.started_early = item[: m.HANDLE.size]
        self.active.start_now(self.started_early, queue_id, now_ms)
        return True

    def hand_over(self, queue_id: int, item: bytes, until_ms: int, now_ms: int) -> None:
        """Records that the application takes a message."""
        handle = item[: m.HANDLE.size]
        if len(self.handed) >= HANDED_MAX:  # It does not settle; the oldest leases ended long ago.
            oldest = next(iter(self.handed))
            del self.handed[oldest]
            self.renamed.pop(oldest, None)
        self.handed[handle] = identity_of(queue_id, item)
        if handle != self.started_early:
            self.active.handed_over(handle, queue_id, self.lease_ms, until_ms, now_ms)

    def lease_again(
        self, handle: bytes, queue_id: int, item: bytes, held: HeldLease, now_ms: int
    ) -> None:
        """Records a new lease of the message that the application holds under *handle*."""
        self.remove_lease(self.handle_of(handle))
        now_under = self.renamed[handle] = item[: m.HANDLE.size]
        self.held[now_under] = held
        self.held_bytes += held.size_bytes
        self.active.start_now(now_under, queue_id, now_ms)

    def handle_of(self, handle: bytes) -> bytes:
        """Returns the latest handle of the message that the application holds under *handle*."""
        return self.renamed.get(handle, handle)

    def settle(self, handle: bytes) -> bool:
        """Forgets the message that the application settles. Returns whether it was held."""
        self.handed.pop(handle, None)
        return self.remove_lease(self.renamed.pop(handle, handle))

    def renew(self, handle: bytes, lease_ms: int, now_ms: int) -> None:
        """Extends the lease of a message, which is being renewed."""
        held = self.held.get(handle)
        if held is not None:
            self.held[handle] = held._replace(until_ms=now_ms + (lease_ms or self.lease_ms))

    def renewals(self, now_ms: int) -> list[tuple[int, bytes]]:
        """Returns queue id and handle of each lease to renew now, and extends these leases."""
        due = self.active.start(now_ms)
        for queue_id, handle in self.active.started():
            held = self.held.get(handle)
            if held is not None and held.until_ms - now_ms <= 2 * self.lease_ms // 3:
                due.append((queue_id, handle))
        for _, handle in due:
            self.renew(handle, 0, now_ms)
        return due


def identity_of(queue_id: int, item: bytes) -> Identity:
    """Returns what identifies the message of a delivery item, across leases."""
    return queue_id, item[_PLACE], item[_PUT_TIME]


def place_of(item: bytes) -> tuple[int, bytes]:
    """Returns the place of a delivery item in the order of its queue."""
    return -item[0], item[1:9]
