"""What the parts of the core share: the turn that is open, and what they want done after it."""

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NamedTuple

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
from qmgrd.core.limits.budget import ENDLESS, Budget, ClockNs, still
from qmgrd.core.limits.outflow import DELIVER_MAX_BYTES, Outflow
from qmgrd.core.limits.room import ADDITIONS, is_in_sequence
from qmgrd.core.limits.work import Key, Work
from qmgrd.core.queue.journal import Journal
from qmgrd.core.queue.queue import Queue
from qmgrd.core.queue.totals import Totals

if TYPE_CHECKING:
    from qmgrd.core.context.session import Session


class Dial(NamedTuple):
    """The link wants a connection to this address: the shell answers by dialled or dial_failed."""

    link: str
    address: str
    number: int  # tells an answer that comes late: the link may have been deleted and made anew


class TakeSnapshot(NamedTuple):
    """Somebody asked for a snapshot of the turn that just ended."""

    connection: int  # 0: nobody but the schedule
    request_id: int
    directory: str  # or a URL
    turn_number: int
    rate_bytes: int = 0  # the most to write in a second; 0: as configured


class Note(NamedTuple):
    """An event that operators may want in the log."""

    level: str  # info, warning, error
    event: str
    facts: dict[str, Any]


class Outcome(NamedTuple):
    """What a turn wants done once it is durable, in this order."""

    sends: list[tuple[int, m.Message]]  # connection and message
    closes: list[tuple[int, m.Goaway]]
    effects: list[Dial | TakeSnapshot]
    notes: list[Note]


class Timer:
    """A call to be made, or nothing once it was made or cancelled."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[[], None]) -> None:
        self.call: Callable[[], None] | None = call


class Timers:
    """Calls to be made at a time of the store clock. Each checks itself if it is still due.

    Invariant: of the heap ``_cancelled`` have no call, and these are never much more than half.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer]] = []
        self._count = 0
        self._cancelled = 0

    def at(self, due_ms: int, call: Callable[[], None]) -> Timer:
        """Have *call* made in the first turn at or after *due_ms*."""
        self._count += 1
        timer = Timer(call)
        heappush(self._heap, (due_ms, self._count, timer))
        return timer

    def cancel(self, timer: Timer) -> None:
        """Have the call of *timer* not made."""
        if timer.call is None:
            return
        timer.call = None
        self._cancelled += 1
        if self._cancelled > 64 + len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapify(self._heap)
            self._cancelled = 0

    def next_ms(self) -> int | None:
        """Return when the next call is due."""
        while self._heap and self._heap[0][2].call is None:
            heappop(self._heap)
            self._cancelled -= 1
        return self._heap[0][0] if self._heap else None

    def ring(
        self,
        now_ms: int,
        count: int,
        budget: Budget = ENDLESS,
        begin: Callable[[str, str], bool] = lambda kind, key: True,
    ) -> None:
        """Make at most *count* of the calls that are due, and one at least.

        What they set, and what *budget* has no time for, waits for the next turn.

        Args:
            now_ms: of the store clock.
            count: at most so many.
            budget: of the turn.
            begin: names the work of a call, and returns whether it may be made.
        """
        due: list[tuple[tuple[int, int, Timer], Callable[[], None]]] = []
        while len(due) < count and (due_ms := self.next_ms()) is not None and due_ms <= now_ms:
            entry = heappop(self._heap)
            assert entry[2].call is not None
            due.append((entry, entry[2].call))
            entry[2].call = None
        for at, (_, call) in enumerate(due):
            if at and budget.is_over:
                self._set_again(due[at:])
                return
            if begin("timer", getattr(call, "__qualname__", "")):
                call()

    def _set_again(self, due: list[tuple[tuple[int, int, Timer], Callable[[], None]]]) -> None:
        for entry, call in due:
            entry[2].call = call
            heappush(self._heap, entry)


PAGES_OF_A_PUT = 3  # that it changes at random places: of its UID, and of what else leads to it
CRAMPED_MS = 1_000  # until it is looked anew whether publications have room to go out
Facts = tuple[tuple[str, Any], ...]


