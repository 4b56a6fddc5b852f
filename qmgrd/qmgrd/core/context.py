"""What the parts of the core share: the turn that is open, and what they want done after it."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, NamedTuple

from qmgr_config.model import Config
from qmgr_protocol import messages as m
from qmgrd.core.kv import Now, Transaction
from qmgrd.core.queue import Ids, Queue
from qmgrd.core.stamp import Stamper


class Dial(NamedTuple):
    """The link wants a connection to this address: the shell answers by dialled or dial_failed."""

    link: str
    address: str


class TakeSnapshot(NamedTuple):
    """Somebody asked for a snapshot of the turn that just ended."""

    connection: int
    request_id: int
    directory: str
    turn_number: int


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


class Timers:
    """Calls to be made at a time of the store clock. Each checks itself if it is still due."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, due_ms: int, call: Callable[[], None]) -> None:
        """Have *call* made in the first turn at or after *due_ms*."""
        self._count += 1
        heappush(self._heap, (due_ms, self._count, call))

    def next_ms(self) -> int | None:
        """Return when the next call is due."""
        return self._heap[0][0] if self._heap else None

    def ring(self, now_ms: int, count: int) -> None:
        """Make at most *count* of the calls that are due."""
        for _ in range(count):
            if not self._heap or self._heap[0][0] > now_ms:
                return
            heappop(self._heap)[2]()


class Context:
    """The queue manager's identity and limits, and the open turn.

    ``rows`` estimates the rows read and written in this turn, to bound it.
    """

    tx: Transaction
    now: Now

    def __init__(self, config: Config, name: str, store_id: bytes, boot: int) -> None:
        self.config = config
        self.name = name
        self.store_id = store_id
        self.boot = boot
        self.ids = Ids(boot)
        self.stamper = Stamper(name, 0)
        self.timers = Timers()
        self.turn_number = 0
        self.rows = 0
        self.store_full = ""  # why puts are refused, or nothing
        self.dirty_queues: dict[int, Queue] = {}
        self.awake_queues: dict[int, Queue] = {}  # may have something for a consumer
        self.wrote = False  # anything beside the queues
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

    def touch(self, queue: Queue) -> None:
        """Have *queue* written at the end of this turn, and its consumers looked after."""
        self.dirty_queues[queue.id] = queue
        self.awake_queues[queue.id] = queue
