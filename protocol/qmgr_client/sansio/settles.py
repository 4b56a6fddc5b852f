"""Ends of leases: grouped into frames, answered cumulatively, and repeated after a reconnect.

    waiting ──take──▶ sent under a settle id ──Settled(id)──▶ one result for each handle
       ▲                  │
       └─connection lost──┘

Repeating a settle is safe. A message that was settled or deleted counts as settled. If another
consumer has leased the message, the settle is refused with LEASE_LOST. The first settle would have
been refused as well. A renewal or a settle in a unit of work ends with its connection.
"""

from collections import deque
from typing import NamedTuple

from qmgr_client.errors import ConnectionEnded
from qmgr_client.message import NOWHERE, Home
from qmgr_client.sansio.events import Events, SettleDone
from qmgr_client.sansio.group_returns import GroupReturn
from qmgr_client.sansio.units import OpenUnits, Unit, backed_out_error
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgr_protocol.field import ID_END

# A frame may carry more handles, but one answer must list all exceptions.
BATCH_HANDLES_MAX = 1_000


class SettleTerms(NamedTuple):
    """The fields of messages.Settle that refine the action."""

    delay_ms: int = m.DELAY_OF_QUEUE
    lease_ms: int = 0
    reason: str = ""
    text: str = ""


PLAIN = SettleTerms()


class PendingSettle(NamedTuple):
    """The end or the renewal of a lease, as long as the caller has no result."""

    ticket: int  # ticket of the caller; 0 if the core itself settles and no caller waits
    action: int
    home: Home
    queue_id: int
    handle: bytes
    terms: SettleTerms = PLAIN
    unit: Unit | None = None  # unit of work that an ack is part of
    group_return: GroupReturn | None = None  # marked as answered together with the settle

    @property
    def outlives_connection(self) -> bool:
        """Whether the settle is repeated on the next connection."""
        return self.unit is None and self.action != m.RENEW


