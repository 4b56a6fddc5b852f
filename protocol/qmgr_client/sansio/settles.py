"""Ends of leases: grouped into frames, answered cumulatively, sent again after a reconnect.

    waiting ──take──▶ sent under a settle id ──Settled(id)──▶ one result for each handle
       ▲                  │
       └─connection lost──┘

Sending one again is harmless: what was settled or is gone counts as settled, and what another holds
is refused (LEASE_LOST), as it would have been the first time. But what is part of a unit of work,
and a renewal, is for its connection alone, and ends with it.
"""

from collections import deque
from typing import NamedTuple

from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import NOWHERE, Home
from qmgr_client.sansio.events import Events, Settled
from qmgr_client.sansio.taken_back import TakenBack
from qmgr_client.sansio.units import Unit, Units, backed_out
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.field import ID_END

BATCH_HANDLES_MAX = 1_000  # A frame may carry more; its answer must list the exceptions of all.


class Terms(NamedTuple):
    """How a lease is to end, beside what the action says; as in messages.Settle."""

    delay_ms: int = m.DELAY_OF_QUEUE
    lease_ms: int = 0
    reason: str = ""
    text: str = ""


PLAIN = Terms()


class Settle(NamedTuple):
    """The end of a lease, or its renewal, that has no result yet."""

    ticket: int  # 0 for what the core itself gives back: nobody wants to know
    action: int
    home: Home
    queue_id: int
    handle: bytes
    terms: Terms = PLAIN
    unit: Unit | None = None  # that an ack is part of
    taken: TakenBack | None = None  # to be told once it is answered

    @property
    def outlives_connection(self) -> bool:
        """Whether it means anything on the next connection."""
        return self.unit is None and self.action != m.RENEW


