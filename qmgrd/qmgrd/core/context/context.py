"""The state that all parts of the core share: the open turn and its effects."""

from collections.abc import Sequence
from typing import Any, NamedTuple, TypeAlias

from qmgr_config.model import FRAME_OVERHEAD_BYTES, Config
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.context.aside import Aside
from qmgrd.core.context.audit_trail import AuditTrail
from qmgrd.core.context.peers import LinkPeers
from qmgrd.core.context.piece_sender import PieceSender
from qmgrd.core.layout.entry import VALUE_MAX_BYTES
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.layout.unused_bodies import UnusedBodies
from qmgrd.core.limits.budget import Budget, ClockNs, frozen_clock
from qmgrd.core.limits.open_selectors import OpenSelectors
from qmgrd.core.limits.put_rates import PutRates
from qmgrd.core.limits.room import ADDITIONS, is_in_sequence
from qmgrd.core.limits.timers import Timers
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES, UnreadReplies
from qmgrd.core.limits.work import Key, WorkId
from qmgrd.core.queue.history import History
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.totals import Totals


class Dial(NamedTuple):
    """A request for a connection of a link. The shell answers with dialled or dial_failed."""

    link: str
    address: str
    number: int  # a number that detects a late answer after the link was deleted and created again


class TakeSnapshot(NamedTuple):
    """A request of a client or the schedule for a snapshot of the turn that just ended."""

    connection: int  # the connection of the client; 0 means the schedule
    request_id: int
    directory: str  # the directory or URL of the snapshot
    turn_number: int
    rate_bytes: int = 0  # the limit in bytes per second; 0 means the configured limit


class BeginSwitchOver(NamedTuple):
    """A request of a client to make another member active."""

    connection: int
    request_id: int
    member: str  # the member to become active; "" means any standby
    epoch: int  # the epoch that the client knows; 0 means any


Effect: TypeAlias = Dial | TakeSnapshot | BeginSwitchOver


class Note(NamedTuple):
    """An event for the log."""

    level: str  # the level: info, warning or error
    event: str
    facts: dict[str, Any]
    is_limited: bool = True  # whether the log may leave the line out if there are too many


class Outcome(NamedTuple):
    """The effects of a turn, in the order in which the shell applies them after the commit."""

    sends: list[tuple[int, m.Message]]  # the messages to send, as pairs of connection and message
    closes: list[tuple[int, m.Goaway]]
    effects: list[Effect]
    notes: list[Note]


PAGES_OF_A_PUT = 3  # number of pages of the UID index and other indexes that a put changes
CRAMPED_MS = 1_000  # time until the next check whether the store has room for publications
Facts = tuple[tuple[str, Any], ...]