class Settles:
    """All settles that have no result yet.

    Invariant: ``_sent`` is in the order of its ids. The ids belong to this connection.
    """

    def __init__(self, events: Events, units: OpenUnits, *, coalesce: bool) -> None:
        self._events = events
        self._units = units
        self._batch_max = BATCH_HANDLES_MAX if coalesce else 1
        self._waiting: deque[PendingSettle] = deque()
        self._sent: dict[int, list[PendingSettle]] = {}
        self._next_id = 1
        self.frames_sent = 0  # number of frames sent on this connection
        self._resend_count = 0  # number of waiting settles that an earlier connection sent
        self._home = NOWHERE

    def __len__(self) -> int:
        """Returns the number of settles without a result."""
        return len(self._waiting) + sum(map(len, self._sent.values()))

    @property
    def frames(self) -> int:
        """The number of frames on this connection that wait for an answer."""
        return len(self._sent)

    @property
    def is_recovering(self) -> bool:
        """Whether settles of an earlier connection must still be repeated."""
        return self._resend_count > 0

    def add(self, settle: PendingSettle) -> None:
        """Queues a settle until the window has room for it. Refuses a lease of another store."""
        if self._home is not NOWHERE and not self._home.knows(settle.home):
            self._events.append(SettleDone(settle.ticket, settle_error(ErrorCode.LEASE_LOST)))
            return
        if settle.unit is not None:
            settle.unit.stepped()
        self._waiting.append(settle)

    def give_back(
        self, queue_id: int, handle: bytes, group_return: GroupReturn | None = None
    ) -> None:
        """Returns a message to its queue unread."""
        self._waiting.append(
            PendingSettle(0, m.UNREAD, self._home, queue_id, handle, group_return=group_return)
        )

    def renew(self, queue_id: int, handle: bytes) -> None:
        """Renews a lease for the client itself. The application receives no result."""
        self._waiting.append(PendingSettle(0, m.RENEW, self._home, queue_id, handle))

    def take(self) -> m.Settle | None:
        """Returns the next frame: handles of one queue with the same action and terms."""
        waiting = self._waiting
        if not waiting or not self._renumber():
            return None
        _, action, _, queue_id, _, terms, unit, _ = waiting[0]
        batch: list[PendingSettle] = []
        while waiting and len(batch) < self._batch_max:
            other = waiting[0]
            if other.queue_id != queue_id or other.action != action:
                break
            if other.unit is not unit or other.terms != terms:
                break
            batch.append(waiting.popleft())
        self._resend_count = max(self._resend_count - len(batch), 0)
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
        """Returns a frame without handles. The answer proves that earlier messages were handled."""
        return self._frame(m.ACK, 0, []) if self._renumber() else None

    def _frame(self, action: int, queue_id: int, batch: list[PendingSettle]) -> m.Settle:
        settle_id, self._next_id = self._next_id, self._next_id + 1
        self._sent[settle_id] = batch
        self.frames_sent += 1
        handles = b"".join([settle.handle for settle in batch])
        return m.Settle(settle_id, action, queue_id, handles)

    def _renumber(self) -> bool:
        """Returns whether an id is available. The ids restart at 1 when all frames are answered."""
        if self._next_id < ID_END:
            return True
        if not self._sent:
            self._next_id = 1
        return not self._sent

    def settled(self, answer: m.Settled) -> None:
        """Handles the answer to all frames up to an id."""
        codes = {(row[0], row[1]): row[2] for row in answer.exceptions}
        for settle_id in [i for i in self._sent if i <= answer.settle_id]:
            for index, settle in enumerate(self._sent.pop(settle_id)):
                code = codes.get((settle_id, index)) if codes else None
                self._finish(settle, None if code is None else self._settle_error(settle, code))

    def _settle_error(self, settle: PendingSettle, code: int) -> RequestError:
        """Returns the error for the caller.

        The error names the holder of the lease if it is known.
        """
        if code == ErrorCode.LEASE_LOST and self._units.holds(settle.queue_id, settle.handle):
            text = "an open unit of work acknowledged this message: commit it, or back it out"
            return RequestError(code, text)
        return settle_error(code)

    def _finish(self, settle: PendingSettle, error: RequestError | None) -> None:
        if settle.unit is not None:
            if error is None:
                settle.unit.gets.add((settle.queue_id, settle.handle))
            self._units.answered(settle.unit)
        if settle.group_return is not None:
            settle.group_return.is_answered = True
        if settle.ticket:
            self._events.append(SettleDone(settle.ticket, error))

    def lost(self) -> None:
        """Queues the unanswered settles for the next connection, before all others."""
        sent = [settle for batch in self._sent.values() for settle in batch]
        waiting = [*sent, *self._waiting]
        self._waiting = deque(settle for settle in waiting if settle.outlives_connection)
        sent = [settle for settle in sent if settle.outlives_connection]
        self._resend_count += len(sent)
        self._sent.clear()
        for settle in waiting:
            if settle.unit is not None:
                self._finish(settle, backed_out_error(settle.unit))
            elif settle.action == m.RENEW:
                self._finish(settle, settle_error(ErrorCode.LEASE_LOST))
        self._next_id = 1
        self.frames_sent = 0

    def connected_to(self, home: Home) -> None:
        """Ends the settles of leases that a store other than the store of *home* granted."""
        self._home = home
        foreign = [settle for settle in self._waiting if not home.knows(settle.home)]
        if not foreign:
            return
        self._waiting = deque(settle for settle in self._waiting if home.knows(settle.home))
        self._resend_count = min(self._resend_count, len(self._waiting))
        for settle in foreign:
            self._finish(settle, settle_error(ErrorCode.LEASE_LOST))

    def fail(self, error: ConnectionEnded) -> None:
        """Ends every settle with *error*."""
        sent = error.once_sent()
        for batch in self._sent.values():
            for settle in batch:
                self._finish(settle, sent)
        for settle in self._waiting:
            self._finish(settle, error)
        self._sent.clear()
        self._waiting.clear()
        self._resend_count = 0


def settle_error(code: int) -> RequestError:
    """Returns the error for the caller of a settle that was refused with *code*."""
    if code == ErrorCode.LEASE_LOST:
        return RequestError(code, "the lease has ended, and another consumer may have the message")
    return RequestError(code, "the message could not be settled")
