"""The sending end of a producer's stream: numbers and repeats puts, and resolves each put once.

    waiting ──take──▶ sent, with an id ──Committed──▶ one PutDone
                          ▲    │
                          │    └──connection lost──▶ ProducerOpen(resume) is answered with the
                          │                          ids that are stored: these are done
                          └──same ids, repeated───── and the rest is sent again

1. A put receives its id when it is sent for the first time. Therefore, ids have no gaps, and a put
   that was never sent is certainly not stored.
2. The commit id, a refusal or the answer to a resume resolves a put. The first of these events
   removes the put from ``_sent``, and nothing else does. Therefore, a put has exactly one result.
3. The commit of a unit of work receives an id and is sent in the same way. If the connection is
   lost before the commit is sent, the commit is refused because its unit is lost.
4. If the queue manager no longer knows the stream, the outcome of unanswered puts is unknown. Their
   ids must not be used again. Therefore, the stream ends, and the shell sets a new producer id.
5. A long put is sent in pieces, and receives its id after its last piece. Meanwhile, later puts to
   other queues are sent. Later puts to its queue wait ``_behind`` it, so that their order stays.
"""

from collections import deque
from typing import Any, NamedTuple

from qmgr_client.errors import ConnectionEnded, UnknownOutcome
from qmgr_client.message import PutResult
from qmgr_client.sansio.events import Events, ProducerLost, PutDone
from qmgr_client.sansio.outgoing_body import PUT_BODY, OutgoingBody, record_limit
from qmgr_client.sansio.units import Commit, OpenUnits, backed_out_error
from qmgr_protocol import messages as m
from qmgr_protocol.errors import CommitOutOfRange, ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.field import ID_END, U32, U64, array, integer, row, text
from qmgr_protocol.pieces import PIECE_BYTES, piece_bytes
from qmgr_protocol.record import Uid, own_bytes, too_large_text

BATCH_MESSAGES_MAX = 1_000
BATCH_BYTES_MAX = 256 * 1024
FRAME_BYTES = 192  # maximum size of a frame with one put, in addition to the record
HELD_MAX = 20_000  # maximum number of ids above a gap, or of refusals, in one answer
ELEMENT_BYTES = 5  # maximum size of each further put in a frame, in addition to the record

_OPENED = row(integer(1, ID_END - 1), U64, array(HELD_MAX, U64))
_REFUSALS = array(HELD_MAX, row(U64, U32, text(4096)))
_STAMPS = array(HELD_MAX, row(U64, U64, U32))


class PendingPut(NamedTuple):
    """A put that has no result yet."""

    ticket: int
    queue: str
    record: bytes
    uid: Uid | None  # UID that the caller chose


class _LongPut(NamedTuple):
    """A put whose pieces are being sent."""

    put: PendingPut | Commit  # never a Commit, whose record is empty
    seq_id: int  # id of a put that is repeated, or 0 if the put has no id yet
    body: OutgoingBody


