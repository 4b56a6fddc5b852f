"""The sending end of a link to another queue manager (US 6,401,136 B1; see link_inbox.py).

                 start              dialled            Ok            Blocked
    stopped ──────────▶ waiting ───▶ dialling ──▶ opening ──▶ up ◀──────────▶ blocked
                           ▲  redial     │           │         │
                           └─────────────┴───────────┴─────────┘  connection lost, try again later
                                                     └──▶ refused: an operator must look

What it sends stays in the outbox until the peer's commit id covers it. After a reconnect that id
says where to go on, so nothing is ever in doubt.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any

from qmgr_protocol import messages as m
from qmgr_protocol.checksum import crc32
from qmgr_protocol.errors import (
    CommitOutOfRange,
    ErrorClass,
    ErrorCode,
    FieldInvalid,
    RequestError,
    name_of,
)
from qmgr_protocol.layout import check_reply
from qmgr_protocol.window import ids_of
from qmgrd.core.attributes import get_inhibited
from qmgrd.core.context import Context, Dial
from qmgrd.core.link_flight import Flight
from qmgrd.core.link_inbox import forget_peer, pin_peer
from qmgrd.core.link_outbox import HELD, LinkOutbox
from qmgrd.core.queue import Queue

OPEN_REQUEST = 1  # the id of the one request that a link makes
PUMP_MESSAGES = 1_000  # at most so many per turn, so that others have their share
PUMP_BYTES = 1024 * 1024


class LinkState(Enum):
    """Where a link stands."""

    STOPPED = "stopped"
    WAITING = "waiting"
    DIALLING = "dialling"
    OPENING = "opening"
    UP = "up"
    BLOCKED = "blocked"
    REFUSED = "refused"


class Link:
    """A link, defined by its row; everything else but the outbox dies with a restart."""

    def __init__(self, name: str, row: dict[str, Any], queue: Queue, context: Context) -> None:
        self.name = name
        # As stored: addresses, stopped, queue_id; stream and base_id where it was begun anew; and
        # what a newer version knows.
        self.row = row
        self.queue = queue
        self.state = LinkState.STOPPED if row["stopped"] else LinkState.WAITING
        self.error = ""
        self.attempts = 0  # dials in a row that led nowhere
        self.connection: int | None = None
        self.dial: Dial | None = None  # the one under way
        self.refused_code = 0
        self.resent = 0
        self._down_since_ms: int | None = context.now.ms  # of neither up nor blocked
        self._next_try_at_ms: int | None = None  # when it dials, or, blocked, sends again
        self._blocked_id = 0  # of the message that the peer could not take
        self._context = context
        self._stream = 0
        self._flight = Flight()
        self._frame_bytes = PUMP_BYTES  # what one put may hold
        self._window_messages = self._window_bytes = 0
        self._peer: m.Welcome
        self._address = ""  # of the peer, as it was dialled
        self._epoch = 0  # makes timers of an earlier state fall flat
        self.outbox = LinkOutbox(queue, context)
        self._highest_sent = self.outbox.commit_id

    @property
    def addresses(self) -> list[str]:
        """Where the peer listens."""
        found: list[str] = self.row["addresses"]
        return found

    @property
    def stream_id(self) -> bytes:
        """The identity of the stream, never used for another one."""
        number: int = self.row.get("stream", self.queue.id)
        return self._context.store_id + number.to_bytes(8, "big")

    def start(self) -> None:
        """Dial, or send what was blocked, now; a link that is on its way is left alone."""
        if self.state is LinkState.BLOCKED:
            self._unblock()
        if self.dial is not None or self.connection is not None:
            return
        self._enter(LinkState.WAITING)
        self.attempts, self.error = 0, ""
        self._dial()

    def altered(self) -> None:
        """Dial the addresses as they are now, refused or not, unless it is stopped."""
        self._hang_up(ErrorCode.CANCELLED, f"link {self.name} has other addresses now")
        if self.state is not LinkState.STOPPED:
            self._enter(LinkState.WAITING)
            self.start()

    def accept(self, stream: int) -> None:
        """Take the peer as it will be found, and go on with what is held here as a new *stream*."""
        self.row |= {"stream": stream, "base_id": self.outbox.commit_id + 1}
        self.outbox.forget_commit()
        forget_peer(self._context, self.name)
        self._highest_sent = self.outbox.commit_id

    def stop(self) -> None:
        """Hang up and stay so."""
        self._hang_up(ErrorCode.CANCELLED, f"link {self.name} was stopped")
        self._enter(LinkState.STOPPED)
        self.attempts, self.error = 0, ""  # It is not up as somebody said so, for no other reason.

    def dialled(self, connection: int, welcome: m.Welcome) -> None:
        """Go on over a new connection whose handshake is done."""
        assert self.dial is not None
        self.connection, self._address = connection, self.dial.address
        try:
            if welcome.name != self.name:
                raise RequestError(
                    ErrorCode.PEER_WRONG,
                    f"the queue manager at {self.dial.address} is {welcome.name}, not {self.name}; "
                    f"correct the address with: qmctl link alter {self.name} HOST:PORT",
                )
            remedy = f"qmctl link start {self.name} --accept"
            pin_peer(self._context, welcome.name, welcome.store_id, remedy)
        except RequestError as error:
            self.refuse(error)
            return
        self._peer = welcome
        self._stream = 0  # What the last connection's stream commits is not this one's.
        self._frame_bytes = min(PUMP_BYTES, welcome.frame_max_bytes // 2)
        self._enter(LinkState.OPENING)
        base_id, next_id = self.row.get("base_id", 1), self.queue.counters.next_arrival
        self._context.send(connection, m.LinkOpen(OPEN_REQUEST, self.stream_id, base_id, next_id))

    def answered(self, connection: int, message: m.Message) -> None:
        """Take what the peer sends on *connection*; on one that was given up it comes too late."""
        if connection != self.connection:
            return
        kind = type(message)
        if kind is m.Committed and message.stream == self._stream:
            self._committed(message)
        elif kind is m.Blocked and message.stream == self._stream:
            there = f"qmctl -c {self._address} "  # What it says to do is to be done at its end.
            why = message.text.replace("qmctl ", there)
            self._blocked(message, f"{self.name} says: {why}")
        elif kind is m.Ok and self.state is LinkState.OPENING:
            self._opened(message.value)
        elif kind is m.Error and self.state is LinkState.OPENING:
            self.refuse(RequestError(message.code, message.text), message.error_class)

    def _opened(self, value: Any) -> None:
        try:
            check_reply(m.LinkOpen, value)
        except FieldInvalid as error:
            self.refuse(RequestError(error.code, str(error)))
            return
        stream, commit_id, ahead, highest_uid, window = value[:5]
        held_to = max([commit_id, *ahead])
        try:
            self._check_continuation(commit_id, held_to, highest_uid)
        except RequestError as error:
            self.refuse(error)
            return
        self._stream, self.outbox.asked_at = stream, -1
        self.attempts, self.error = 0, ""
        limits = self._context.config.link
        # Half of what the peer takes: a commit id also covers what was sent again, and the peer
        # may not have taken that yet.
        self._window_messages = max(1, self._peer.put_window_messages // 2)
        self._window_bytes = min(limits.window_bytes, self._peer.put_window_bytes // 2)
        self.outbox.window = min(window, limits.window_messages, self._window_messages)
        self._flight.land_all()
        self.outbox.held.clear()
        self.outbox.resume(commit_id)
        self.outbox.hold(ahead)
        self._highest_sent = max(self._highest_sent, held_to)
        self._enter(LinkState.UP)
        self._context.note("info", "link up", link=self.name, commit_id=commit_id)
        self._context.awake_queues[self.queue.id] = self.queue

    def _check_continuation(self, commit_id: int, held_to: int, uid: bytes | None) -> None:
        """Raise RequestError where the peer's window does not belong to what is held here."""
        next_id = self.queue.counters.next_arrival
        if held_to >= next_id:
            raise RequestError(
                ErrorCode.RESTORED,
                f"{self.name} holds up to id {held_to}, but the next id to assign here is "
                f"{next_id}: this store was restored from an older state",
            )
        if commit_id < self.outbox.commit_id:
            raise RequestError(
                ErrorCode.PEER_RESTORED,
                f"{self.name} holds up to id {commit_id}, but had committed "
                f"{self.outbox.commit_id}: its store was restored, what lies between is lost there",
            )
        own = self.outbox.uid_at(held_to)
        if own is not None and own != uid:
            raise RequestError(
                ErrorCode.RESTORED,
                f"{self.name} holds another message than this store under id {held_to}: "
                "one of the two was restored from an older state",
            )

    def _committed(self, message: m.Committed) -> None:
        commit_id = message.commit_id
        highest = max([commit_id, *(first + count - 1 for first, count in message.held)])
        if highest > self._highest_sent:
            raise CommitOutOfRange(highest, self._highest_sent + 1)
        self.outbox.hold(ids_of(message.held))
        if self.outbox.commit(commit_id) and self.state is LinkState.UP:
            self.error = ""
        self._flight.land_to(commit_id)

    def _blocked(self, message: m.Blocked, why: str) -> None:
        self._flight.land_with(message.seq_id)
        if self.state is LinkState.BLOCKED:
            return
        self.error = f"{name_of(message.code)}: {why}"
        self._enter(LinkState.BLOCKED)
        self._blocked_id = message.seq_id
        self._context.note("warning", "link blocked", link=self.name, why=self.error)
        self._try_in(max(message.retry_after_ms, 1), self._unblock)

    def _unblock(self) -> None:
        """Send again from the commit id on, but what the peer holds."""
        self.outbox.resume(self.outbox.commit_id)
        self.outbox.asked_at = -1
        self._enter(LinkState.UP)
        self._context.awake_queues[self.queue.id] = self.queue

    def pump(self) -> None:
        """Send what the window allows."""
        if self.state is not LinkState.UP or self.queue.bounds.get_inhibit:
            return
        assert self.connection is not None
        sent_before = self.outbox.sent_id
        room = self._window_bytes - self._flight.bytes
        if sent_before == self.outbox.commit_id:
            room = max(room, 1)  # What is taken above a gap is not answered: the first one tells.
        if room <= 0:
            return
        for put in self._puts(min(room, PUMP_BYTES)):
            self._context.send(self.connection, put)
            count, size = len(put.records), sum(map(len, put.records))
            self.resent += min(max(self._highest_sent - put.first_id + 1, 0), count)
            self._flight.add(put.first_id, count, size)
            self._context.count_read(count, size)
        self.outbox.set_aside()
        self.queue.sent_id = max(self.queue.sent_id, self.outbox.sent_id)
        sent = self.outbox.sent_id - sent_before
        self._highest_sent = max(self._highest_sent, self.outbox.sent_id)
        if self.outbox.sent_id + 1 < self.outbox.next_id:
            if sent:
                self._context.awake_queues[self.queue.id] = self.queue  # More in the next turn.
            if self.outbox.wants_commit(is_full=self._flight.bytes >= self._window_bytes):
                self._context.send(self.connection, m.CommitAsk(self._stream))

    def _puts(self, bytes_max: int) -> Iterator[m.Put]:
        """Yield what to send: runs of consecutive ids that are bound for one queue."""
        first_id, target, batch, batch_bytes = self.outbox.sent_id + 1, "", list[bytes](), 0
        extras: list[list[Any]] = []
        room = min(PUMP_MESSAGES, self._window_messages - self._flight.messages)
        for found in self.outbox.records(room):
            if found is HELD:
                if batch:
                    yield m.Put(self._stream, first_id, 0, target, batch, extras)
                self.outbox.take(1)
                first_id, batch, batch_bytes, extras = self.outbox.sent_id + 1, [], 0, []
                continue
            found_target, record, extra = found
            size = len(record)
            if size > self._peer.message_max_bytes:
                if self.outbox.sent_id < first_id:
                    self._block_at(first_id, size)
                break
            if batch and (found_target != target or batch_bytes + size > self._frame_bytes):
                yield m.Put(self._stream, first_id, 0, target, batch, extras)
                first_id, batch, batch_bytes, extras = first_id + len(batch), [], 0, []
            target = found_target
            if extra:
                extras.append([len(batch), extra])
            batch.append(record)
            self.outbox.take(1)
            batch_bytes += size
            bytes_max -= size
            if bytes_max <= 0:
                break
        if batch:
            yield m.Put(self._stream, first_id, 0, target, batch, extras)

    def _block_at(self, seq_id: int, size: int) -> None:
        """Wait: the peer may be given a higher limit, and says so when it comes back."""
        limit = self._peer.message_max_bytes
        text = (
            f"message {seq_id} has {size} bytes, {self.name} takes at most {limit}: raise its "
            "limits.message_max_bytes"
        )
        blocked = m.Blocked(self._stream, seq_id, ErrorCode.MESSAGE_TOO_LARGE, 10_000)
        self._blocked(blocked, text)

    def refuse(self, error: RequestError, error_class: int = 0) -> None:
        """Give the connection up: for a while, or, where only people can help, until started."""
        self._hang_up(error.code, error.text)
        self.error = str(error)
        if (error_class or error.error_class) == ErrorClass.NEVER:
            self._enter(LinkState.REFUSED)
            self.refused_code = error.code
            self._context.note("error", "link refused", link=self.name, why=self.error)
        else:
            self._redial()

    def lost(self, why: str) -> None:
        """Take note that the connection, or the attempt at one, is gone."""
        self.connection = None
        if self.state in (LinkState.STOPPED, LinkState.REFUSED):
            return
        if self.state in (LinkState.UP, LinkState.BLOCKED):
            self._context.note("warning", "link lost", link=self.name, why=why)
        self.error = why
        self._redial()

    def _redial(self) -> None:
        self._enter(LinkState.WAITING)
        limits = self._context.config.link
        ceiling_ms = min(limits.redial_max_ms, limits.redial_min_ms << min(self.attempts, 20))
        # Chance is not the core's: a hash spreads the dials of many links as well.
        seed = self._context.store_id + f"{self.name}:{self.attempts}".encode()
        jitter_ms = ceiling_ms * (crc32(seed) % 1000) // 2000
        self._try_in(ceiling_ms - jitter_ms, self._dial)

    def _dial(self) -> None:
        if self.state is not LinkState.WAITING:
            return
        self._enter(LinkState.DIALLING)
        address = self.addresses[self.attempts % len(self.addresses)]
        self.attempts += 1
        self._context.dials += 1
        self.dial = Dial(self.name, address, self._context.dials)
        self._context.outcome.effects.append(self.dial)

    def _hang_up(self, code: int, text: str) -> None:
        if self.connection is not None:
            self._context.close(self.connection, code, text)
            self.connection = None

    def _enter(self, state: LinkState) -> None:
        self.state, self.dial, self._next_try_at_ms = state, None, None
        if state in (LinkState.UP, LinkState.BLOCKED):
            self._down_since_ms = None
        elif self._down_since_ms is None:
            self._down_since_ms = self._context.now.ms
        self._epoch += 1

    def _try_in(self, wait_ms: int, call: Any) -> None:
        epoch = self._epoch
        due_ms = self._next_try_at_ms = self._context.now.ms + wait_ms
        self._context.timers.at(due_ms, lambda: call() if self._epoch == epoch else None)

    def describe(self) -> dict[str, Any]:
        """Return the link for people and scripts."""
        outbox, now_ms, at_ms = self.outbox, self._context.now.ms, self._next_try_at_ms
        down_ms, wait_ms = self._down_since_ms, None if at_ms is None else max(at_ms - now_ms, 0)
        held = self.state is LinkState.UP and self.queue.bounds.get_inhibit
        is_blocked = self.state is LinkState.BLOCKED
        return {
            "link": self.name,
            "state": self.state.value,
            "addresses": self.addresses,
            "error": str(get_inhibited(self.queue.name)) if held else self.error,
            "waiting": self.queue.counters.depth,
            "waiting_bytes": self.queue.counters.bytes,
            "in_flight": outbox.sent_id - outbox.commit_id,
            "commit_id": outbox.commit_id,
            "next_id": self.queue.counters.next_arrival,
            "transferred": self.queue.counters.acked,
            "resent": self.resent,
            "attempts": self.attempts,
            "down_ms": None if down_ms is None else now_ms - down_ms,
            "redial_ms": None if is_blocked else wait_ms,
            "retry_ms": wait_ms if is_blocked else None,
        } | outbox.describe(self._blocked_id if is_blocked else 0)
