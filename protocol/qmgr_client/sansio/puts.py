"""The sending end of a producer's stream: numbers puts, sends them again, has one result for each.

    waiting ──take──▶ sent, with an id ──Committed──▶ one PutDone
                          ▲    │
                          │    └──connection lost──▶ ProducerOpen(resume) is answered with the
                          │                          ids that are held: these are done
                          └──again, same ids──────── and the rest goes out anew

1. An id is given when a put is sent for the first time. So ids have no holes, and what was never
   sent is known not to be stored.
2. Ids are resolved by the commit id, by a refusal, or by the answer to a resume; whichever comes
   first takes the put out of ``_sent``, and nothing else does. Hence one result.
3. The commit of a unit of work has an id among them, and goes the same way; but one that was not
   sent before its connection was lost is refused: its unit is gone.
4. Where the queue manager no longer knows the stream, what was sent has an unknown outcome. Its ids
   must not be used again, so the stream ends with them; the shell names the next producer.
"""

from collections import deque
from typing import Any, NamedTuple

from qmgr_client.errors import ConnectionEnded, UnknownOutcome
from qmgr_client.message import PutResult
from qmgr_client.sansio.events import Events, ProducerLost, PutDone
from qmgr_client.sansio.units import Commit, Units, backed_out
from qmgr_protocol import messages as m
from qmgr_protocol.errors import CommitOutOfRange, ErrorCode, FieldInvalid, RequestError
from qmgr_protocol.field import ID_END, U32, U64, array, integer, row, text
from qmgr_protocol.record import Uid, own_bytes, too_large_text

BATCH_MESSAGES_MAX = 1_000
BATCH_BYTES_MAX = 256 * 1024
FRAME_BYTES = 192  # at most what a put takes beside its record, alone in its frame
HELD_MAX = 20_000  # ids that a stream may hold above a gap, and refusals that it may tell
ELEMENT_BYTES = 5  # the same for each further put of a frame

_OPENED = row(integer(1, ID_END - 1), U64, array(HELD_MAX, U64))
_REFUSALS = array(HELD_MAX, row(U64, U32, text(4096)))
_STAMPS = array(HELD_MAX, row(U64, U64, U32))


class Put(NamedTuple):
    """A put that has no result yet."""

    ticket: int
    queue: str
    record: bytes
    uid: Uid | None  # what the caller gave


