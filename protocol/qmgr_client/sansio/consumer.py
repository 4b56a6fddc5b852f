"""One consumer: what it holds, and the credit that lets more come.

    credit at the queue manager ──Deliver──▶ buffer ──take──▶ application ──settle──▶ free
              ▲                                                                        │
              └────────────────── Credit, once half is free ───────────────────────────┘

1. prefetch >= credit + held, in messages, and the same in bytes. Held is what came and is neither
   settled nor out of its lease time. Credit and buffer together are as long as the application is
   fast (ahead.py).
2. A lost connection ends the leases. What the application has not been handed yet is dropped, as it
   comes again; what it has been handed stays held until it settles it. If that comes again to the
   same client, the application does not get it twice: its settle ends the new lease.
3. What is past its lease time is another's by now: it is not handed out. Where that happens in the
   buffer, the application takes nothing: it has no credit until it asks for a message.
4. The lease of a message that the application takes starts again, soon after (in_work.py).
5. What was delivered before is handed out at its place in the queue's order, not behind the buffer.
"""

from bisect import bisect
from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from qmgr_client import message as messages
from qmgr_client.sansio.ahead import Ahead
from qmgr_client.sansio.in_work import InWork
from qmgr_client.sansio.taken_back import TakenBack, TakenBacks, member_of
from qmgr_protocol import messages as m

MARGIN_MS = 1_000
HANDED_MAX = 10_000  # messages that the application may have for the client to know them again
_PLACE = slice(0, 9)  # of a delivery item: priority, arrival
_PUT_TIME = slice(22, 30)


class Lapsed(NamedTuple):
    """A message that is to go back unread: its lease was over before anybody saw it."""

    queue_id: int
    handle: bytes
    taken: TakenBack | None  # to be told once it has


Identity: TypeAlias = tuple[int, bytes, bytes]  # of a message: queue id, place, put time


class Held(NamedTuple):
    """A message that this client has under lease."""

    size_bytes: int  # of the record
    until_ms: int  # when the lease is over, as seen from here


