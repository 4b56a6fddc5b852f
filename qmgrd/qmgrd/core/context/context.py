"""The state that all parts of the core share: the open turn, and its effects."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from qmgr_config.model import FRAME_OVERHEAD_BYTES, Config
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.context.aside import Aside
from qmgrd.core.context.peers import LinkPeers
from qmgrd.core.layout.entry import VALUE_MAX_BYTES
from qmgrd.core.layout.ids import Ids
from qmgrd.core.layout.kv import Now, Transaction
from qmgrd.core.layout.schedule import Schedule
from qmgrd.core.layout.stamp import Stamper
from qmgrd.core.limits.budget import Budget, ClockNs, frozen_clock
from qmgrd.core.limits.room import ADDITIONS, is_in_sequence
from qmgrd.core.limits.timers import Timers
from qmgrd.core.limits.unread_replies import DELIVER_MAX_BYTES, UnreadReplies
from qmgrd.core.limits.work import Key, WorkId
from qmgrd.core.queue.journal import Journal
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.totals import Totals


class Dial(NamedTuple):
    """A link needs a connection to this address. The shell answers: dialled or dial_failed."""

    link: str
    address: str
    number: int  # detects late answers: the link may have been deleted and created again


class TakeSnapshot(NamedTuple):
    """A client or the schedule needs a snapshot of the turn that just ended."""

    connection: int  # 0: the schedule
    request_id: int
    directory: str  # or a URL
    turn_number: int
    rate_bytes: int = 0  # to write per second, at most; 0: as configured


class Note(NamedTuple):
    """An event that operators may want in the log."""

    level: str  # info, warning, error
    event: str
    facts: dict[str, Any]


class Outcome(NamedTuple):
    """The effects of a turn once it is durable, in this order."""

    sends: list[tuple[int, m.Message]]  # connection and message
    closes: list[tuple[int, m.Goaway]]
    effects: list[Dial | TakeSnapshot]
    notes: list[Note]


PAGES_OF_A_PUT = 3  # that it changes at random places: of its UID and other indexes
CRAMPED_MS = 1_000  # until the next look whether publications have room to go out
Facts = tuple[tuple[str, Any], ...]


class Context:
    """The queue manager's identity and limits, and the open turn.

    ``turn_rows`` bounds the ``rows`` that a turn reads and changes, ``budget`` bounds its time.
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
        self.life = salt  # differs at each start, even of a restored store
        self.ids = Ids(boot)
        self.stamper = Stamper(name, 0)
        self.timers = Timers()
        self.schedule = Schedule()
        self.peers = LinkPeers(self)
        self.journal = Journal(config.accounting.bytes_max, config.accounting.age_max_ms)
        self.totals = Totals()
        self.dials = 0
        self.turn_number = 0
        self.turns = 0  # since this start, including those that wrote nothing
        self.budget = Budget(config.limits.turn_ms, clock_ns)
        longest_bytes = max(config.limits.message_max_bytes, DELIVER_MAX_BYTES)
        self.unread_replies = UnreadReplies(longest_bytes + FRAME_OVERHEAD_BYTES)
        self.turn_rows = config.limits.turn_rows
        # room.py explains these.
        self.store_full = ""  # why puts are refused, or nothing
        self.operators_full = ""  # why requests of operators are refused, or nothing
        self.room_bytes = 0  # that puts may still add in this turn
        self.operator_bytes = 0  # that requests of operators may still add in this turn
        self.put_pages = 0  # that puts at random places may still change in this turn
        self.slice_rows = config.limits.turn_rows  # messages in one slice of each kind of work
        self.is_small = False  # This turn does less, as few pages are free.
        self.is_cramped = False  # Puts are refused, and publications wait, too.
        self.dirty_queues: dict[int, Queue] = {}
        self.awake_queues: dict[int, Queue] = {}  # They may have messages for a consumer.
        self.wrote = False  # anything other than the queues
        self.is_maintenance = False  # The daemon only answers requests.
        self.aside = Aside()
        self.working: WorkId | None = None  # what the turn does now, if it has a name
        self.events: dict[tuple[str, Facts], int] = {}  # counts of this turn
        self.outcome = Outcome([], [], [], [])

    @property
    def rows(self) -> int:
        """The rows that this turn has read or changed so far."""
        return self.tx.rows_used

    def send(self, connection: int, message: m.Message) -> None:
        """Sends *message* when this turn is durable."""
        self.outcome.sends.append((connection, message))

    def close(self, connection: int, code: int, text: str, retry_after_ms: int = 0) -> None:
        """Closes *connection* when this turn is durable."""
        self.outcome.closes.append((connection, m.Goaway(code, text, retry_after_ms)))

    def note(self, level: str, event: str, **facts: Any) -> None:
        """Logs an event when this turn is durable."""
        self.outcome.notes.append(Note(level, event, facts))

    def event(self, event: str, count: int = 1, **facts: Any) -> None:
        """Reports an event to operators with this turn; counts equal ones."""
        key = event, tuple(facts.items())
        self.events[key] = self.events.get(key, 0) + count

    def begin_work(self, kind: str, key: Key = 0) -> bool:
        """Names the work that follows; returns False if it is set aside and must be skipped."""
        work = self.working = WorkId(kind, key)
        return work not in self.aside.works

    def wake(self, queue: Queue) -> None:
        """Wakes *queue*, which may have messages for any of its consumers."""
        queue.waiting.unasked = 0
        self.awake_queues[queue.id] = queue

    def reserve(self, batch: list[bytes]) -> None:
        """Reserves the room that *batch*, which is put in this turn, may need.

        Raises:
            RequestError: STORE_FULL. Far beyond the high-water mark LMDB cannot even delete.
        """
        # Pages may be half full, and each message has its index rows.
        size = 2 * sum(map(len, batch)) + 256 * len(batch)
        if self.store_full or size > self.room_bytes:
            raise _no_room(self.store_full, "puts", self.room_bytes, size)
        self.room_bytes -= size
        self.operator_bytes -= size

    def take_room(self, size: int, *, is_operators: bool = False) -> None:
        """Reserves room for *size* bytes of rows that are added in this turn.

        Args:
            is_operators: operators need them to make room, and may fill more of the store.

        Raises:
            RequestError: STORE_FULL.
        """
        why, what, room = self.store_full, "puts", self.room_bytes
        if is_operators:
            why, what, room = self.operators_full, ADDITIONS, self.operator_bytes
        if why or size > room:
            raise _no_room(why, what, room, size)
        self.room_bytes -= size
        self.operator_bytes -= size

    def count_fitting(self, batch: Sequence[bytes], *, evicts: bool = False) -> int:
        """Returns how many records of *batch*, at least one, have free pages in this turn.

        All, unless the store is small or nearly full.

        Args:
            evicts: each record may evict an older message.
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

    def too_few_pages(self) -> RequestError:
        """Returns the error for records of a batch that :meth:`count_fitting` leaves out."""
        return RequestError(
            ErrorCode.STORE_FULL,
            "the store has too few free pages to change more of them at once; try again, and get "
            "messages, or raise store.map_bytes",
            1_000,
        )

    def count_read(self, count: int, size_bytes: int) -> None:
        """Counts *count* rows towards those of the turn, and more if their values are long."""
        self.tx.rows_used += count + size_bytes // VALUE_MAX_BYTES

    def mark_changed(self, queue: Queue) -> None:
        """Writes *queue* at the end of this turn, and wakes it."""
        self.dirty_queues[queue.id] = queue
        self.wake(queue)


def _no_room(why: str, what: str, room: int, size: int) -> RequestError:
    """Returns the error for *what* needs *size* bytes: *why*, or that *room* is less."""
    why = why or (
        f"the store has room for {max(room, 0)} bytes until {what} stop, this may take {size}; "
        "get messages, or raise store.map_bytes"
    )
    return RequestError(ErrorCode.STORE_FULL, why, 1_000)