class Context:
    """The queue manager's identity and limits, and the open turn.

    ``turn_rows`` limits the ``rows`` that a turn reads and changes. ``budget`` limits its time.
    """

    tx: Transaction
    now: Now

    def __init__(
        self,
        config: Config,
        name: str,
        store_id: bytes,
        boot: int,
        salt: bytes = b"",
        clock_ns: ClockNs = frozen_clock,
    ) -> None:
        self.config = config
        self.name = name
        self.store_id = store_id
        self.boot = boot
        self.life = salt  # random bytes that differ at each start, even if the store was restored
        self.ids = Ids(boot)
        self.stamper = Stamper(name, 0)
        self.timers = Timers()
        self.schedule = Schedule()
        self.peers = LinkPeers(self)
        self.history = History(config.accounting.bytes_max, config.accounting.age_max_ms)
        self.audit = AuditTrail()
        self.totals = Totals()
        self.dials = 0
        self.turn_number = 0
        self.turns = 0  # the number of turns since this start, including turns that wrote nothing
        self.budget = Budget(config.limits.turn_ms, clock_ns)
        longest_bytes = max(config.limits.whole_max_bytes, DELIVER_MAX_BYTES)
        self.unread_replies = UnreadReplies(longest_bytes + FRAME_OVERHEAD_BYTES)
        self.piece_sender = PieceSender(self.unread_replies)
        self.put_rates = PutRates()
        self.unused_bodies = UnusedBodies()
        self.selectors = OpenSelectors(config.limits.selectors_max_length)
        self.turn_rows = config.limits.turn_rows
        # See limits/room.py for these limits.
        self.store_full = ""  # the reason for refusing puts, or ""
        self.operators_full = ""  # the reason for refusing requests of operators, or ""
        self.room_bytes = 0  # the number of bytes that puts may still add in this turn
        # The number of bytes that requests of operators may still add in this turn.
        self.operator_bytes = 0
        self.put_pages = 0  # the number of index pages that puts may still change in this turn
        # The number of messages in one slice of each kind of work.
        self.slice_rows = config.limits.turn_rows
        self.is_small = False  # whether this turn does less work because few pages are free
        self.is_cramped = False  # whether puts are refused and accepted publications wait
        self.dirty_queues: dict[int, Queue] = {}
        self.awake_queues: dict[int, Queue] = {}  # queues that may have messages for a consumer
        self.wrote = False  # whether this turn wrote rows other than those of queues
        self.gives_hints = True  # whether errors suggest names that the requester may not see
        self.is_maintenance = False  # whether the daemon only answers requests
        self.aside = Aside()
        self.working: WorkId | None = None  # the current work of the turn, if the work has a name
        self.events: dict[tuple[str, Facts], int] = {}  # the number of times each event occurred
        self.outcome = Outcome([], [], [], [])

    @property
    def rows(self) -> int:
        """The number of rows that this turn has read or changed so far."""
        return self.tx.rows_used

    def send(self, connection: int, message: m.Message) -> None:
        """Sends *message* after the commit of this turn."""
        self.outcome.sends.append((connection, message))

    def reply(self, connection: int, request_id: int, value: Any) -> None:
        """Sends the successful reply to a request after the commit of this turn."""
        self.send(connection, m.Ok(request_id, value))

    def close(self, connection: int, code: int, text: str, retry_after_ms: int = 0) -> None:
        """Closes *connection* after the commit of this turn."""
        self.outcome.closes.append((connection, m.Goaway(code, text, retry_after_ms)))

    def note(self, level: str, event: str, **facts: Any) -> None:
        """Logs an event after the commit of this turn."""
        self.outcome.notes.append(Note(level, event, facts))

    def event(self, event: str, count: int = 1, **facts: Any) -> None:
        """Reports an event to operators with this turn. Equal events are counted."""
        key = event, tuple(facts.items())
        self.events[key] = self.events.get(key, 0) + count

    def begin_work(self, kind: str, key: Key = 0) -> bool:
        """Names the work that follows.

        Returns False if the work is set aside and must be skipped.
        """
        work = self.working = WorkId(kind, key)
        return work not in self.aside.works

    def wake(self, queue: Queue) -> None:
        """Wakes *queue* so that messages are offered to all of its consumers."""
        queue.waiting.unasked = 0
        self.awake_queues[queue.id] = queue

    def reserve(self, batch: list[bytes]) -> None:
        """Reserves room in the store for the puts of *batch* in this turn.

        LMDB needs free pages even for deletions. Therefore, puts must stop at the high-water mark.

        Raises:
            RequestError: STORE_FULL if the store has too little room.
        """
        # The reservation is larger because pages may be half full, and each message has index rows.
        size = 2 * sum(map(len, batch)) + 256 * len(batch)
        if self.store_full or size > self.room_bytes:
            raise _store_full_error(self.store_full, "puts", self.room_bytes, size)
        self.room_bytes -= size
        self.operator_bytes -= size

    def take_room(self, size: int, *, is_operators: bool = False) -> None:
        """Reserves room for *size* bytes of rows that this turn adds.

        Args:
            is_operators: Whether an operator adds the rows. Operators may fill more of the store,
                because they need rows to make room.

        Raises:
            RequestError: STORE_FULL if the store has too little room.
        """
        why, what, room = self.store_full, "puts", self.room_bytes
        if is_operators:
            why, what, room = self.operators_full, ADDITIONS, self.operator_bytes
        if why or size > room:
            raise _store_full_error(why, what, room, size)
        self.room_bytes -= size
        self.operator_bytes -= size

    def count_fitting(self, batch: Sequence[bytes], *, evicts: bool = False) -> int:
        """Returns the number of records of *batch* for which this turn has free pages.

        The number is at least 1. The whole batch fits unless the store is small or nearly full.

        Args:
            evicts: Whether each record may evict an older message.
        """
        if self.put_pages > PAGES_OF_A_PUT * len(batch):
            self.put_pages -= PAGES_OF_A_PUT * len(batch)
            return len(batch)
        for index, record in enumerate(batch):
            if evicts or not is_in_sequence(record):
                self.put_pages -= PAGES_OF_A_PUT
            if self.put_pages < 0 and index:
                return index
        return len(batch)

    def too_few_pages_error(self) -> RequestError:
        """Returns the error for records of a batch that exceed the number of
        :meth:`count_fitting`.
        """
        return RequestError(
            ErrorCode.STORE_FULL,
            "the store has too few free pages for the whole batch; try again, consume messages, or "
            "raise store.map_bytes",
            1_000,
        )

    def count_read(self, count: int, size_bytes: int) -> None:
        """Adds *count* to the number of rows of this turn, and more for long values."""
        self.tx.rows_used += count + size_bytes // VALUE_MAX_BYTES

    def mark_changed(self, queue: Queue) -> None:
        """Wakes *queue*, and schedules a write of its state at the end of this turn."""
        self.dirty_queues[queue.id] = queue
        self.wake(queue)


def _store_full_error(why: str, what: str, room: int, size: int) -> RequestError:
    """Returns the error for a request of *size* bytes. If *why* is "", the error states *room*."""
    why = why or (
        f"the request may add {size} bytes, but only {max(room, 0)} bytes of the store are left "
        f"before {what} stop; consume messages, or raise store.map_bytes"
    )
    return RequestError(ErrorCode.STORE_FULL, why, 1_000)