@dataclass(slots=True)
class Consumer:
    """One consumer, over all connections."""

    ticket: int
    queue: str
    prefetch: int  # messages
    bytes_max: int
    lease_wanted_ms: int  # 0 leaves it to the queue
    selection: tuple[str, bytes, bytes]  # where, correlation id, group id
    groups: tuple[int, bool] = (m.PHYSICAL, False)  # order, all_available
    auto_renew: bool = False  # whether leases of what the application has go on by themselves
    lease_ms: int = 0  # as granted
    margin_ms: int = 0  # of a lease has to be left for it to be started in time
    request_id: int = 0  # on this connection
    is_open: bool = False  # on this connection
    is_cancelled: bool = False
    is_idle: bool = False  # the application took nothing for as long as a lease lasts
    is_waiting: bool = False  # it asked for a message when there was none
    credit_messages: int = 0  # what the queue manager may still send
    credit_bytes: int = 0
    held: dict[bytes, Held] = field(default_factory=dict)  # by handle, in the order of arrival
    held_bytes: int = 0
    buffer: deque[tuple[int, bytes]] = field(default_factory=deque)  # queue id and item
    taken_back: TakenBacks = field(default_factory=TakenBacks)
    lapsed: list[Lapsed] = field(default_factory=list)  # to go back; of all consumers of a client
    ahead: Ahead = field(init=False)
    in_work: InWork = field(init=False)
    handed: dict[bytes, Identity] = field(default_factory=dict)  # by the application's handle
    renamed: dict[bytes, bytes] = field(default_factory=dict)  # handles of these: what holds now
    started_ahead: bytes = b""  # the handle whose lease started before the application had it

    def __post_init__(self) -> None:
        self.ahead = Ahead(self.prefetch)
        self.in_work = InWork(auto_renew=self.auto_renew)

    @property
    def free(self) -> tuple[int, int]:
        """Messages and bytes that could be granted."""
        if self.is_idle:
            return 0, 0
        most = min(self.prefetch - len(self.held), self.ahead.messages - len(self.buffer))
        return (
            max(most - self.credit_messages, 0),
            max(self.bytes_max - self.credit_bytes - self.held_bytes, 0),
        )

    def grant(self) -> tuple[int, int]:
        """Return what is free, as it is granted now."""
        count, size = self.free
        self.credit_messages += count
        self.credit_bytes += size
        return count, size

    def granted(self, lease_ms: int) -> None:
        """Take note of how long leases last."""
        self.lease_ms, self.margin_ms = lease_ms, min(lease_ms // 8, MARGIN_MS)
        self.ahead.leased_for(lease_ms)

    @property
    def is_ordered(self) -> bool:
        """Whether messages of a group come in the order of their numbers."""
        return self.groups[0] != m.PHYSICAL

    def take_back(self, group_id: bytes, number: int) -> TakenBack | None:
        """Drop what is behind a message that goes back, and from now on what is on its way.

        Not what is behind the same number where that came again: its lease was over already, and
        it does not go back now.
        """
        found = [member_of(item) for _, item in self.buffer]
        own = [member[1] if member and member[0] == group_id else 0 for member in found]
        again = max((i for i, other in enumerate(own) if 0 < other <= number), default=-1)
        end = len(own) if again < 0 else again
        stale = [other > number and i < end for i, other in enumerate(own)]
        for (_, item), is_stale in zip(self.buffer, stale, strict=True):
            if is_stale:
                self.let_go(item[: m.HANDLE.size])
        pairs = zip(self.buffer, stale, strict=True)
        self.buffer = deque(held for held, is_stale in pairs if not is_stale)
        return None if again >= 0 else self.taken_back.add(group_id, number)

    def let_go(self, handle: bytes) -> bool:
        """Forget what is held under *handle*; return whether anything was."""
        held = self.held.pop(handle, None)
        if held is None:
            return False
        self.held_bytes -= held.size_bytes
        self.in_work.forget(handle)
        return True

    def expire(self, now_ms: int) -> bool:
        """Forget what is out of its lease time; return whether anything was."""
        handles = [handle for handle, held in self.held.items() if held.until_ms <= now_ms]
        for handle in handles:
            self.let_go(handle)
        if handles and self.buffer:
            over = [x for x in self.buffer if x[1][: m.HANDLE.size] not in self.held]
            self.buffer = deque(x for x in self.buffer if x[1][: m.HANDLE.size] in self.held)
            self.is_idle |= bool(over)
            for queue_id, item in over:
                self.lapse(queue_id, item)
        return bool(handles)

    def lapse(self, queue_id: int, item: bytes) -> None:
        """Have a message go back whose lease was over before anybody saw it.

        In order, with what is behind it in its group: else that would be handed out before it.
        """
        handle = item[: m.HANDLE.size]
        self.let_go(handle)
        member = member_of(item) if self.is_ordered else None
        self.lapsed.append(Lapsed(queue_id, handle, self.take_back(*member) if member else None))

    def keep(self, queue_id: int, item: bytes) -> None:
        """Buffer a message; one that was delivered before at its place in the queue's order."""
        buffer = self.buffer
        if not buffer or self.is_ordered or not messages.is_redelivered(item):
            buffer.append((queue_id, item))
        else:
            buffer.insert(
                bisect(buffer, place_of(item), key=lambda x: place_of(x[1])), (queue_id, item)
            )

    def start_next(self, now_ms: int) -> bool:
        """Have the lease of the next message start if it is time; return whether it does."""
        if not self.buffer or not self.in_work.starts_at_once(now_ms):
            return False
        queue_id, item = self.buffer[0]
        held = self.held.get(item[: m.HANDLE.size])
        if held is None or held.until_ms <= now_ms + self.margin_ms:
            return False  # It is not going to be handed out.
        self.started_ahead = item[: m.HANDLE.size]
        self.in_work.start_at_once(self.started_ahead, queue_id, now_ms)
        return True

    def hand_over(self, queue_id: int, item: bytes, until_ms: int, now_ms: int) -> None:
        """Take note that the application takes a message."""
        handle = item[: m.HANDLE.size]
        if len(self.handed) >= HANDED_MAX:  # It settles nothing; the oldest leases are long over.
            oldest = next(iter(self.handed))
            del self.handed[oldest]
            self.renamed.pop(oldest, None)
        self.handed[handle] = identity_of(queue_id, item)
        if handle != self.started_ahead:
            self.in_work.handed_over(handle, queue_id, self.lease_ms, until_ms, now_ms)

    def go_on(self, handle: bytes, queue_id: int, item: bytes, held: Held, now_ms: int) -> None:
        """Take in that what the application has under *handle* is leased again to this client."""
        self.let_go(self.handle_of(handle))
        now_under = self.renamed[handle] = item[: m.HANDLE.size]
        self.held[now_under] = held
        self.held_bytes += held.size_bytes
        self.in_work.start_at_once(now_under, queue_id, now_ms)

    def handle_of(self, handle: bytes) -> bytes:
        """Return the handle that holds now for what the application has under *handle*."""
        return self.renamed.get(handle, handle)

    def settle(self, handle: bytes) -> bool:
        """Forget what the application has under *handle*; return whether anything was held."""
        self.handed.pop(handle, None)
        return self.let_go(self.renamed.pop(handle, handle))

    def renew(self, handle: bytes, lease_ms: int, now_ms: int) -> None:
        """Count on a message for longer: its lease is being renewed."""
        held = self.held.get(handle)
        if held is not None:
            self.held[handle] = held._replace(until_ms=now_ms + (lease_ms or self.lease_ms))

    def renewals(self, now_ms: int) -> list[tuple[int, bytes]]:
        """Return queue id and handle of what is to be renewed now, counting on it."""
        due = self.in_work.start(now_ms)
        for queue_id, handle in self.in_work.started():
            held = self.held.get(handle)
            if held is not None and held.until_ms - now_ms <= 2 * self.lease_ms // 3:
                due.append((queue_id, handle))
        for _, handle in due:
            self.renew(handle, 0, now_ms)
        return due


def identity_of(queue_id: int, item: bytes) -> Identity:
    """Return what tells the message in a delivery item from all others, whatever its lease."""
    return queue_id, item[_PLACE], item[_PUT_TIME]


def place_of(item: bytes) -> tuple[int, bytes]:
    """Return where a delivery item stands in its queue's order."""
    return -item[0], item[1:9]
