"""One connection of a link: dials, limits the bytes in flight, and measures the speed of the peer.

                dial            dialled            Ok
    waiting ──────────▶ dialling ──────▶ opening ──────▶ up
       ▲  redial            │               │             │
       └────────────────────┴───────────────┴─────────────┘  lost or stalled: dials again later

Heartbeats end a connection whose peer is silent. A path also ends if its peer answers heartbeats
but does not accept messages. Messages in flight must be received within ``link.stall_ms``. The
limit doubles after each stall.

A peer with several addresses may be any of several queue managers with its name, of which one is
active. A path tries its addresses in turn and stays at the one that works. The wait between
attempts grows with each failure, but begins again when a standby answers: it soon takes over.
"""

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from qmgr_config.model import FRAME_OVERHEAD_BYTES
from qmgr_protocol import messages as m
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import FieldInvalid
from qmgr_protocol.need import Right
from qmgr_protocol.pieces import piece_bytes
from qmgrd.core.context.context import Context, Dial
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.link.flight import Flight, Sent
from qmgrd.core.link.long_put import LongPut
from qmgrd.core.queue.queue import Queue

BUDGET_MIN_BYTES = 64 * 1024  # number of bytes that may be in flight over a new path
FETCH_REQUEST = 2  # the id of the fetch request; request 1 opens the path
FETCH_RETRY_MS = 1_000
LATE_MS = 500  # a put that takes this much longer than over another path is late
PUT_BYTES = 1024 * 1024
PATIENCE_MAX = 6  # maximum number of doublings of the stall time


class LinkState(Enum):
    """The state of a link or of a path."""

    STOPPED = "stopped"
    WAITING = "waiting"
    DIALLING = "dialling"
    OPENING = "opening"
    UP = "up"
    BLOCKED = "blocked"
    REFUSED = "refused"


class PathOwner(Protocol):
    """The part of a link that its paths use."""

    name: str
    queue: Queue
    paths: "list[Path]"

    @property
    def commit_id(self) -> int:
        """The id up to which the peer has committed all messages."""

    @property
    def addresses(self) -> list[str]:
        """The addresses of the peer, in the order in which paths dial them."""

    def answered(self, path: "Path", message: m.Message) -> None:
        """Handles *message*, which the peer sent over *path*."""

    def lost(self, path: "Path", why: str) -> None:
        """Handles the end of the connection of *path*."""

    def set_aside_at(self, seq_id: int, record: LongRecord) -> None:
        """Sets the message with id *seq_id* aside if it exists and has the body of *record*."""


class PeerSession(Protocol):
    """The part of a peer's session that links use."""

    connection: int
    name: str
    store_id: bytes
    path: "Path | None"
    streams: dict[int, Any]
    piece_bytes: int  # the size of the pieces of long messages for the peer; 0 without pieces
    # Checks that the peer's user has a right; None if everything is allowed.
    check_right: Callable[[Right, str], None] | None


