"""Consumers: what they hold, and the credit that lets more come.

    credit at the queue manager ──Deliver──▶ buffer ──take──▶ application ──settle──▶ free
              ▲                                                                        │
              └────────────────── Credit, once half is free ───────────────────────────┘

1. prefetch = credit + held + free, in messages, and the same in bytes. Held is what came and is
   neither settled nor out of its lease time.
2. A lost connection ends the leases. What the application has not been handed yet is dropped, as it
   comes again; what it has been handed stays held until it settles it.
3. What is past its lease time is another's by now: it is not handed out.
"""

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qmgr_client import message as messages
from qmgr_client.errors import ConnectionEnded
from qmgr_client.events import ConsumerEnded, Delivered, Events
from qmgr_client.message import Home, Message
from qmgr_client.taken_back import TakenBack, TakenBacks, comes_back, member_of
from qmgr_client.units import Unit
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.field import U32, U64, row

ANY = ("", b"", b"")
_OPENED = row(U32, U64)


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
    lease_ms: int = 0  # as granted
    request_id: int = 0  # on this connection
    is_open: bool = False  # on this connection
    is_cancelled: bool = False
    credit_messages: int = 0  # what the queue manager may still send
    credit_bytes: int = 0
    held: dict[bytes, Held] = field(default_factory=dict)  # by handle, in the order of arrival
    held_bytes: int = 0
    buffer: deque[tuple[int, bytes]] = field(default_factory=deque)  # queue id and item
    taken_back: TakenBacks = field(default_factory=TakenBacks)

    @property
    def free(self) -> tuple[int, int]:
        """Messages and bytes that could be granted."""
        return (
            max(self.prefetch - self.credit_messages - len(self.held), 0),
            max(self.bytes_max - self.credit_bytes - self.held_bytes, 0),
        )

    def grant(self) -> tuple[int, int]:
        """Return what is free, as it is granted now."""
        count, size = self.free
        self.credit_messages += count
        self.credit_bytes += size
        return count, size

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
        return True

    def expire(self, now_ms: int) -> bool:
        """Forget what is out of its lease time; return whether anything was."""
        handles = [handle for handle, held in self.held.items() if held.until_ms <= now_ms]
        for handle in handles:
            self.let_go(handle)
        return bool(handles)


