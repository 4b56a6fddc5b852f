"""All consumers of a client, across its connections. consumer.py explains a single consumer."""

from collections import deque
from typing import Any

from qmgr_client import message as messages
from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import Home, Message
from qmgr_client.sansio.active_leases import START_AFTER_MS
from qmgr_client.sansio.consumer import ConsumerState, HeldLease, Identity, Lapsed, identity_of
from qmgr_client.sansio.events import ConsumerEnded, Delivered, Events
from qmgr_client.sansio.group_returns import GroupReturn, member_of, returns_message
from qmgr_client.sansio.units import Unit
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.field import U32, U64, row

ANY = ("", b"", b"")
_OPENED = row(U32, U64)


class Consumers:
    """All consumers that have not ended.

    Invariant: ``open`` has the consumers with a request id on this connection, and ``_waiting`` has
    the others. ``_touched`` has the consumers whose free credit may have grown. ``_working`` has
    the consumers whose application may hold messages.
    """

    def __init__(self, events: Events) -> None:
        self.open: dict[int, ConsumerState] = {}  # key: request id
        self._all: dict[int, ConsumerState] = {}  # key: ticket
        self._events = events
        self._waiting: deque[ConsumerState] = deque()
        self._touched: dict[int, ConsumerState] = {}
        self._working: dict[int, ConsumerState] = {}
        self._lapsed: list[Lapsed] = []
        # The ticket and handle of each message that the application held when the connection was
        # lost.
        self._held_before_loss: dict[Identity, tuple[int, bytes]] = {}
        self._opening = 0
        self.starts_now = False  # whether leases must start immediately
        self.start_due_ms: int | None = None  # time of the next start of leases

    @property
    def opening(self) -> int:
        """The number of consumers that wait for the answer to their opening."""
        return self._opening

    def add(self, consumer: ConsumerState) -> None:
        """Queues a consumer for opening."""
        consumer.lapsed = self._lapsed
        self._all[consumer.ticket] = consumer
        self._waiting.append(consumer)

    def has_next(self) -> bool:
        """Returns whether a consumer waits to be opened."""
        return bool(self._waiting)

    def take(self, request_id: int) -> m.Consume:
        """Returns the request that opens the next consumer and grants all of its free credit."""
        consumer = self._waiting.popleft()
        consumer.request_id = request_id
        self.open[request_id] = consumer
        self._opening += 1
        count, size = consumer.grant()
        return m.Consume(
            request_id,
            consumer.queue,
            count,
            size,
            consumer.lease_wanted_ms,
            *consumer.selection,
            *consumer.groups,
            start_later=True,
        )

    def take_credit(self, now_ms: int) -> m.Credit | None:
        """Returns credit for the next consumer that has half of its credit free, or None."""
        while self._touched:
            _, consumer = self._touched.popitem()
            if not consumer.is_open or consumer.is_cancelled:
                continue
            count, size = consumer.free
            needs_bytes = size >= max(consumer.bytes_max // 2, 1)
            if count >= consumer.read_ahead.half:
                consumer.read_ahead.half_taken(now_ms)
                if not (consumer.free[0] or needs_bytes):
                    continue  # The prefetch suffices for this application's speed.
            elif count and consumer.is_waiting and not consumer.credit_messages:
                pass  # The application settles late: grant the rest of its prefetch.
            elif not needs_bytes:
                continue
            return m.Credit(consumer.request_id, *consumer.grant())
        return None

    def opened(self, request_id: int, value: Any) -> None:
        """Handles the answer to the opening of a consumer.

        Raises:
            FieldInvalid: The queue manager broke the protocol.
        """
        if complaint := _OPENED(value):
            raise FieldInvalid("Ok", "value", complaint)
        consumer = self.open[request_id]
        self._opening -= 1
        consumer.is_open = True
        consumer.granted(value[1])
        self._touched[consumer.ticket] = consumer

    def delivered(self, answer: m.Deliver, now_ms: int) -> list[tuple[bytes, GroupReturn | None]]:
        """Buffers messages. Returns the handles of unwanted messages, to be returned unread.

        A handle may have a GroupReturn, which is answered when the message has been returned.
        """
        consumer = self.open[answer.request_id]
        unwanted: list[tuple[bytes, GroupReturn | None]] = []
        until_ms = now_ms + consumer.lease_ms
        for item in answer.items:
            size = messages.record_bytes(item)
            consumer.credit_messages -= 1
            consumer.credit_bytes -= size
            handle = item[: m.HANDLE.size]
            if self._held_before_loss and self._replaces_lease(answer.queue_id, item, size, now_ms):
                self._touched[consumer.ticket] = consumer
                continue
            member = member_of(item) if consumer.is_ordered else None
            if consumer.is_cancelled:
                unwanted.append((handle, None))
            elif member is not None and consumer.group_returns.drops(*member):
                unwanted.append((handle, consumer.group_returns.add(*member)))
            else:
                consumer.held[handle] = HeldLease(size, until_ms)
                consumer.held_bytes += size
                consumer.keep(answer.queue_id, item)
        if not consumer.is_cancelled:
            if unwanted:
                self._touched[consumer.ticket] = consumer
            self._events.append(Delivered(consumer.ticket))
        return unwanted

    def _replaces_lease(self, queue_id: int, item: bytes, size: int, now_ms: int) -> bool:
        """Returns whether the application holds this message. If it does, records the new lease."""
        ticket, handle = self._held_before_loss.pop(identity_of(queue_id, item), (0, b""))
        owner = self._all.get(ticket)
        if owner is None or owner.is_cancelled or handle not in owner.handed:
            return False
        held = HeldLease(size, now_ms + owner.lease_ms)
        owner.lease_again(handle, queue_id, item, held, now_ms)
        self.starts_now = True
        self._working[ticket] = owner
        return True

    def start_next(self, ticket: int, now_ms: int) -> bool:
        """Starts the lease of a consumer's next message if an early start is due."""
        consumer = self._all.get(ticket)
        if consumer is None or not consumer.start_next(now_ms):
            return False
        self._working[ticket] = consumer
        return True

    def next_message(self, ticket: int, home: Home, now_ms: int) -> Message | None:
        """Returns the next message for the application, or None if the buffer is empty."""
        consumer = self._all.get(ticket)
        if consumer is None:
            return None
        if consumer.is_idle:
            consumer.is_idle = False
            self._touched[ticket] = consumer
        while consumer.buffer:
            queue_id, item = consumer.buffer.popleft()
            handle = item[: m.HANDLE.size]
            held = consumer.held.get(handle)
            if held is None:
                continue
            if held.until_ms <= now_ms + consumer.margin_ms:
                consumer.lapse(queue_id, item)
                self._touched[ticket] = consumer
                continue
            self._working[ticket] = consumer
            consumer.is_waiting = False
            consumer.hand_over(queue_id, item, held.until_ms, now_ms)
            if self.start_due_ms is None and consumer.active.has_fresh:
                self.start_due_ms = now_ms + START_AFTER_MS
            if len(consumer.buffer) + consumer.credit_messages <= consumer.read_ahead.half:
                self._touched[ticket] = consumer
            return messages.decode(item, consumer.queue, queue_id, home, ticket)
        if not consumer.is_waiting:
            consumer.is_waiting = True
            self._touched[ticket] = consumer
        return None

    def _holder(self, ticket: int) -> ConsumerState | None:
        """Returns a consumer, even if it has ended and its application still holds messages."""
        return self._all.get(ticket) or self._working.get(ticket)

    def settled(self, message: Message, action: int, unit: Unit | None) -> GroupReturn | None:
        """Frees the credit of a message that the application settles, alone or in a unit.

        Returns the GroupReturn to answer if later messages of the group return with this message.
        """
        consumer = self._holder(message.consumer)
        if consumer is None:
            return None
        if consumer.settle(message.handle):
            self._touched[consumer.ticket] = consumer
        if message.group is None or not consumer.is_ordered:
            return None
        group_id, number, _ = message.group
        if unit is not None:
            unit.members.append((consumer.ticket, group_id, number))
        if not returns_message(action):
            return None
        self._touched[consumer.ticket] = consumer
        return consumer.return_group(group_id, number)

    def handle_of(self, message: Message) -> bytes:
        """Returns the handle of the latest lease of *message*."""
        consumer = self._holder(message.consumer)
        return message.handle if consumer is None else consumer.handle_of(message.handle)

    def undone(self, unit: Unit) -> None:
        """Records that the messages that *unit* acknowledged have returned to their queues."""
        for ticket, group_id, number in unit.members:
            consumer = self._all.get(ticket)
            if consumer is not None:
                found = consumer.return_group(group_id, number)
                unit.group_returns += [] if found is None else [found]
                self._touched[ticket] = consumer

    def renewed(self, ticket: int, handle: bytes, lease_ms: int, now_ms: int) -> None:
        """Records the new end of a lease that is being renewed."""
        consumer = self._holder(ticket)
        if consumer is not None:
            consumer.active.renewed(handle)
            consumer.renew(handle, lease_ms, now_ms)

    def renewals(self, now_ms: int) -> list[tuple[int, bytes]]:
        """Returns the queue id and handle of each message whose lease starts or is renewed now."""
        due = [found for x in self._working.values() for found in x.renewals(now_ms)]
        self._working = {x.ticket: x for x in self._working.values() if x.active}
        has_fresh = any(x.active.has_fresh for x in self._working.values())
        self.start_due_ms = now_ms + START_AFTER_MS if has_fresh else None
        return due

    def take_lapsed(self) -> list[Lapsed]:
        """Returns and forgets the messages whose leases ended before they were read."""
        found = self._lapsed[:]
        self._lapsed.clear()
        return found

    @property
    def has_lapsed(self) -> bool:
        """Whether the lease of any message ended before the message was read."""
        return bool(self._lapsed)

    @property
    def has_credit(self) -> bool:
        """Whether a consumer may have credit to send."""
        return bool(self._touched)

    @property
    def renewal_ms(self) -> int:
        """The interval between checks of automatic renewals, or 0 if no lease is renewed."""
        return min((x.lease_ms // 4 for x in self._working.values() if x.auto_renew), default=0)

    def expire(self, now_ms: int) -> None:
        """Frees the credit of messages that are back in their queues because their leases ended."""
        for ticket, consumer in self._all.items():
            if consumer.held and consumer.expire(now_ms):
                self._touched[ticket] = consumer

    def cancel(self, ticket: int) -> tuple[m.Cancel | None, list[tuple[int, bytes]]]:
        """Ends a consumer.

        Returns the message that cancels the consumer, and the queue id and handle of each message
        that the application has not received.
        """
        consumer = self._all.get(ticket)
        if consumer is None or consumer.is_cancelled:
            return None, []
        consumer.is_cancelled = True
        unread = [(queue_id, item[: m.HANDLE.size]) for queue_id, item in consumer.buffer]
        unread = [
            (queue_id, handle) for queue_id, handle in unread if consumer.remove_lease(handle)
        ]
        consumer.buffer.clear()
        if consumer.request_id:
            return m.Cancel(consumer.request_id), unread
        self._waiting.remove(consumer)
        self._end(consumer, None)
        return None, unread

    def ended(self, request_id: int, error: RequestError) -> None:
        """Handles the end of a consumer, or the refusal to open it."""
        consumer = self.open.pop(request_id)
        self._opening -= not consumer.is_open
        consumer.is_open = False
        asked_for = consumer.is_cancelled or error.code == ErrorCode.CANCELLED
        self._end(consumer, None if asked_for else error)

    def _end(self, consumer: ConsumerState, error: RequestError | None) -> None:
        self._all.pop(consumer.ticket, None)
        self._touched.pop(consumer.ticket, None)
        self._events.append(ConsumerEnded(consumer.ticket, error))

    def lost(self) -> None:
        """Drops the buffered messages and queues all consumers for reopening (rule 2)."""
        self._held_before_loss = {
            identity: (consumer.ticket, handle)
            for consumer in self._all.values()
            for handle, identity in consumer.handed.items()
        }
        for consumer in self.open.values():
            for _, item in consumer.buffer:
                consumer.remove_lease(item[: m.HANDLE.size])
            consumer.buffer.clear()
            consumer.active.clear()
            consumer.group_returns.clear()
            consumer.request_id = consumer.credit_messages = consumer.credit_bytes = 0
            consumer.is_open = False
            if consumer.is_cancelled:
                self._end(consumer, None)
            else:
                self._waiting.append(consumer)
        self.open.clear()
        self._touched.clear()
        self._working.clear()
        self._lapsed.clear()
        self._opening = 0
        self.start_due_ms = None

    def fail(self, error: ConnectionEnded) -> None:
        """Ends every consumer with *error*."""
        for consumer in list(self._all.values()):
            self._end(consumer, None if consumer.is_cancelled else error)
        self.open.clear()
        self._waiting.clear()
        self._opening = 0


def check_credit(prefetch: int, bytes_max: int) -> None:
    """Checks that the credit of a consumer suffices for a message.

    Raises:
        RequestError: VALUE_INVALID if *prefetch* or *bytes_max* is 0.
    """
    if not prefetch or not bytes_max:
        text = f"prefetch is {prefetch} and bytes_max is {bytes_max}: the minimum of each is 1"
        raise RequestError(ErrorCode.VALUE_INVALID, text)
