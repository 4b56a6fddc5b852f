"""Sends long messages in pieces, over several turns (PROTOCOL.md, section 7).

    turn 1   the consumer leases the message
    turn 2   Piece           other messages to other consumers
    turn 3   Piece           ...
    turn 4   Piece, Deliver  the consumer receives further messages

1. A turn sends one piece. Connections take turns, and each sends the pieces of one message at a
   time. So each body has number 1.
2. A consumer receives nothing between the pieces of its message. So its messages keep their order.
3. Pieces wait while the connection is held (unread_replies.py).
4. The lease is renewed with each piece. If it or the consumer ends meanwhile, no Deliver follows.
5. The checksum of the record is known after the last piece. If it is wrong, the message is set
   aside as damaged, and no Deliver follows.
"""

from collections import deque
from collections.abc import Callable

from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgr_protocol.checksum import crc32
from qmgrd.core.context.context import Context
from qmgrd.core.layout import long_record
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.queue import lane
from qmgrd.core.queue.lease import Consumer, Lease
from qmgrd.core.returns.returns import UNREAD
from qmgrd.core.sessions.settlements import Settlements

BODY = 1
_ROWS_OF_A_PIECE = 256  # A piece counts as more rows than it has, because its bytes are sent.


class _LongSend:
    """A long message on its way to a consumer."""

    __slots__ = ("checksum", "consumer", "deliver", "lease", "offset", "piece_bytes", "record")

    def __init__(
        self,
        consumer: Consumer,
        record: LongRecord,
        deliver: m.Deliver,
        lease: Lease,
        piece_bytes: int,
    ) -> None:
        self.consumer = consumer
        self.record = record
        self.deliver = deliver
        self.lease = lease
        self.piece_bytes = piece_bytes
        self.offset = self.checksum = 0


class LongSends:
    """The long messages on their way to all connections."""

    def __init__(
        self, context: Context, settlements: Settlements, piece_bytes_of: Callable[[int], int]
    ) -> None:
        """Creates the object without messages.

        Args:
            context: The context of the core.
            settlements: The owner of timers of leases.
            piece_bytes_of: Returns the size of the pieces for a connection.
        """
        self._context = context
        self._settlements = settlements
        self._piece_bytes_of = piece_bytes_of
        # The messages of each connection. The connection to serve next comes first.
        self._sends: dict[int, deque[_LongSend]] = {}

    @property
    def can_go_on(self) -> bool:
        """Whether a piece can be sent now."""
        return any(x not in self._context.unread_replies.held for x in self._sends)

    def begin(self, consumer: Consumer, record: LongRecord, deliver: m.Deliver) -> None:
        """Begins to send the leased message *record*, whose *deliver* follows the last piece."""
        arrival = m.DELIVERY.unpack_from(deliver.items[0])[1]
        lease = consumer.queue.leases[arrival]
        size = self._piece_bytes_of(consumer.connection)
        consumer.is_sent_pieces = True
        self._sends.setdefault(consumer.connection, deque()).append(
            _LongSend(consumer, record, deliver, lease, size)
        )

    def run(self) -> None:
        """Sends a piece to the next connection that is not held."""
        held = self._context.unread_replies.held
        connection = next((x for x in self._sends if x not in held), None)
        if connection is None:
            return
        sends = self._sends.pop(connection)
        if self._step(sends[0]):
            self._end(sends.popleft())
        if sends:
            self._sends[connection] = sends  # The other connections come first.

    def close(self, connection: int) -> None:
        """Forgets the messages of a closed connection. Their leases end with it."""
        self._sends.pop(connection, None)

    def _step(self, send: _LongSend) -> bool:
        """Sends the next piece. Returns whether nothing of the message is left to send."""
        context, record, connection = self._context, send.record, send.consumer.connection
        if not self._renew(send):
            if send.consumer.is_get:
                context.send(connection, m.Ok(send.consumer.request_id))
            return True
        if not (send.consumer.is_get or send.consumer.open):
            # The consumer was cancelled, and no Deliver may follow its Ended.
            self._settlements.give_back(send.lease, UNREAD)
            return True
        offset, size = send.offset, record.size
        stop = min(offset + send.piece_bytes, size)
        data = long_record.read(context.tx, record.body.id, offset, stop)
        summed = memoryview(data)[0 if offset else records.SUMMED_AT :]
        send.offset, send.checksum = stop, crc32(summed, send.checksum)
        is_last = stop == size
        if len(data) < stop - offset or (is_last and send.checksum != record.checksum):
            self._set_aside(send)
            return True
        context.count_read(_ROWS_OF_A_PIECE, 0)
        context.unread_replies.count_made(connection, len(data))
        context.send(connection, m.Piece(BODY, size, offset, data))
        if is_last:
            context.send(connection, send.deliver._replace(bodies=[[0, BODY]]))
        return is_last

    def _renew(self, send: _LongSend) -> bool:
        """Renews the lease. Returns False if it has ended."""
        lease, queue = send.lease, send.consumer.queue
        found = queue.leases.get(lease.arrival)
        if found is not lease or queue.deleted:
            return False
        lessee = lease.lessee
        del lessee.leases[lease.arrival]  # The leases are in the order of their deadlines.
        deadline_ms = self._context.now.ms + lessee.lease_ms
        send.lease = lease._replace(deadline_ms=deadline_ms)
        queue.leases[lease.arrival] = lessee.leases[lease.arrival] = send.lease
        self._settlements.watch(lessee)
        return True

    def _set_aside(self, send: _LongSend) -> None:
        """Ends the lease of a damaged message, and moves it to the damaged ones."""
        context, lease, consumer = self._context, send.lease, send.consumer
        queue = consumer.queue
        self._settlements.give_back(lease, UNREAD)
        row = queue.find(context.tx, lease.priority, lease.arrival)
        if row is not None:
            lane.set_aside(queue, context.tx, *row)
        context.mark_changed(queue)
        context.note("error", "damaged messages set aside", queue=queue.name, count=1)
        if consumer.is_get:
            context.send(consumer.connection, m.Ok(consumer.request_id))

    def _end(self, send: _LongSend) -> None:
        """Lets the consumer receive further messages."""
        consumer = send.consumer
        consumer.is_sent_pieces = False
        if consumer.open:
            consumer.queue.waiting.resume(consumer)
            self._context.wake(consumer.queue)