class Puts:
    """All puts that have no result yet.

    Invariant: ``_sent`` is in the order of its ids. All of them are between the commit id and the
    next id. ``_resend`` has the ids that must still be repeated on this connection. ``_behind`` is
    empty unless a long put is being sent.
    """

    def __init__(
        self, producer_id: bytes, instance: int, events: Events, units: OpenUnits, *, coalesce: bool
    ) -> None:
        self._units = units
        self._producer_id = producer_id
        self._instance = instance
        self._events = events
        self._batch_max = BATCH_MESSAGES_MAX if coalesce else 1
        self._waiting: deque[PendingPut | Commit] = deque()
        self._waiting_bytes = 0
        self.long: _LongPut | None = None  # the put whose pieces are being sent
        self._behind: deque[PendingPut | Commit] = deque()
        self._behind_queues: set[str] = set()  # queues of the long put and of the puts behind it
        self._sent: dict[int, PendingPut | Commit] = {}
        self._resend: deque[int] = deque()
        self._stream = 0  # number of the stream on this connection, or 0 if it is not open
        self._open_id = 0  # id of the request that opens the stream, or 0
        self._was_open = False
        self._commit_id = 0
        self._next_id = 1
        self._used_ids: frozenset[int] = frozenset()  # ids that an earlier process used
        self._resent_to = 0
        self._limits: m.Welcome | None = None  # limits to which the next two values belong
        self._piece_bytes = 0  # size of the pieces of long puts on this connection, or 0
        self._record_max_bytes = 0  # size of the longest record on this connection
        self._flight_bytes = 0  # size of the puts in flight on this connection, in bytes

    def __len__(self) -> int:
        """Returns the number of puts without a result."""
        return self._unsent + len(self._sent)

    @property
    def _unsent(self) -> int:
        """The number of puts without an id."""
        is_new = self.long is not None and not self.long.seq_id
        return len(self._waiting) + len(self._behind) + is_new

    @property
    def long_bytes(self) -> tuple[int, int]:
        """The number of bytes of the long put that were sent, and its size, or (0, 0)."""
        long = self.long
        return (0, 0) if long is None else (long.body.sent_bytes, long.body.size)

    @property
    def is_recovering(self) -> bool:
        """Whether puts of an earlier connection must still be repeated."""
        return bool(self._resend or (self._sent and not self._stream))

    @property
    def open_id(self) -> int:
        """The id of the request that is opening the stream, or 0."""
        return self._open_id

    def has_room(self, limits: m.Welcome) -> bool:
        """Returns whether fewer puts than a full window wait to be sent."""
        return (
            self._unsent < limits.put_window_messages
            and self._waiting_bytes < limits.put_window_bytes
        )

    def add(self, put: PendingPut | Commit) -> None:
        """Queues a put, or the commit of a unit, until the window has room for it."""
        self._waiting.append(put)
        self._waiting_bytes += len(put.record)

    def wants_open(self) -> bool:
        """Returns whether a put needs the stream to be opened."""
        if self._stream or self._open_id or not self._producer_id:
            return False
        return bool(self._waiting or self._sent)

    def open(self, request_id: int) -> m.ProducerOpen:
        """Returns the request that opens the stream."""
        self._open_id = request_id
        return m.ProducerOpen(request_id, self._producer_id, self._was_open, self._instance)

    def opened(self, value: Any, origin: str) -> None:
        """Handles the state of the stream at the queue manager, whose name is *origin*.

        Raises:
            FieldInvalid, CommitOutOfRange: The queue manager broke the protocol.
        """
        self._open_id = 0
        if complaint := _OPENED(value):
            raise FieldInvalid("Ok", "value", complaint)
        stream, commit_id, above_gap = value[:3]
        refusals = value[3] if len(value) > 3 else []
        stamps = value[4] if len(value) > 4 else []
        if complaint := _REFUSALS(refusals) or _STAMPS(stamps):
            raise FieldInvalid("Ok", "value", complaint)
        if not self._was_open:
            self._was_open = True
            self._commit_id, self._next_id = commit_id, commit_id + 1
            self._resent_to = commit_id
            self._used_ids = frozenset(above_gap)
        elif not self._resume(commit_id, frozenset(above_gap), refusals, stamps, origin):
            return
        self._stream = stream

    def _resume(
        self,
        commit_id: int,
        above_gap: frozenset[int],
        refusals: list[list[Any]],
        stamps: list[list[int]],
        origin: str,
    ) -> bool:
        """Resolves the puts that are stored. Returns whether the stream can continue."""
        highest = max(above_gap, default=commit_id)
        if max(highest, commit_id) >= self._next_id:
            raise CommitOutOfRange(max(highest, commit_id), self._next_id)
        if commit_id < self._commit_id:
            text_ = (
                f"the queue manager has an older state of the stream: commit id {commit_id}, "
                f"previously {self._commit_id}"
            )
            self._lose(RequestError(ErrorCode.PRODUCER_UNKNOWN, text_))
            return False
        for seq_id, code, reason in (refusal[:3] for refusal in refusals):
            self._resolve(seq_id, RequestError(code, reason))
        for seq_id in [i for i in self._sent if i <= commit_id or i in above_gap]:
            times = (run[1] + seq_id - run[0] for run in stamps if 0 <= seq_id - run[0] < run[2])
            self._store(seq_id, next((Uid(origin, time) for time in times), None))
        self._commit_id = commit_id
        self._resend = deque(self._sent)
        return True

    def refused(self, error: RequestError) -> None:
        """Handles the refusal to open the stream."""
        self._open_id = 0
        if self._was_open:
            self._lose(error)
            return
        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        for put in waiting:
            self._done(put, error)

    def _lose(self, error: RequestError) -> None:
        """Ends the stream (rule 4)."""
        unknown = UnknownOutcome(error.code, error.text)
        for put in self._sent.values():
            self._done(put, unknown)
        self._sent.clear()
        self._resend.clear()
        self._producer_id, self._was_open = b"", False
        self._events.append(ProducerLost(error))

    def renew(self, producer_id: bytes) -> None:
        """Continues under a new producer id after ProducerLost."""
        self._producer_id = producer_id

    def take(self, limits: m.Welcome) -> m.Put | m.UnitCommit | None:
        """Returns the next frame that fits the window, or None.

        A frame contains puts with consecutive ids for one queue, or the commit of a unit.
        """
        if not self._stream:
            return None
        if limits is not self._limits:
            self._adapt(limits)
        first_id, queue, records, size = 0, "", list[bytes](), 0
        batch_bytes_max = min(BATCH_BYTES_MAX, limits.frame_max_bytes - FRAME_BYTES)
        last_id = self._commit_id + limits.put_window_messages
        while len(records) < self._batch_max and (found := self._peek()) is not None:
            seq_id, put = found
            flight_bytes = len(put.record) + FRAME_BYTES
            if records:
                if put.queue != queue or seq_id != first_id + len(records) or type(put) is Commit:
                    break
                if size + len(put.record) + ELEMENT_BYTES > batch_bytes_max:
                    break
            else:
                first_id, queue = seq_id, put.queue
            full = self._flight_bytes + flight_bytes > limits.put_window_bytes
            if seq_id > last_id or (full and self._flight_bytes):
                break
            self._pop(seq_id, put)
            self._flight_bytes += flight_bytes
            if type(put) is Commit:
                return put.under(self._stream, seq_id, self._commit_id)
            records.append(put.record)
            size += len(put.record) + ELEMENT_BYTES
        if not records:
            return None
        return m.Put(self._stream, first_id, self._commit_id, queue, records)

    def _adapt(self, limits: m.Welcome) -> None:
        self._limits = limits
        self._piece_bytes = piece_bytes(limits.piece_max_bytes)
        self._record_max_bytes = record_limit(limits, FRAME_BYTES)

    def _peek(self) -> tuple[int, PendingPut | Commit] | None:
        """Returns the next put to send in one frame, and its id, or None.

        Refuses puts that are too long, and begins to send the next long put.
        """
        if self.long is not None and self.long.seq_id and self.long.seq_id not in self._sent:
            self._end_long()  # An answer resolved the repeated put.
        while self._resend:
            seq_id = self._resend[0]
            if put := self._sent.get(seq_id):
                if not self._is_long(put):
                    return seq_id, put
                if self.long is None:
                    self._begin(put, seq_id)
                return None
            self._resend.popleft()
        return self._peek_waiting() if self._waiting else None

    def _peek_waiting(self) -> tuple[int, PendingPut | Commit] | None:
        """Returns the next put to send for the first time, as :meth:`_peek` does."""
        limit = self._record_max_bytes
        while self._waiting:
            put = self._waiting[0]
            if own_bytes(put.record) > limit:
                self._waiting.popleft()
                self._waiting_bytes -= len(put.record)
                text_ = too_large_text(own_bytes(put.record), limit)
                self._done(put, RequestError(ErrorCode.MESSAGE_TOO_LARGE, text_))
            elif type(put) is Commit:  # It takes effect after the puts before it.
                return (self._new_id(), put) if self.long is None else None
            elif self.long is None and self._is_long(put):
                self._begin(put, 0)
                self._waiting.popleft()
            elif self.long is not None and (put.queue in self._behind_queues or self._is_long(put)):
                self._behind.append(put)
                self._behind_queues.add(put.queue)
                self._waiting.popleft()
            else:
                return self._new_id(), put
        return None

    def _is_long(self, put: PendingPut | Commit) -> bool:
        return len(put.record) > PIECE_BYTES and self._piece_bytes > 0

    def _begin(self, put: PendingPut | Commit, seq_id: int) -> None:
        body = OutgoingBody(PUT_BODY, put.record, self._piece_bytes)
        self.long = _LongPut(put, seq_id, body)
        self._behind_queues.add(put.queue)

    def _new_id(self) -> int:
        while self._next_id in self._used_ids:
            self._next_id += 1
        return self._next_id

    def take_piece(self, limits: m.Welcome) -> m.Piece | m.Put | None:
        """Returns the next piece of the long put, or the put after its last piece, or None."""
        if self.long is None:
            return None
        put, seq_id, body = self.long
        if (piece := body.next()) is not None:
            return piece
        is_full = self._flight_bytes and self._flight_bytes + FRAME_BYTES > limits.put_window_bytes
        if is_full or (seq_id or self._new_id()) > self._commit_id + limits.put_window_messages:
            return None
        if seq_id:
            self._resend.popleft()
        else:
            seq_id, self._next_id = self._next_id, self._next_id + 1
            self._sent[seq_id] = put
            self._waiting_bytes -= len(put.record)
        self._flight_bytes += FRAME_BYTES
        self._end_long()
        return m.Put(self._stream, seq_id, self._commit_id, put.queue, [b""], [], [[0, PUT_BODY]])

    def _end_long(self) -> None:
        self.long = None
        self._waiting.extendleft(reversed(self._behind))
        self._behind.clear()
        self._behind_queues.clear()

    def _stop_long(self) -> None:
        """Stops sending the long put. A put without an id waits again, before the others."""
        if self.long is not None:
            if not self.long.seq_id:
                self._behind.appendleft(self.long.put)
            self._end_long()

    def _pop(self, seq_id: int, put: PendingPut | Commit) -> None:
        if self._resend:
            self._resend.popleft()
            return
        self._waiting.popleft()
        self._waiting_bytes -= len(put.record)
        self._sent[seq_id] = put
        self._next_id = seq_id + 1

    def committed(self, answer: m.Committed, origin: str) -> None:
        """Handles an answer of the queue manager, whose name is *origin*.

        Raises:
            CommitOutOfRange: The answer contains an id that was never sent.
        """
        if answer.stream != self._stream:
            return
        highest = max([answer.commit_id, *(run[0] + run[2] - 1 for run in answer.stamped)])
        if highest >= self._next_id:
            raise CommitOutOfRange(highest, self._next_id)
        for seq_id, code, reason in (refusal[:3] for refusal in answer.refused):
            self._resolve(seq_id, RequestError(code, reason))
        matched = self._matched(answer.matched) if answer.matched else {}
        for first_id, timestamp, count in (run[:3] for run in answer.stamped):
            for seq_id in range(max(first_id, self._commit_id + 1), first_id + count):
                uid = Uid(origin, timestamp + seq_id - first_id)
                self._store(seq_id, uid, matched.get(seq_id))
        for seq_id in range(self._commit_id + 1, answer.commit_id + 1):
            if seq_id in self._sent:
                self._store(seq_id, None, matched.get(seq_id))
        self._commit_id = max(self._commit_id, answer.commit_id)

    def _matched(self, runs: list[list[int]]) -> dict[int, int]:
        """Returns the number of matching subscriptions of each unanswered publication."""
        return {
            seq_id: subscriptions
            for first_id, count, subscriptions in (run[:3] for run in runs)
            for seq_id in range(
                max(first_id, self._commit_id + 1), min(first_id + count, self._next_id)
            )
        }

    def _store(self, seq_id: int, uid: Uid | None, matched: int | None = None) -> None:
        put = self._sent.get(seq_id)
        if put is not None:
            result = PutResult(put.uid or uid, seq_id <= self._resent_to, matched)
            self._resolve(seq_id, result)

    def _resolve(self, seq_id: int, result: PutResult | RequestError) -> None:
        put = self._sent.pop(seq_id, None)
        if put is not None:
            size = FRAME_BYTES if self._is_long(put) else len(put.record) + FRAME_BYTES
            self._flight_bytes = max(self._flight_bytes - size, 0)
            self._done(put, result)

    def _done(self, put: PendingPut | Commit, result: PutResult | RequestError) -> None:
        if type(put) is Commit:
            self._units.committed(put.unit, result)
        self._events.append(PutDone(put.ticket, result))

    def lost(self) -> None:
        """Forgets the number of the stream, and refuses the commits that were not sent (rule 3)."""
        self._stop_long()
        if any(type(put) is Commit for put in self._waiting):
            waiting, self._waiting = self._waiting, deque()
            for put in waiting:
                if type(put) is Commit:
                    self._done(put, backed_out_error(put.unit))
                else:
                    self._waiting.append(put)
        self._stream = self._open_id = 0
        self._resend.clear()
        self._resent_to = self._next_id - 1
        self._flight_bytes = 0

    def fail(self, error: ConnectionEnded) -> None:
        """Ends every put with *error*. Puts that were sent may have been stored."""
        self._stop_long()
        sent = error.once_sent()
        for put in self._sent.values():
            self._done(put, sent)
        for put in self._waiting:
            self._done(put, error)
        self._sent.clear()
        self._resend.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