class Puts:
    """All puts without a result.

    Invariant: ``_sent`` is in the order of its ids, all in (commit id, next id); those that this
    connection has not carried yet are in ``_again``.
    """

    def __init__(
        self, producer_id: bytes, instance: int, events: Events, units: Units, *, coalesce: bool
    ) -> None:
        self._units = units
        self._producer_id = producer_id
        self._instance = instance
        self._events = events
        self._batch_max = BATCH_MESSAGES_MAX if coalesce else 1
        self._waiting: deque[Put | Commit] = deque()
        self._waiting_bytes = 0
        self._sent: dict[int, Put | Commit] = {}
        self._again: deque[int] = deque()
        self._stream = 0  # its number on this connection, once it is open
        self._open_id = 0  # the request that opens it
        self._was_open = False
        self._commit_id = 0
        self._next_id = 1
        self._foreign: frozenset[int] = frozenset()  # ids that an earlier process used up
        self._resent_to = 0
        self._flight_bytes = 0  # sent on this connection and not answered

    def __len__(self) -> int:
        """Return how many puts have no result yet."""
        return len(self._waiting) + len(self._sent)

    @property
    def is_recovering(self) -> bool:
        """Whether puts of an earlier connection are still to be sent."""
        return bool(self._again or (self._sent and not self._stream))

    @property
    def open_id(self) -> int:
        """The request that is opening the stream, or 0."""
        return self._open_id

    def has_room(self, limits: m.Welcome) -> bool:
        """Return whether less than a window waits to be sent."""
        return (
            len(self._waiting) < limits.put_window_messages
            and self._waiting_bytes < limits.put_window_bytes
        )

    def add(self, put: Put | Commit) -> None:
        """Take in a put, or the commit of a unit, to be sent when the window lets it."""
        self._waiting.append(put)
        self._waiting_bytes += len(put.record)

    def wants_open(self) -> bool:
        """Return whether the stream is to be opened: a put needs it, and it is not."""
        if self._stream or self._open_id or not self._producer_id:
            return False
        return bool(self._waiting or self._sent)

    def open(self, request_id: int) -> m.ProducerOpen:
        """Return the request that opens the stream."""
        self._open_id = request_id
        return m.ProducerOpen(request_id, self._producer_id, self._was_open, self._instance)

    def opened(self, value: Any, origin: str) -> None:
        """Take what the queue manager holds of the stream; *origin* is its name.

        Raises:
            FieldInvalid, CommitOutOfRange: the peer broke the protocol.
        """
        self._open_id = 0
        if why := _OPENED(value):
            raise FieldInvalid("Ok", "value", why)
        stream, commit_id, ahead = value[:3]
        refusals = value[3] if len(value) > 3 else []
        stamps = value[4] if len(value) > 4 else []
        if why := _REFUSALS(refusals) or _STAMPS(stamps):
            raise FieldInvalid("Ok", "value", why)
        if not self._was_open:
            self._was_open = True
            self._commit_id, self._next_id = commit_id, commit_id + 1
            self._resent_to = commit_id
            self._foreign = frozenset(ahead)
        elif not self._resume(commit_id, frozenset(ahead), refusals, stamps, origin):
            return
        self._stream = stream

    def _resume(
        self,
        commit_id: int,
        ahead: frozenset[int],
        refusals: list[list[Any]],
        stamps: list[list[int]],
        origin: str,
    ) -> bool:
        """Resolve what is held there; return whether the stream can go on."""
        highest = max(ahead, default=commit_id)
        if max(highest, commit_id) >= self._next_id:
            raise CommitOutOfRange(max(highest, commit_id), self._next_id)
        if commit_id < self._commit_id:
            text_ = f"the stream is at {commit_id}, it was at {self._commit_id}: an older state"
            self._lose(RequestError(ErrorCode.PRODUCER_UNKNOWN, text_))
            return False
        for seq_id, code, why in (refusal[:3] for refusal in refusals):
            self._resolve(seq_id, RequestError(code, why))
        for seq_id in [i for i in self._sent if i <= commit_id or i in ahead]:
            times = (run[1] + seq_id - run[0] for run in stamps if 0 <= seq_id - run[0] < run[2])
            self._store(seq_id, next((Uid(origin, time) for time in times), None))
        self._commit_id = commit_id
        self._again = deque(self._sent)
        return True

    def refused(self, error: RequestError) -> None:
        """Take a refusal to open the stream."""
        self._open_id = 0
        if self._was_open:
            self._lose(error)
            return
        waiting, self._waiting, self._waiting_bytes = self._waiting, deque(), 0
        for put in waiting:
            self._done(put, error)

    def _lose(self, error: RequestError) -> None:
        """Give up the stream: rule 4."""
        unknown = UnknownOutcome(error.code, error.text)
        for put in self._sent.values():
            self._done(put, unknown)
        self._sent.clear()
        self._again.clear()
        self._producer_id, self._was_open = b"", False
        self._events.append(ProducerLost(error))

    def renew(self, producer_id: bytes) -> None:
        """Go on under a new producer id, after ProducerLost."""
        self._producer_id = producer_id

    def take(self, limits: m.Welcome) -> m.Put | m.UnitCommit | None:
        """Return the next frame: puts with consecutive ids for one queue, or the commit of a unit.

        Both within the window.
        """
        if not self._stream:
            return None
        first_id, queue, records, size = 0, "", list[bytes](), 0
        batch_bytes_max = min(BATCH_BYTES_MAX, limits.frame_max_bytes - FRAME_BYTES)
        last_id = self._commit_id + limits.put_window_messages
        while len(records) < self._batch_max and (found := self._peek(limits)) is not None:
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

    def _peek(self, limits: m.Welcome) -> tuple[int, Put | Commit] | None:
        """Return the next put to send, with its id; refuse those that no frame can carry."""
        while self._again:
            seq_id = self._again[0]
            if put := self._sent.get(seq_id):
                return seq_id, put
            self._again.popleft()
        limit = min(limits.message_max_bytes, limits.frame_max_bytes - FRAME_BYTES)
        while self._waiting:
            put = self._waiting[0]
            if own_bytes(put.record) <= limit:
                while self._next_id in self._foreign:
                    self._next_id += 1
                return self._next_id, put
            self._waiting.popleft()
            self._waiting_bytes -= len(put.record)
            why = too_large_text(own_bytes(put.record), limit)
            error = RequestError(ErrorCode.MESSAGE_TOO_LARGE, why)
            self._done(put, error)
        return None

    def _pop(self, seq_id: int, put: Put | Commit) -> None:
        if self._again:
            self._again.popleft()
            return
        self._waiting.popleft()
        self._waiting_bytes -= len(put.record)
        self._sent[seq_id] = put
        self._next_id = seq_id + 1

    def committed(self, answer: m.Committed, origin: str) -> None:
        """Take the queue manager's answer; *origin* is its name, which stamps carry.

        Raises:
            CommitOutOfRange: it speaks of an id that was never sent.
        """
        if answer.stream != self._stream:
            return
        highest = max([answer.commit_id, *(run[0] + run[2] - 1 for run in answer.stamped)])
        if highest >= self._next_id:
            raise CommitOutOfRange(highest, self._next_id)
        for seq_id, code, why in (refusal[:3] for refusal in answer.refused):
            self._resolve(seq_id, RequestError(code, why))
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
        """Return how many subscriptions each publication fits, of those without an answer yet."""
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
            self._flight_bytes = max(self._flight_bytes - len(put.record) - FRAME_BYTES, 0)
            self._done(put, result)

    def _done(self, put: Put | Commit, result: PutResult | RequestError) -> None:
        if type(put) is Commit:
            self._units.committed(put.unit, result)
        self._events.append(PutDone(put.ticket, result))

    def lost(self) -> None:
        """Take note that the connection is gone, and with it the stream's number: rule 3."""
        if any(type(put) is Commit for put in self._waiting):
            waiting, self._waiting = self._waiting, deque()
            for put in waiting:
                if type(put) is Commit:
                    self._done(put, backed_out(put.unit))
                else:
                    self._waiting.append(put)
        self._stream = self._open_id = 0
        self._again.clear()
        self._resent_to = self._next_id - 1
        self._flight_bytes = 0

    def fail(self, error: ConnectionEnded) -> None:
        """End every put with *error*; what was sent may have been stored all the same."""
        sent = error.once_sent()
        for put in self._sent.values():
            self._done(put, sent)
        for put in self._waiting:
            self._done(put, error)
        self._sent.clear()
        self._again.clear()
        self._waiting.clear()
        self._waiting_bytes = 0
