"""The sending end of a link to another queue manager (US 6,401,136 B1; see link/inbox.py).

    stopped ◀──▶ the state of its best path: waiting, dialling, opening, up ◀── Blocked ──▶ blocked
                                                └──▶ refused: an operator must act, or the peer's

All paths of a link (see link/path.py) carry one stream. A message stays in the outbox until the
peer's commit id covers it. After a reconnect, the peer reports its commit id and the ids above it
that it holds. Therefore, the link knows exactly which messages to send. Puts that were lost with a
path are sent over the other paths. If a slow path holds up a put that all other paths wait for, an
idle path sends a copy.
"""

from collections.abc import Callable
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.errors import (
    CommitOutOfRange,
    ErrorClass,
    ErrorCode,
    FieldInvalid,
    RequestError,
    name_of,
)
from qmgr_protocol.layout import check_reply
from qmgrd.core.context.context import Context, Dial
from qmgrd.core.layout.long_record import LongRecord
from qmgrd.core.link import continuation as link_continuation
from qmgrd.core.link.outbox import LinkOutbox
from qmgrd.core.link.path import FETCH_REQUEST, Path, PeerSession
from qmgrd.core.link.path import LinkState as LinkState
from qmgrd.core.link.pump import LinkPump
from qmgrd.core.link.watch import Watch
from qmgrd.core.queue.queue import Queue

OPEN_REQUEST = 1  # the id of the request that opens a path
FETCHED = 128  # the first number of paths over connections that the peer dialled
# Minimum and maximum wait that a peer can ask for when it refuses a message
RETRY_MIN_MS, RETRY_MAX_MS = 100, 3_600_000
_ON_THE_WAY = (LinkState.UP, LinkState.OPENING, LinkState.DIALLING)