class Path:
    """A path of a link. Its state is not stored."""

    def __init__(
        self, link: PathOwner, index: int, context: Context, *, is_fetched: bool = False
    ) -> None:
        """Creates a path that dials, or a path that ends with the connection that the peer
        dialled.
        """
        self.index = index
        self.is_fetched = is_fetched
        # Whether the peer also sends over this path: "asked", "yes", or the reason why it does not.
        self.fetches = ""
        self.sent_turn = 0  # the last turn in which a put was sent
        self.state = LinkState.WAITING
        self.error = ""
        self.attempts = 0  # the number of consecutive failed connection attempts
        self.stalls = 0
        self._passed = index  # the number of addresses that were passed over; the first is index
        self._is_stalled = False  # whether the present connection has stalled
        self.connection: int | None = None
        self.dial: Dial | None = None  # the connection attempt in progress
        self.address = ""  # the address of the peer, as dialled
        self.welcome: m.Welcome
        self.stream = 0  # the number of the stream on this connection
        self.incarnation = 0  # the incarnation of the peer's end
        self.since_commit_id = 0  # the commit id when the path was opened
        self.flight = Flight()
        self.is_sending_pieces = False  # whether a long put is on its way, and nothing else is sent
        self.budget = BUDGET_MIN_BYTES  # the number of bytes that may be in flight
        self.rtt_ms: int | None = None
        self.link = link
        self._context = context
        # The time when a put was last received, or was sent while none was in flight.
        self._moved_ms = 0
        self._up_ms = 0  # the time when the path last came up
        self.took_ms = 0  # the time that the last received put took
        self._asked_ms: int | None = None  # the time of the oldest unanswered question
        # The number of records sent before that question, all of which the answer covers.
        self._asked_total = 0
        self._patience = 0  # the number of consecutive stalls
        self._next_try_at_ms: int | None = None
        self._epoch = 0  # a counter that invalidates timers of an earlier state

    @property
    def is_up(self) -> bool:
        """Whether the path can send messages."""
        return self.state is LinkState.UP

    def start(self) -> None:
        """Dials immediately, unless a connection or an attempt exists."""
        if self.dial is not None or self.connection is not None or self.is_fetched:
            return
        self._enter(LinkState.WAITING)
        self.attempts, self.error = 0, ""
        self._dial()

    def opening(self, connection: int, address: str, welcome: m.Welcome, commit_id: int) -> None:
        """Uses a connection after its handshake, while the stream is being opened."""
        self.connection, self.address, self.welcome = connection, address, welcome
        self.since_commit_id, self.stream, self.fetches = commit_id, 0, ""
        self.is_sending_pieces = False
        is_alone = len(self.link.paths) == 1
        self.budget = self._context.config.link.window_bytes if is_alone else BUDGET_MIN_BYTES
        self._enter(LinkState.OPENING)
        self._asked_ms = self._moved_ms = self._context.now.ms

    def answered(self, connection: int, message: m.Message) -> None:
        """Processes a message from the peer, unless its *connection* was closed."""
        if connection == self.connection:
            self.link.answered(self, message)

    def opened(self, stream: int, incarnation: int) -> None:
        """Starts sending."""
        self.stream, self.incarnation = stream, incarnation
        self.error = ""
        self._enter(LinkState.UP)
        self._up_ms = self._context.now.ms
        self._asked_total = 0
        self._answered()
        self.took_ms = self.rtt_ms or 0

    def room(self) -> int:
        """Returns the number of bytes that the path may send now."""
        if self.flight.messages >= self.welcome.put_window_messages or self.is_sending_pieces:
            return 0
        if self.connection in self._context.unread_replies.held:
            return 0  # The peer has too much unread data.
        return min(self.budget, self.welcome.put_window_bytes) - self.flight.bytes

    def send(self, put: m.Put, size: int) -> None:
        """Sends *put*, which has *size* bytes, and records it as in flight."""
        assert self.connection is not None
        self.sent_turn = self._context.turns
        if not self.flight.puts:
            self._moved_ms = self._context.now.ms
        if put.records and isinstance(put.records[0], LongRecord):
            long = LongPut(self._context, self, self.connection, put, self.piece_bytes)
            self._context.piece_sender.begin(self.connection, long)
        else:
            self._context.send(self.connection, put)
        self.flight.add(put.first_id, len(put.records), size, self._context.now.ms)

    def sends_piece(self) -> None:
        """Records that a long put makes progress, so that it does not count as stalled."""
        self._moved_ms = self._context.now.ms

    def ask(self) -> None:
        """Asks the peer how many records it has received, unless the answer cannot have changed."""
        if self.is_sending_pieces:
            return  # The answer would not count the put on its way.
        if self._asked_ms is None and self.flight.puts and self._asked_total < self.flight.sent:
            assert self.connection is not None
            self._asked_ms, self._asked_total = self._context.now.ms, self.flight.sent
            self._context.send(self.connection, m.CommitAsk(self.stream))

    def note_received(self, taken: int, due_ms: int | None) -> None:
        """Records that the peer has *taken* records in total, and adapts the number of bytes in
        flight.

        A path that takes longer than *due_ms* may have fewer bytes in flight, because faster paths
        would wait for its gaps. *due_ms* is None if the link has no other path.

        Raises:
            FieldInvalid: *taken* exceeds the number of records sent.
        """
        before, now_ms = self.flight.taken, self._context.now.ms
        landed = self.flight.remove_received(taken)
        self._answered()
        if self.flight.taken > before:
            self._moved_ms = now_ms
        if not landed:
            return
        self.took_ms = now_ms - landed[-1].at_ms
        if self.took_ms < self._context.config.link.stall_ms // 2:
            self._patience = max(self._patience - 1, 0)
        if due_ms is not None and self.took_ms > due_ms:
            self.budget = max(self.budget // 2, BUDGET_MIN_BYTES)
        else:
            most = self._context.config.link.window_bytes
            self.budget = min(self.budget + sum(put.bytes for put in landed), most)

    @property
    def message_max_bytes(self) -> int:
        """The size of the longest message that the peer accepts over this path."""
        welcome = self.welcome
        if self.piece_bytes:
            return welcome.message_max_bytes
        return min(welcome.message_max_bytes, welcome.frame_max_bytes - FRAME_OVERHEAD_BYTES)

    @property
    def piece_bytes(self) -> int:
        """The size of the pieces of a long put, or 0 if the peer accepts no pieces."""
        return piece_bytes(self.welcome.piece_max_bytes)

    @property
    def frame_bytes(self) -> int:
        """The maximum size of one put.

        The size is smaller after stalls, so that a put arrives in time.
        """
        most = max(PUT_BYTES >> (2 * self._patience), BUDGET_MIN_BYTES)
        return min(most, self.welcome.frame_max_bytes // 2)

    def is_late(self, due_ms: int) -> bool:
        """Returns whether a put has been in flight for longer than *due_ms*."""
        oldest = self.oldest
        return oldest is not None and self._context.now.ms - oldest.at_ms > due_ms

    @property
    def is_silent(self) -> bool:
        """Whether a question to the peer has been unanswered for a while."""
        asked_ms = self._asked_ms
        return asked_ms is not None and self._context.now.ms - asked_ms > LATE_MS

    def _answered(self) -> None:
        if self._asked_ms is not None and self.flight.taken >= self._asked_total:
            self.rtt_ms, self._asked_ms = self._context.now.ms - self._asked_ms, None

    def fetch(self) -> None:
        """Asks the peer to send the messages of the peer's link over this connection as well."""
        assert self.connection is not None
        limits, self.fetches = self._context.config.limits, "asked"
        self._context.send(
            self.connection,
            m.LinkFetch(
                FETCH_REQUEST,
                self.index,
                limits.frame_max_bytes,
                limits.whole_max_bytes,
                limits.put_window_messages,
                limits.put_window_bytes,
            ),
        )

    def fetch_answered(self, error: str) -> None:
        """Records that the peer sends, or the *error* in its reply.

        After an error, asks again later.

        Raises:
            FieldInvalid: No fetch request was pending.
        """
        if self.fetches != "asked":
            raise FieldInvalid("Ok", "request_id", f"is {FETCH_REQUEST}, not a pending request")
        self.fetches = error or "yes"
        connection = self.connection
        if error:
            due_ms = self._context.now.ms + FETCH_RETRY_MS
            again = self.fetch
            self._context.timers.at(
                due_ms, lambda: again() if self.connection == connection is not None else None
            )

    def is_stalled(self) -> bool:
        """Returns whether no put has arrived for too long.

        Asks the peer after half of the time limit.
        """
        if not self.flight.puts and self.state is not LinkState.OPENING:
            return False
        limit_ms = self._context.config.link.stall_ms << self._patience
        idle_ms = self._context.now.ms - self._moved_ms
        if self.is_up and idle_ms >= limit_ms // 2:
            self.ask()  # Without a question, the peer's report may come after the time limit.
        return idle_ms >= limit_ms

    def stalled(self) -> None:
        """Counts a stall, and allows more time before the next one."""
        self.stalls += 1
        self._is_stalled = True
        self._patience = min(self._patience + 1, PATIENCE_MAX)

    def close(self, code: int, text: str) -> None:
        """Closes the connection, if one exists."""
        if self.connection is not None:
            self._context.close(self.connection, code, text)

    def hang_up(self, code: int, text: str) -> None:
        """Closes the connection and waits for a start. Messages in flight are sent again."""
        self.close(code, text)
        self._forget()
        self.attempts, self.error = 0, ""
        self._enter(LinkState.WAITING)

    def lost(self, why: str, *, is_standby: bool = False) -> None:
        """Waits and then dials again. Messages in flight are sent again.

        *is_standby* states that the address refused the connection because a standby listens there.
        """
        limits = self._context.config.link
        lasted_ms = self._context.now.ms - self._up_ms
        has_commits = self.link.commit_id > self.since_commit_id
        is_proven = bool(self.flight.taken) or not self.flight.puts
        worked = has_commits or (is_proven and lasted_ms >= limits.redial_max_ms)
        if is_standby or (self.is_up and worked):
            # A peer that closes the connection soon, or at every put, is dialled less and less
            # often. A login costs this queue manager much more time than its peer. The number of
            # records taken proves nothing, because the peer may invent it.
            self.attempts = 0
        if self._is_stalled or not (self.is_up and worked):
            self._passed += 1
        self._forget()
        self.error = why
        self._enter(LinkState.WAITING)
        if self.is_fetched:
            return
        ceiling_ms = min(limits.redial_max_ms, limits.redial_min_ms << min(self.attempts, 20))
        # The core has no randomness. A hash spreads the connection attempts of many links as well.
        which = f"{self.link.name}:{self.attempts}" + (f":{self.index}" if self.index else "")
        jitter_ms = ceiling_ms * (crc32(self._context.store_id + which.encode()) % 1000) // 2000
        self._try_in(ceiling_ms - jitter_ms, self._dial)

    def _forget(self) -> None:
        self.connection, self._asked_ms, self.rtt_ms = None, None, None
        self.flight = Flight()

    def _dial(self) -> None:
        if self.state is not LinkState.WAITING:
            return
        self._enter(LinkState.DIALLING)
        addresses = self.link.addresses
        # Each path begins at a different address.
        address = addresses[self._passed % len(addresses)]
        self.attempts += 1
        self._is_stalled = False
        self._context.dials += 1
        self.dial = Dial(self.link.name, address, self._context.dials)
        self._context.outcome.effects.append(self.dial)

    def _enter(self, state: LinkState) -> None:
        self.state, self.dial, self._next_try_at_ms = state, None, None
        self._epoch += 1

    def _try_in(self, wait_ms: int, call: Callable[[], None]) -> None:
        epoch = self._epoch
        due_ms = self._next_try_at_ms = self._context.now.ms + wait_ms
        self._context.timers.at(due_ms, lambda: call() if self._epoch == epoch else None)

    @property
    def oldest(self) -> Sent | None:
        """The put that has been in flight for the longest time."""
        return self.flight.puts[0] if self.flight.puts else None

    @property
    def redial_ms(self) -> int | None:
        """The time until the path dials, or None."""
        at_ms = self._next_try_at_ms
        return None if at_ms is None else max(at_ms - self._context.now.ms, 0)

    def describe(self) -> dict[str, Any]:
        """Returns the path's row for operators."""
        oldest = self.oldest
        return {
            "path": self.index,
            "state": self.state.value,
            "address": self.address,
            "in_flight": self.flight.messages,
            "in_flight_bytes": self.flight.bytes,
            "oldest_ms": None if oldest is None else self._context.now.ms - oldest.at_ms,
            "landed": self.flight.taken,
            "fetches": self.fetches,
            "rtt_ms": self.rtt_ms,
            "stalls": self.stalls,
            "attempts": 0 if self.is_up else self.attempts,
            "redial_ms": self.redial_ms,
            "error": self.error,
        }