class Settles:
    """All settles without a result.

    Invariant: ``_sent`` is in the order of its ids, which are this connection's.
    """

    def __init__(self, events: Events, units: Units, *, coalesce: bool) -> None:
        self._events = events
        self._units = units
        self._batch_max = BATCH_HANDLES_MAX if coalesce else 1
        self._waiting: deque[Settle] = deque()
        self._sent: dict[int, list[Settle]] = {}
        self._next_id = 1
        self.frames_sent = 0  # on this connection
        self._again = 0  # how many of those waiting were sent on an earlier connection
        self._home = NOWHERE

    def __len__(self) -> int:
        """Return how many settles have no result yet."""
        return len(self._waiting) + sum(map(len, self._sent.values()))

    @property
    def frames(self) -> int:
        """How many frames of this connection wait for an answer."""
        return len(self._sent)

    @property
    def is_recovering(self) -> bool:
        """Whether settles of an earlier connection are still to be sent."""
        return self._again > 0

    def add(self, settle: Settle) -> None:
        """Take in a settle, to be sent when the window lets it; refuse one of another store."""
        if self._home is not NOWHERE and not self._home.knows(settle.home):
            self._events.append(Settled(settle.ticket, refusal(ErrorCode.LEASE_LOST)))
            return
        if settle.unit is not None:
            settle.unit.stepped()
        self._waiting.append(settle)

    def give_back(self, queue_id: int, handle: bytes, taken: TakenBack | None = None) -> None:
        """Have a message go back that nobody has looked at."""
        self._waiting.append(Settle(0, m.UNREAD, self._home, queue_id, handle, taken=taken))

    def renew(self, queue_id: int, handle: bytes) -> None:
        """Have a lease go on of which the application need not know."""
        self._waiting.append(Settle(0, m.RENEW, self._home, queue_id, handle))

    def take(self) -> m.Settle | None:
        """Return the next frame: handles of one queue, for one action, in one way."""
        waiting = self._waiting
        if not waiting or not self._renumber():
            return None
        _, action, _, queue_id, _, terms, unit, _ = waiting[0]
        batch: list[Settle] = []
        while waiting and len(batch) < self._batch_max:
            other = waiting[0]
            if other.queue_id != queue_id or other.action != action:
                break
            if other.unit is not unit or other.terms != terms:
                break
            batch.append(waiting.popleft())
        self._again = max(self._again - len(batch), 0)
        frame = self._frame(action, queue_id, batch)
        if unit is None and terms is PLAIN:
            return frame
        delay_ms, lease_ms, reason, text = terms
        return frame._replace(
            unit=unit.number if unit else 0,
            delay_ms=delay_ms,
            lease_ms=lease_ms,
            reason=reason,
            text=text,
        )

    def take_empty(self) -> m.Settle | None:
        """Return a frame without handles: its answer tells what the queue manager has taken."""
        return self._frame(m.ACK, 0, []) if self._renumber() else None

    def _frame(self, action: int, queue_id: int, batch: list[Settle]) -> m.Settle:
        settle_id, self._next_id = self._next_id, self._next_id + 1
        self._sent[settle_id] = batch
        self.frames_sent += 1
        handles = b"".join([settle.handle for settle in batch])
        return m.Settle(settle_id, action, queue_id, handles)

    def _renumber(self) -> bool:
        """Return whether there is an id for a frame: they start anew when all is answered."""
        if self._next_id < ID_END:
            return True
        if not self._sent:
            self._next_id = 1
        return not self._sent

    def settled(self, answer: m.Settled) -> None:
        """Take the answer to all frames up to an id."""
        codes = {(row[0], row[1]): row[2] for row in answer.exceptions}
        for settle_id in [i for i in self._sent if i <= answer.settle_id]:
            for index, settle in enumerate(self._sent.pop(settle_id)):
                code = codes.get((settle_id, index)) if codes else None
                self._finish(settle, None if code is None else self._refusal(settle, code))

    def _refusal(self, settle: Settle, code: int) -> RequestError:
        """Return what its caller is told: whose the message is, where this client knows."""
        if code == ErrorCode.LEASE_LOST and self._units.holds(settle.queue_id, settle.handle):
            text = "a unit of work holds this message: it ends when that commits or is backed out"
            return RequestError(code, text)
        return refusal(code)

    def _finish(self, settle: Settle, error: RequestError | None) -> None:
        if settle.unit is not None:
            if error is None:
                settle.unit.gets.add((settle.queue_id, settle.handle))
            self._units.answered(settle.unit)
        if settle.taken is not None:
            settle.taken.is_over = True
        if settle.ticket:
            self._events.append(Settled(settle.ticket, error))

    def lost(self) -> None:
        """Have what was sent go out again, first of all, on the next connection."""
        sent = [settle for batch in self._sent.values() for settle in batch]
        waiting = [*sent, *self._waiting]
        self._waiting = deque(settle for settle in waiting if settle.outlives_connection)
        sent = [settle for settle in sent if settle.outlives_connection]
        self._again += len(sent)
        self._sent.clear()
        for settle in waiting:
            if settle.unit is not None:
                self._finish(settle, backed_out(settle.unit))
            elif settle.action == m.RENEW:
                self._finish(settle, refusal(ErrorCode.LEASE_LOST))
        self._next_id = 1
        self.frames_sent = 0

    def came_to(self, home: Home) -> None:
        """End what was leased from another store than the one now connected."""
        self._home = home
        foreign = [settle for settle in self._waiting if not home.knows(settle.home)]
        if not foreign:
            return
        self._waiting = deque(settle for settle in self._waiting if home.knows(settle.home))
        self._again = min(self._again, len(self._waiting))
        for settle in foreign:
            self._finish(settle, refusal(ErrorCode.LEASE_LOST))

    def fail(self, error: ConnectionEnded) -> None:
        """End every settle with *error*."""
        sent = error.once_sent()
        for batch in self._sent.values():
            for settle in batch:
                self._finish(settle, sent)
        for settle in self._waiting:
            self._finish(settle, error)
        self._sent.clear()
        self._waiting.clear()
        self._again = 0


def refusal(code: int) -> RequestError:
    """Return what the caller of a settle is told for *code*."""
    if code == ErrorCode.LEASE_LOST:
        return RequestError(code, "the lease is over, and the message may be another's by now")
    return RequestError(code, "the message could not be settled")