class Consumers:
    """All consumers that have not ended.

    Invariant: ``open`` has those with a request id on this connection, the others are in
    ``_waiting``; ``_touched`` has those whose free credit may have grown.
    """

    def __init__(self, events: Events) -> None:
        self.open: dict[int, Consumer] = {}  # by request id
        self._all: dict[int, Consumer] = {}  # by ticket
        self._events = events
        self._waiting: deque[Consumer] = deque()
        self._touched: dict[int, Consumer] = {}
        self._opening = 0

    @property
    def opening(self) -> int:
        """How many requests to open one wait for an answer."""
        return self._opening

    def add(self, consumer: Consumer) -> None:
        """Take in a consumer, to be opened when that may be."""
        self._all[consumer.ticket] = consumer
        self._waiting.append(consumer)

    def has_next(self) -> bool:
        """Return whether one waits to be opened."""
        return bool(self._waiting)

    def take(self, request_id: int) -> m.Consume:
        """Return the request that opens the next one, with all the credit that is free."""
        consumer = self._waiting.popleft()
        consumer.request_id = request_id
        self.open[request_id] = consumer
        self._opening += 1
        count, size = consumer.grant()
        return m.Consume(
            request_id, consumer.queue, count, size, consumer.lease_wanted_ms, *consumer.selection,
            *consumer.groups,
        )  # fmt: skip

    def take_credit(self) -> m.Credit | None:
        """Return credit for a consumer that has half of its own free."""
        while self._touched:
            _, consumer = self._touched.popitem()
            if not consumer.is_open or consumer.is_cancelled:
                continue
            count, size = consumer.free
            if count >= max(consumer.prefetch // 2, 1) or size >= max(consumer.bytes_max // 2, 1):
                return m.Credit(consumer.request_id, *consumer.grant())
        return None

    def opened(self, request_id: int, value: Any) -> None:
        """Take the answer to an opening.

        Raises:
            FieldInvalid: the peer broke the protocol.
        """
        if why := _OPENED(value):
            raise FieldInvalid("Ok", "value", why)
        consumer = self.open[request_id]
        self._opening -= 1
        consumer.is_open = True
        consumer.lease_ms = value[1]
        self._touched[consumer.ticket] = consumer

    def delivered(self, answer: m.Deliver, now_ms: int) -> list[tuple[bytes, TakenBack | None]]:
        """Take messages; return the handles of those that nobody wants any more.

        And of each what is to be told when it has gone back.
        """
        consumer = self.open[answer.request_id]
        unwanted: list[tuple[bytes, TakenBack | None]] = []
        until_ms = now_ms + consumer.lease_ms
        for item in answer.items:
            size = messages.record_bytes(item)
            consumer.credit_messages -= 1
            consumer.credit_bytes -= size
            handle = item[: m.HANDLE.size]
            member = member_of(item) if consumer.is_ordered else None
            if consumer.is_cancelled:
                unwanted.append((handle, None))
            elif member is not None and consumer.taken_back.takes(*member):
                unwanted.append((handle, consumer.taken_back.add(*member)))
            else:
                consumer.held[handle] = Held(size, until_ms)
                consumer.held_bytes += size
                consumer.buffer.append((answer.queue_id, item))
        if not consumer.is_cancelled:
            if unwanted:
                self._touched[consumer.ticket] = consumer
            self._events.append(Delivered(consumer.ticket))
        return unwanted

    def next_message(self, ticket: int, home: Home, now_ms: int) -> Message | None:
        """Return the next message for the application, or None where nothing is buffered."""
        consumer = self._all.get(ticket)
        if consumer is None:
            return None
        while consumer.buffer:
            queue_id, item = consumer.buffer.popleft()
            handle = item[: m.HANDLE.size]
            held = consumer.held.get(handle)
            if held is None:
                continue
            if held.until_ms <= now_ms:
                consumer.let_go(handle)
                self._touched[ticket] = consumer
                continue
            return messages.decode(item, consumer.queue, queue_id, home, ticket)
        return None

    def settled(self, message: Message, action: int, unit: Unit | None) -> TakenBack | None:
        """Free the credit of a message that the application is settling, perhaps in a unit.

        Return what is to be told when that is answered, where it takes others back.
        """
        consumer = self._all.get(message.consumer)
        if consumer is None:
            return None
        if consumer.let_go(message.handle):
            self._touched[consumer.ticket] = consumer
        if message.group is None or not consumer.is_ordered:
            return None
        group_id, number, _ = message.group
        if unit is not None:
            unit.members.append((consumer.ticket, group_id, number))
        if not comes_back(action):
            return None
        self._touched[consumer.ticket] = consumer
        return consumer.take_back(group_id, number)

    def undone(self, unit: Unit) -> None:
        """Take note that what *unit* had acknowledged comes back."""
        for ticket, group_id, number in unit.members:
            consumer = self._all.get(ticket)
            if consumer is not None:
                taken = consumer.take_back(group_id, number)
                unit.taken_back += [] if taken is None else [taken]
                self._touched[ticket] = consumer

    def renewed(self, ticket: int, handle: bytes, lease_ms: int, now_ms: int) -> None:
        """Count on a message for longer: its lease is being renewed."""
        consumer = self._all.get(ticket)
        held = None if consumer is None else consumer.held.get(handle)
        if consumer is not None and held is not None:
            until_ms = now_ms + (lease_ms or consumer.lease_ms)
            consumer.held[handle] = held._replace(until_ms=until_ms)

    def expire(self, now_ms: int) -> None:
        """Free the credit of messages whose lease is over: the queue manager has them back."""
        for ticket, consumer in self._all.items():
            if consumer.held and consumer.expire(now_ms):
                self._touched[ticket] = consumer

    def cancel(self, ticket: int) -> tuple[m.Cancel | None, list[tuple[int, bytes]]]:
        """End a consumer; return what tells the queue manager, and queue id and handle of what the
        application was not handed."""
        consumer = self._all.get(ticket)
        if consumer is None or consumer.is_cancelled:
            return None, []
        consumer.is_cancelled = True
        unread = [(queue_id, item[: m.HANDLE.size]) for queue_id, item in consumer.buffer]
        unread = [(queue_id, handle) for queue_id, handle in unread if consumer.let_go(handle)]
        consumer.buffer.clear()
        if consumer.request_id:
            return m.Cancel(consumer.request_id), unread
        self._waiting.remove(consumer)
        self._end(consumer, None)
        return None, unread

    def ended(self, request_id: int, error: RequestError) -> None:
        """Take the end of a consumer, or the refusal to open it."""
        consumer = self.open.pop(request_id)
        self._opening -= not consumer.is_open
        asked_for = consumer.is_cancelled or error.code == ErrorCode.CANCELLED
        self._end(consumer, None if asked_for else error)

    def _end(self, consumer: Consumer, error: RequestError | None) -> None:
        self._all.pop(consumer.ticket, None)
        self._touched.pop(consumer.ticket, None)
        self._events.append(ConsumerEnded(consumer.ticket, error))

    def lost(self) -> None:
        """Drop what was not handed out, and have all be opened again: rule 2."""
        for consumer in self.open.values():
            for _, item in consumer.buffer:
                consumer.let_go(item[: m.HANDLE.size])
            consumer.buffer.clear()
            consumer.taken_back.clear()
            consumer.request_id = consumer.credit_messages = consumer.credit_bytes = 0
            consumer.is_open = False
            if consumer.is_cancelled:
                self._end(consumer, None)
            else:
                self._waiting.append(consumer)
        self.open.clear()
        self._touched.clear()
        self._opening = 0

    def fail(self, error: ConnectionEnded) -> None:
        """End every consumer with *error*."""
        for consumer in list(self._all.values()):
            self._end(consumer, None if consumer.is_cancelled else error)
        self.open.clear()
        self._waiting.clear()
        self._opening = 0


def check_credit(prefetch: int, bytes_max: int) -> None:
    """Refuse what would never let a message come.

    Raises:
        RequestError: VALUE_INVALID.
    """
    if not prefetch or not bytes_max:
        text = f"prefetch and bytes_max are {prefetch} and {bytes_max}, at least 1"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
