"""One consumer: the messages that it holds, and its credit for further messages.

    credit at the queue manager ──Deliver──▶ buffer ──take──▶ application ──settle──▶ free
              ▲                                                                        │
              └────────────────── Credit, once half is free ───────────────────────────┘

1. prefetch >= credit + held messages. A similar limit applies to bytes. A message is held from its
   arrival until it is settled or its lease ends. The sum of credit and buffer depends on the speed
   of the application (read_ahead.py).
2. A lost connection ends all leases. Messages in the buffer are dropped because the queue manager
   delivers them again. Messages that the application received stay held until the application
   settles them. If such a message is delivered again to the same client, the application does not
   receive it twice: the settle of the application ends the new lease.
3. If the lease of a message has ended, the application does not receive the message, because
   another consumer may have leased it. If a lease ends in the buffer, the consumer does not grant
   credit until the application asks for a message.
4. The lease of a message starts again soon after the application received the message
   (active_leases.py).
5. A redelivered message is inserted in the buffer in the order of the queue, before later messages.
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
# Maximum number of messages of the application that are recognized when they are redelivered.
HANDED_MAX = 10_000
_PLACE = slice(0, 9)  # bytes of a delivery item that contain the priority and the arrival number
_PUT_TIME = slice(22, 30)  # bytes of a delivery item that contain the put time


class Lapsed(NamedTuple):
    """A message whose lease ended before the application received it.

    The message is returned unread.
    """

    queue_id: int
    handle: bytes
    group_return: GroupReturn | None  # marked as answered once the message is returned


Identity: TypeAlias = tuple[int, bytes, bytes]  # queue id, position and put time of a message


class HeldLease(NamedTuple):
    """The lease of a message that this client holds."""

    size_bytes: int  # size of the record
    until_ms: int  # end of the lease, by the clock of this client


@dataclass(slots=True)
class ConsumerState:
    """One consumer, across all connections."""

    ticket: int
    queue: str
    prefetch: int  # maximum sum of held messages and credit
    bytes_max: int
    lease_wanted_ms: int  # requested length of a lease; 0 requests the lease_ms of the queue
    selection: tuple[str, bytes, bytes]  # selector, correlation id, group id
    groups: tuple[int, bool] = (m.PHYSICAL, False)  # order, all_available
    auto_renew: bool = False  # whether leases are renewed until their messages are settled
    lease_ms: int = 0  # length of a lease that the queue manager granted
    margin_ms: int = 0  # minimum time left of a lease when the application receives the message
    request_id: int = 0  # id of the Consume request on this connection
    is_open: bool = False  # whether the consumer is open on this connection
    is_cancelled: bool = False
    # Whether a lease ended in the buffer and the application has not asked for a message since
    # then.
    is_idle: bool = False
    is_waiting: bool = False  # whether the application asked for a message and the buffer was empty
    credit_messages: int = 0  # number of messages that the queue manager may still send
    credit_bytes: int = 0
    held: dict[bytes, HeldLease] = field(default_factory=dict)  # leases by handle, oldest first
    held_bytes: int = 0
    buffer: deque[tuple[int, bytes]] = field(default_factory=deque)  # queue ids and items
    group_returns: GroupReturns = field(default_factory=GroupReturns)
    lapsed: list[Lapsed] = field(default_factory=list)  # list that all consumers share
    read_ahead: ReadAhead = field(init=False)
    active: ActiveLeases = field(init=False)
    handed: dict[bytes, Identity] = field(default_factory=dict)  # key: the application's handle
    # Key: a handle that the application received. Value: the latest handle of the same message.
    renamed: dict[bytes, bytes] = field(default_factory=dict)
    started_early: bytes = b""  # handle of the message whose lease was started early

    def __post_init__(self) -> None:
        self.read_ahead = ReadAhead(self.prefetch)
        self.active = ActiveLeases(auto_renew=self.auto_renew)

    @property
    def free(self) -> tuple[int, int]:
        """The numbers of messages and bytes that can be granted now."""
        if self.is_idle:
            return 0, 0
        most = min(self.prefetch - len(self.held), self.read_ahead.messages - len(self.buffer))
        return (
            max(most - self.credit_messages, 0),
            max(self.bytes_max - self.credit_bytes - self.held_bytes, 0),
        )

    def grant(self) -> tuple[int, int]:
        """Grants all free credit and returns the numbers of messages and bytes."""
        count, size = self.free
        self.credit_messages += count
        self.credit_bytes += size
        return count, size

    def granted(self, lease_ms: int) -> None:
        """Records the length of leases that the queue manager granted."""
        self.lease_ms, self.margin_ms = lease_ms, min(lease_ms // 8, MARGIN_MS)
        self.read_ahead.leased_for(lease_ms)

    @property
    def is_ordered(self) -> bool:
        """Whether the messages of a group are delivered in the order of their numbers."""
        return self.groups[0] != m.PHYSICAL

    def return_group(self, group_id: bytes, number: int) -> GroupReturn | None:
        """Drops the later messages of a group because one of its messages is returned.

        Later messages that are still in transit are dropped when they arrive. If message *number*
        has already arrived again, its old lease had ended before the return. In this case, the
        later messages are kept.
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
        """Forgets the message held under *handle*. Returns whether a message was held."""
        held = self.held.pop(handle, None)
        if held is None:
            return False
        self.held_bytes -= held.size_bytes
        self.active.forget(handle)
        return True

    def expire(self, now_ms: int) -> bool:
        """Forgets the messages whose leases have ended. Returns whether any lease had ended."""
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
        """Schedules the return of a message whose lease ended in the buffer.

        An ordered consumer also drops the later messages of the same group. Otherwise, the
        application would receive the later messages before this message.
        """
        handle = item[: m.HANDLE.size]
        self.remove_lease(handle)
        member = member_of(item) if self.is_ordered else None
        self.lapsed.append(Lapsed(queue_id, handle, self.return_group(*member) if member else None))

    def keep(self, queue_id: int, item: bytes) -> None:
        """Buffers a message. A redelivered message is inserted in the order of the queue."""
        buffer = self.buffer
        if not buffer or self.is_ordered or not messages.is_redelivered(item):
            buffer.append((queue_id, item))
        else:
            buffer.insert(
                bisect(buffer, place_of(item), key=lambda x: place_of(x[1])), (queue_id, item)
            )

    def start_next(self, now_ms: int) -> bool:
        """Starts the lease of the next message if it is due. Returns whether the lease starts."""
        if not self.buffer or not self.active.starts_early(now_ms):
            return False
        queue_id, item = self.buffer[0]
        held = self.held.get(item[: m.HANDLE.size])
        if held is None or held.until_ms <= now_ms + self.margin_ms:
            return False  # The application will not receive this message.
        self.started_early = item[: m.HANDLE.size]
        self.active.start_now(self.started_early, queue_id, now_ms)
        return True

    def hand_over(self, queue_id: int, item: bytes, until_ms: int, now_ms: int) -> None:
        """Records that the application receives a message."""
        handle = item[: m.HANDLE.size]
        if len(self.handed) >= HANDED_MAX:  # The oldest leases ended a long time ago.
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
        """Forgets a message that the application settles. Returns whether the message was held."""
        self.handed.pop(handle, None)
        return self.remove_lease(self.renamed.pop(handle, handle))

    def renew(self, handle: bytes, lease_ms: int, now_ms: int) -> None:
        """Records the new end of a lease that is being renewed."""
        held = self.held.get(handle)
        if held is not None:
            self.held[handle] = held._replace(until_ms=now_ms + (lease_ms or self.lease_ms))

    def renewals(self, now_ms: int) -> list[tuple[int, bytes]]:
        """Returns the queue id and handle of each lease to renew now, and extends these leases."""
        due = self.active.start(now_ms)
        for queue_id, handle in self.active.started():
            held = self.held.get(handle)
            if held is not None and held.until_ms - now_ms <= 2 * self.lease_ms // 3:
                due.append((queue_id, handle))
        for _, handle in due:
            self.renew(handle, 0, now_ms)
        return due


def identity_of(queue_id: int, item: bytes) -> Identity:
    """Returns the identity of the message in a delivery item.

    All leases of a message have the same identity.
    """
    return queue_id, item[_PLACE], item[_PUT_TIME]


def place_of(item: bytes) -> tuple[int, bytes]:
    """Returns the position of a delivery item in the order of its queue."""
    return -item[0], item[1:9]