class Link:
    """A link, defined by its row. A restart loses all its state except the outbox."""

    def __init__(self, name: str, row: dict[str, Any], queue: Queue, context: Context) -> None:
        self.name = name
        # The row as stored, with the fields addresses, stopped, queue_id, connections, ordered and
        # fetch. The row also has stream and base_id if the stream was begun again, lost and lost_us
        # if the peer was restored, and fields of newer versions.
        self.row = row
        self.queue = queue
        self.error = ""
        self.refused_code = 0
        self._refused_store = b""  # the store id of the peer that was refused
        self.paths: list[Path] = []
        # STOPPED, REFUSED or BLOCKED, or None if the state of the paths is the link's state.
        self.held_by: LinkState | None = LinkState.STOPPED if row["stopped"] else None
        # The time since which the link has been neither up nor blocked.
        self.down_since_ms: int | None = context.now.ms
        self.retry_at_ms: int | None = None  # the time at which a blocked link sends again
        # The time of the last commit before the link was blocked.
        self.blocked_since_ms: int | None = None
        self.blocked_id = 0  # the id of the message that the peer refused
        self._context = context
        self._epoch = 0  # a counter that invalidates the timer of an earlier block
        self.watch = Watch(self, context)
        self.outbox = LinkOutbox(queue, context)
        self._create_paths()
        self.pump = LinkPump(self, context)

    def _create_paths(self) -> None:
        count = self.row.get("connections", 1) if self.addresses else 0
        self.paths = [Path(self, index, self._context) for index in range(count)]

    @property
    def state(self) -> LinkState:
        """The state of the link for operators."""
        if self.held_by is not None:
            return self.held_by
        states = [path.state for path in self.paths]
        return next((state for state in _ON_THE_WAY if state in states), LinkState.WAITING)

    @property
    def addresses(self) -> list[str]:
        """The addresses on which the peer listens."""
        found: list[str] = self.row["addresses"]
        return found

    @property
    def commit_id(self) -> int:
        """The id up to which the peer has committed all messages."""
        return self.outbox.commit_id

    @property
    def stream_id(self) -> bytes:
        """The identity of the stream, which is never used for another stream."""
        number: int = self.row.get("stream", self.queue.id)
        return self._context.store_id + number.to_bytes(8, "big")

    @property
    def up_paths(self) -> list[Path]:
        """The paths that can send messages."""
        return [path for path in self.paths if path.is_up]

    def path_of(self, dial: Dial) -> Path | None:
        """Returns the path for which *dial* was made."""
        return next((path for path in self.paths if path.dial == dial), None)

    def start(self) -> None:
        """Dials immediately, or resumes sending if blocked. Attempts in progress continue."""
        if self.held_by is LinkState.BLOCKED:
            self._unblock()
        if not any(path.dial or path.connection for path in self.paths):
            self._hold(None)
            self.error, self.refused_code = "", 0
        for path in self.paths:
            path.start()

    def altered(self) -> None:
        """Applies a changed row.

        The link closes its connections and dials again, unless it is stopped.
        """
        self._hang_up(ErrorCode.CANCELLED, f"link {self.name} was altered")
        self._create_paths()
        if self.held_by is not LinkState.STOPPED:
            self._hold(None)
            self.start()

    def accept(self, stream: int) -> None:
        """Accepts the peer's present store. The outbox is sent to that store as a new *stream*."""
        self.row |= {"stream": stream, "base_id": self.outbox.commit_id + 1}
        self.outbox.forget_commit()
        self.blocked_since_ms = None
        self._context.peers.repin(self.name, self._refused_store)
        self.pump = LinkPump(self, self._context)

    def stop(self) -> None:
        """Closes the connections. The link does not dial until it is started."""
        self._hang_up(ErrorCode.CANCELLED, f"link {self.name} was stopped")
        self._hold(LinkState.STOPPED)
        self.blocked_since_ms = None
        self.error = ""  # The link is down at an operator's request, not because of an error.

    def _hang_up(self, code: int, text: str) -> None:
        for path in self.paths:
            path.hang_up(code, text)
        self.paths = [path for path in self.paths if not path.is_fetched]

    def _hold(self, by: LinkState | None) -> None:
        self.held_by, self.retry_at_ms = by, None
        self._epoch += 1
        self._update_down_since()

    def _update_down_since(self) -> None:
        if self.state in (LinkState.UP, LinkState.BLOCKED):
            self.down_since_ms = None
        elif self.down_since_ms is None:
            self.down_since_ms = self._context.now.ms

    def check_ready(self) -> None:
        """Raises RequestError LINK_DOWN if the peer may not fetch over this link now.

        A link with addresses sends to these addresses, not to any peer that connects under its
        name.
        """
        if self.addresses:
            raise RequestError(
                ErrorCode.LINK_DOWN,
                f"link {self.name} of {self._context.name} has addresses, so it dials and its "
                "peer cannot "
                "fetch",
                1_000,
            )
        if self.held_by in (LinkState.STOPPED, LinkState.REFUSED):
            raise RequestError(
                ErrorCode.LINK_DOWN,
                f"link {self.name} of {self._context.name} is {self.state.value}",
                1_000,
            )

    def fetched(self, session: PeerSession, wanted: m.LinkFetch) -> None:
        """Sends over a connection that the peer dialled until the connection closes."""
        index = FETCHED + wanted.path
        for older in [path for path in self.paths if path.index == index]:
            older.close(ErrorCode.LINK_FENCED, "a newer connection fetches")
            self.lost(older, "a newer connection fetches")
        path = session.path = Path(self, index, self._context, is_fetched=True)
        self.paths.append(path)
        welcome = m.Welcome(
            m.VERSION,
            session.name,
            session.store_id,
            0,
            frame_max_bytes=wanted.frame_max_bytes,
            message_max_bytes=wanted.message_max_bytes,
            put_window_messages=wanted.put_window_messages,
            put_window_bytes=wanted.put_window_bytes,
            piece_max_bytes=session.piece_bytes,
        )
        address = f"{session.name} dialled"
        path.opening(session.connection, address, welcome, self.outbox.commit_id)
        self._open(path)

    def dialled(self, path: Path, connection: int, welcome: m.Welcome) -> None:
        """Uses a new connection after its handshake."""
        assert path.dial is not None
        path.opening(connection, path.dial.address, welcome, self.outbox.commit_id)
        try:
            if welcome.name != self.name:
                raise RequestError(
                    ErrorCode.PEER_WRONG,
                    f"the queue manager at {path.address} is {welcome.name}, not {self.name}; "
                    "correct the address of the link",
                )
            self._context.peers.pin(welcome.name, welcome.store_id, has_link=True)
        except RequestError as error:
            self.refuse(path, error)
            return
        self._open(path)
        if self.row.get("fetch", False):
            path.fetch()

    def _open(self, path: Path) -> None:
        assert path.connection is not None
        base_id, next_id = self.row.get("base_id", 1), self.queue.counters.next_arrival
        ordered, life = self.row.get("ordered", False), self._context.life
        opening = m.LinkOpen(
            OPEN_REQUEST,
            self.stream_id,
            base_id,
            next_id,
            life,
            path.index,
            ordered,
            path.since_commit_id + 1,
        )
        self._context.send(path.connection, opening)
        self.watch.set()

    def answered(self, path: Path, message: m.Message) -> None:
        """Processes a message that the peer sent on *path*."""
        if type(message) is m.Committed:
            if message.stream == path.stream:
                self._committed(path, message)
        elif type(message) is m.Blocked:
            if message.stream == path.stream:
                path.note_received(message.taken, self.pump.due_ms)
                # The link sends such a put again without an operator.
                if message.code != ErrorCode.LINK_LINE_FULL:
                    self._blocked(message, f"{self.name} reports: {message.text}")
        elif isinstance(message, m.Ok | m.Error):
            self._replied(path, message)

    def _replied(self, path: Path, message: m.Ok | m.Error) -> None:
        if message.request_id == FETCH_REQUEST:
            path.fetch_answered(
                "" if isinstance(message, m.Ok) else f"{name_of(message.code)}: {message.text}"
            )
        elif path.state is not LinkState.OPENING:
            return
        elif message.request_id != OPEN_REQUEST:
            why = f"is {message.request_id}, not a pending request"
            raise FieldInvalid(type(message).__name__, "request_id", why)
        elif isinstance(message, m.Ok):
            self._opened(path, message.value)
        else:
            self.refuse(path, RequestError(message.code, message.text), message.error_class)
            # An operator of the peer can lift most refusals, and need not start the link here.
            if self.held_by is LinkState.REFUSED and message.code != ErrorCode.STORE_DAMAGED:
                self._try_again_in(self._context.config.link.redial_max_ms, self._ask_again)

    def _opened(self, path: Path, value: Any) -> None:
        try:
            check_reply(m.LinkOpen, value)
            stream, commit_id, ahead, uid, window, incarnation, lost, life = value[:8]
            if lost > path.since_commit_id:
                why = f"is {lost}, but the peer has committed {path.since_commit_id} messages"
                raise FieldInvalid("LinkOpen", "lost", why)
            held_to = max([commit_id, *ahead])
            link_continuation.check(
                self.name, self.outbox, path.since_commit_id, commit_id, held_to, uid, life
            )
        except FieldInvalid as error:
            self.refuse(path, RequestError(error.code, str(error)))
            return
        except RequestError as error:
            self.refuse(path, error)
            return
        if lost:
            link_continuation.report_restored(self._context, self.name, self.row, lost)
        newest = max((other.incarnation for other in self.up_paths), default=0)
        if newest >> 31 == incarnation >> 31 and incarnation < newest:
            late = RequestError(ErrorCode.LINK_FENCED, "this answer is older than the open paths")
            self.refuse(path, late, ErrorClass.RETRY_LATER)
            return
        for other in self.up_paths:
            # The peer has lost the puts in flight over the other path.
            if other.incarnation != incarnation:
                text = f"{self.name} has restarted its end, as path {path.index} shows"
                other.close(ErrorCode.CANCELLED, text)
                other.lost(text)
                if other.is_fetched:
                    self.paths.remove(other)
        self._commit(commit_id)
        if not self.up_paths:
            self.outbox.held.clear()
            self.outbox.resume(commit_id)
            self._measure_again()
            self._context.note("info", "link up", link=self.name, commit_id=commit_id)
            self.error = ""
        self.outbox.hold(ahead)
        self.outbox.window = min(window, self._context.config.link.window_messages)
        self.pump.highest_sent = max(self.pump.highest_sent, held_to)
        self.refused_code = 0
        path.opened(stream, incarnation)
        self._update_down_since()
        self._context.awake_queues[self.queue.id] = self.queue

    def _committed(self, path: Path, message: m.Committed) -> None:
        commit_id = message.commit_id
        highest = _highest(message)
        if highest > self.pump.highest_sent:
            raise CommitOutOfRange(highest, self.pump.highest_sent + 1)
        path.note_received(message.taken, self.pump.due_ms)
        for first, count, *_ in message.held:
            self.outbox.hold(range(max(first, self.outbox.commit_id + 1), first + count))
        if self._commit(commit_id) and self.state is LinkState.UP:
            self.error = ""
        self.pump.committed()

    def _commit(self, commit_id: int) -> bool:
        """Records the ids that the peer has stored. Returns whether any of them are new."""
        done = self.outbox.commit(commit_id)
        if done:  # If the link is still blocked, a different message blocks it.
            is_blocked = self.held_by is LinkState.BLOCKED
            self.blocked_since_ms = self._context.now.ms if is_blocked else None
        return bool(done)

    def _blocked(self, message: m.Blocked, why: str) -> None:
        if self.held_by is not None:
            return
        self.error = f"{name_of(message.code)}: {why}"
        self._hold(LinkState.BLOCKED)
        self.blocked_id = message.seq_id
        if self.blocked_since_ms is None:
            self.blocked_since_ms = self._context.now.ms
        self._context.note("warning", "link blocked", link=self.name, why=self.error)
        wait_ms = min(max(message.retry_after_ms, RETRY_MIN_MS), RETRY_MAX_MS)
        self._try_again_in(wait_ms, self._unblock)

    def _try_again_in(self, wait_ms: int, call: Callable[[], None]) -> None:
        epoch = self._epoch
        due_ms = self.retry_at_ms = self._context.now.ms + wait_ms
        self._context.timers.at(due_ms, lambda: call() if self._epoch == epoch else None)

    def _ask_again(self) -> None:
        self._hold(None)
        for path in self.paths:
            path.start()

    def _measure_again(self) -> None:
        """Forgets which messages are too long, because the peer may have a new limit."""
        if self.held_by is LinkState.BLOCKED and self.blocked_id in self.pump.too_long:
            self._hold(None)
        self.pump.too_long.clear()

    def _unblock(self) -> None:
        """Sends all messages after the commit id again, except those that the peer already has."""
        self._hold(None)
        self.pump.go_back(self.outbox.commit_id)

    def block_at(self, path: Path, seq_id: int, size: int) -> None:
        """Blocks the link at a message that is too long for the peer, and retries later.

        An operator may raise the peer's limit. The peer reports its limit when it connects again.
        """
        limit = path.message_max_bytes
        text = (
            f"message {seq_id} has {size} bytes, but {self.name} accepts at most {limit}: raise "
            "its "
            "limits.message_max_bytes"
        )
        self._blocked(m.Blocked(0, seq_id, ErrorCode.MESSAGE_TOO_LARGE, 10_000), text)

    def refuse(self, path: Path, error: RequestError, error_class: int = 0) -> None:
        """Closes *path* for a while, or stops the whole link if only an operator can help."""
        is_later = (error_class or error.error_class) != ErrorClass.NEVER
        if is_later and error.code != ErrorCode.PEER_NOT_ALLOWED:
            path.close(error.code, error.text)
            self.lost(path, str(error))
            return
        self._refused_store = path.welcome.store_id
        self._refuse(error)

    def _refuse(self, error: RequestError) -> None:
        self._hang_up(error.code, error.text)
        is_new = error.code != self.refused_code
        self.error, self.refused_code = str(error), error.code
        self._hold(LinkState.REFUSED)
        if is_new:
            self._context.event("link refused", link=self.name, why=name_of(error.code))
            self._context.note("error", "link refused", link=self.name, why=self.error)

    def set_aside_at(self, seq_id: int, record: LongRecord) -> None:
        """Sets the message with id *seq_id* aside if it exists and has the body of *record*."""
        self.outbox.set_aside_at(seq_id, record)

    def lost(self, path: Path, why: str, code: int = 0) -> None:
        """Handles the loss of a connection of *path*, or a failed connection attempt.

        *code* is the error code with which the peer refused the connection, or 0.
        """
        if self.held_by in (LinkState.STOPPED, LinkState.REFUSED):
            return
        was_up, ids = path.is_up, list(path.flight.ids())
        path.lost(why, is_standby=code == ErrorCode.NOT_ACTIVE)
        if path.is_fetched:
            self.paths.remove(path)
        if self.up_paths:
            if ids:
                self.pump.go_back(min(ids) - 1)
            return
        self.error = why
        self._hold(None)
        if was_up:
            self._context.note("warning", "link lost", link=self.name, why=why)


def _highest(message: m.Committed) -> int:
    """Returns the highest id that the peer reports as held.

    Raises:
        FieldInvalid: The runs above the commit id do not ascend.
    """
    highest = message.commit_id
    for first, count, *_ in message.held:
        if first <= highest:
            raise FieldInvalid("Committed", "held", f"has {first} behind {highest}")
        highest = first + count - 1
    return highest