class Context:
    """The queue manager's identity and limits, and the open turn.

    ``rows`` estimates the rows read and written in this turn, ``turn_rows`` bounds them, and
    ``budget`` bounds the time.
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
        clock_ns: ClockNs = still,
    ) -> None:
        self.config = config
        self.name = name
        self.store_id = store_id
        self.boot = boot
        self.life = salt  # another one at each start, also of a store that was put back
        self.ids = Ids(boot)
        self.stamper = Stamper(name, 0)
        self.timers = Timers()
        self.schedule = Schedule()
        self.peers = LinkPeers(self)
        self.journal = Journal(config.accounting.bytes_max, config.accounting.age_max_ms)
        self.totals = Totals()
        self.dials = 0
        self.turn_number = 0
        self.turns = 0  # since this start, those in which nothing was written, too
        self.budget = Budget(config.limits.turn_ms, clock_ns)
        longest_bytes = max(config.limits.message_max_bytes, DELIVER_MAX_BYTES)
        self.outflow = Outflow(longest_bytes + FRAME_OVERHEAD_BYTES)
        self.rows = 0
        self.turn_rows = config.limits.turn_rows
        # As room.py explains them.
        self.store_full = ""  # why puts are refused, or nothing
        self.operators_full = ""  # why requests of operators are refused, or nothing
        self.room_bytes = 0  # what puts may still add in this turn
        self.operator_bytes = 0  # what requests of operators may still add in this turn
        self.put_pages = 0  # that puts at random places may still change in this turn
        self.slice_rows = config.limits.turn_rows  # messages in one slice of work of a kind
        self.is_small = False  # this turn does less, as few pages are free
        self.is_cramped = False  # beyond what puts may fill: publications wait, too
        self.dirty_queues: dict[int, Queue] = {}
        self.awake_queues: dict[int, Queue] = {}  # may have something for a consumer
        self.answering: dict[int, Session] = {}  # their puts and settles, at the end of the turn
        self.wrote = False  # anything beside the queues
        self.is_maintenance = False  # nothing is done but what is asked
        self.aside = Aside()
        self.working: Work | None = None  # what the turn does at the moment, where it has a name
        self.events: dict[tuple[str, Facts], int] = {}  # of this turn, how often each
        self.outcome = Outcome([], [], [], [])

    def send(self, connection: int, message: m.Message) -> None:
        """Send *message* when this turn is durable."""
        self.outcome.sends.append((connection, message))

    def close(self, connection: int, code: int, text: str, retry_after_ms: int = 0) -> None:
        """Close *connection* when this turn is durable."""
        self.outcome.closes.append((connection, m.Goaway(code, text, retry_after_ms)))

    def note(self, level: str, event: str, **facts: Any) -> None:
        """Have an event logged when this turn is durable."""
        self.outcome.notes.append(Note(level, event, facts))

    def event(self, event: str, count: int = 1, **facts: Any) -> None:
        """Have operators told with this turn that something happened, and how often."""
        key = event, tuple(facts.items())
        self.events[key] = self.events.get(key, 0) + count

    def begin_work(self, kind: str, key: Key = 0) -> bool:
        """Name the work that follows; return whether it may be done, that is, is not set aside."""
        work = self.working = Work(kind, key)
        return work not in self.aside.works

    def awake(self, queue: Queue) -> None:
        """Have the consumers of *queue* looked after, as there may be something for any of them."""
        queue.unasked = 0
        self.awake_queues[queue.id] = queue

    def reserve(self, batch: list[bytes]) -> None:
        """Take the room that *batch*, which is put in this turn, may need.

        Raises:
            RequestError: STORE_FULL. Far beyond the high-water mark LMDB could not even delete.
        """
        # Pages may be half full, and each message has its index rows.
        size = 2 * sum(map(len, batch)) + 256 * len(batch)
        if self.store_full or size > self.room_bytes:
            raise _no_room(self.store_full, "puts", self.room_bytes, size)
        self.room_bytes -= size
        self.operator_bytes -= size

    def take_room(self, size: int, *, is_operators: bool = False) -> None:
        """Take note that *size* bytes of rows are added in this turn.

        Args:
            is_operators: operators need them to make room. They may fill more of the store.

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

    def fitting(self, batch: Sequence[bytes], *, evicts: bool = False) -> int:
        """Return how many records of *batch*, one at least, this turn has free pages for.

        All, unless the store is small, or nearly full.

        Args:
            evicts: each may push out an older message.
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

    def no_pages(self) -> RequestError:
        """Return why the rest of a batch waits, of which :meth:`fitting` left some out."""
        return RequestError(
            ErrorCode.STORE_FULL,
            "the store has too few free pages to change more of them at once; try again, and get "
            "messages, or raise store.map_bytes",
            1_000,
        )

    def count_read(self, count: int, size_bytes: int) -> None:
        """Count what was read, or removed, towards the turn's rows."""
        self.rows += count + size_bytes // VALUE_MAX_BYTES

    def touch(self, queue: Queue) -> None:
        """Have *queue* written at the end of this turn, and its consumers looked after."""
        self.dirty_queues[queue.id] = queue
        self.awake(queue)


def _no_room(why: str, what: str, room: int, size: int) -> RequestError:
    """Return the refusal of what needs *size* bytes: because of *why*, or as *room* is less."""
    why = why or (
        f"the store has room for {max(room, 0)} bytes until {what} stop, this may take {size}; "
        "get messages, or raise store.map_bytes"
    )
    return RequestError(ErrorCode.STORE_FULL, why, 1_000)
