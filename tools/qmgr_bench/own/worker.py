"""A worker that gets messages and puts the same number elsewhere, in one transaction.

The worker uses a unit of work or plain requests: a put and an ack in the same write. All frames of
a piece of work are sent in one write, so the daemon processes them in one turn.

    unit    UnitBegin UnitPut Settle(unit) UnitCommit ──▶   plain    Put Settle ──▶
"""

import os
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from qmgr_bench.load import NS_PER_S, READ_BYTES, SILENCE_MAX_S, Latency, LoadFailed
from qmgr_bench.qmgr import CREDIT_BYTES, Wire
from qmgr_protocol import messages as m

PREFETCH_MIN = 256


@dataclass(frozen=True, slots=True)
class Job:
    """The work of a worker."""

    target: str  # name of the destination queue
    messages: int  # number of messages to put, and to get if there is a source, per piece
    inflight: int  # maximum number of unanswered pieces of work
    in_units: bool
    source: str = ""  # name of the source queue; "" to get no messages


class Piece(NamedTuple):
    """One sent piece of work and its expected answers."""

    seq_id: int
    settle_id: int
    sent_ns: int


@dataclass(slots=True)
class Done:
    """The results of a worker."""

    pieces: int = 0
    seconds: float = 0.0
    generator_cpu_s: float = 0.0
    commit: Latency = field(default_factory=Latency)


class Worker:
    """A worker on one connection.

    Invariant: at most ``job.inflight`` pieces of work are unanswered.
    """

    def __init__(self, wire: Wire, job: Job, pool: Sequence[bytes]) -> None:
        """Opens the producer's stream and, if there is a source queue, the consumer.

        Args:
            pool: The records to put. The pool must have more records than a piece of work has
            messages.
        """
        wire.sock.settimeout(SILENCE_MAX_S)
        self._wire, self._job, self._pool = wire, job, pool
        self._stream: int = wire.ask(m.ProducerOpen, os.urandom(16))[0]
        self._consumer = self._queue_id = 0
        self._ready: deque[bytes] = deque()  # delivered messages that are not acknowledged yet
        self._open: deque[Piece] = deque()
        self._unit = self._seq_id = self._settle_id = self._commit_id = self._settled_id = 0
        if job.source:
            self._consumer = wire.next_request()
            prefetch = max(PREFETCH_MIN, 2 * job.messages * job.inflight)
            wire.send(m.Consume(self._consumer, job.source, prefetch, CREDIT_BYTES))

    def run(self, seconds: float, pieces_max: int) -> Done:
        """Works for *seconds* or until *pieces_max* pieces are done, then releases all messages.

        Raises:
            LoadFailed: A request was refused.
        """
        done, cpu_s = Done(), time.process_time()
        start_ns = last_ns = time.monotonic_ns()
        stop_ns, left = start_ns + int(seconds * NS_PER_S), pieces_max
        if not self._job.source:
            left -= self._fill(left)
        while self._open or (left and last_ns < stop_ns):
            for message in self._wire.take(self._read()):
                self._hear(message)
            last_ns = time.monotonic_ns()
            self._count(done, last_ns)
            if last_ns < stop_ns:
                left -= self._fill(left)
        done.seconds = (last_ns - start_ns) / NS_PER_S
        done.generator_cpu_s = time.process_time() - cpu_s
        if self._consumer:
            self._leave()
        return done

    def _read(self) -> bytes:
        try:
            data = self._wire.sock.recv(READ_BYTES)
        except TimeoutError:
            raise LoadFailed(f"the daemon sent nothing for {SILENCE_MAX_S:.0f} s") from None
        if not data:
            raise LoadFailed("the daemon closed the connection")
        return data

    def _count(self, done: Done, now_ns: int) -> None:
        """Records the pieces of work whose requests are all answered."""
        while self._open:
            piece = self._open[0]
            if piece.seq_id > self._commit_id or piece.settle_id > self._settled_id:
                return
            self._open.popleft()
            done.pieces += 1
            done.commit.add(now_ns - piece.sent_ns)

    def _fill(self, left: int) -> int:
        """Sends as many pieces as the window and the deliveries allow.

        Returns the number of pieces.
        """
        count = min(self._job.inflight - len(self._open), left)
        if self._consumer:
            count = min(count, len(self._ready) // self._job.messages)
        if count <= 0:
            return 0
        self._wire.sock.sendall(b"".join([self._piece() for _ in range(count)]))
        return count

    def _piece(self) -> bytes:
        """Returns the frames of the next piece of work."""
        job, send, seen = self._job, self._wire.connection.send, self._commit_id
        at = self._seq_id % (len(self._pool) - job.messages + 1)
        records = list(self._pool[at : at + job.messages])
        handles, credit = self._handles()
        unit, settle, end = 0, b"", b""
        if job.in_units:
            self._unit += 1
            self._seq_id += 1
            unit = self._unit
            put = send(m.UnitBegin(self._wire.next_request(), unit)) + send(
                m.UnitPut(self._wire.next_request(), unit, job.target, records)
            )
            gets = job.messages if self._consumer else 0
            commit = m.UnitCommit(self._stream, self._seq_id, seen, unit, job.messages, gets)
            end = send(commit)
        else:
            put = send(m.Put(self._stream, self._seq_id + 1, seen, job.target, records))
            self._seq_id += job.messages
        if handles:
            self._settle_id += 1
            settle = send(m.Settle(self._settle_id, m.ACK, self._queue_id, handles, unit))
        self._open.append(Piece(self._seq_id, self._settle_id, time.monotonic_ns()))
        return b"".join((put, settle, end, credit))

    def _handles(self) -> tuple[bytes, bytes]:
        """Returns the handles and the credit for the messages of the next piece of work."""
        if not self._consumer:
            return b"", b""
        items = [self._ready.popleft() for _ in range(self._job.messages)]
        credit = m.Credit(self._consumer, len(items), sum(map(len, items)))
        return _handles_of(items), self._wire.connection.send(credit)

    def _hear(self, message: Any) -> None:
        kind = type(message)
        if kind is m.Deliver:
            self._queue_id = message.queue_id
            self._ready.extend(message.items)
        elif kind is m.Committed and not message.refused:
            self._commit_id = message.commit_id
        elif kind is m.Settled and not message.exceptions:
            self._settled_id = message.settle_id
        elif kind is not m.Ok or _is_refusal(message.value):
            raise LoadFailed(f"a piece of work failed: {str(message)[:200]}")

    def _leave(self) -> None:
        """Ends the consumer and returns the unprocessed messages."""
        wire = self._wire
        wire.send(m.Cancel(self._consumer))
        while type(message := wire.next()) is not m.Ended:
            self._hear(message)
        if not self._ready:
            return
        self._settle_id += 1
        handles = _handles_of(self._ready)
        wire.send(m.Settle(self._settle_id, m.UNREAD, self._queue_id, handles))
        while self._settled_id < self._settle_id:
            self._hear(wire.next())
        self._ready.clear()


def _handles_of(items: Sequence[bytes] | deque[bytes]) -> bytes:
    return b"".join([item[: m.HANDLE.size] for item in items])


def _is_refusal(value: object) -> bool:
    """Returns whether *value*, from the reply to a put in a unit, reports a refused record."""
    match value:
        case [[_, *_], _]:
            return True
    return False
