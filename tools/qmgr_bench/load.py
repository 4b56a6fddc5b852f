"""The load engine: one thread and one epoll that keep every window full and time every answer.

    sender    ──puts──▶ server ──answers──▶ counted and timed, and the window is filled again
    receiver  ◀─messages─ server ◀─acks── at once, ─answers──▶ counted and timed

A driver for each server encodes puts and acks, so all servers have the same windows and clocks. For
all messages that were sent together, the engine stores one latency and their number. The engine is
therefore faster than any server here.
"""

import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from qmgr_client.address import parse
from qmgr_client.tls import tls_options
from qmgr_protocol.tls import TlsOptions

SILENCE_MAX_S = 20.0
READ_BYTES = 1 << 20
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000
BUCKET_BITS = 8


class Sender(Protocol):
    """One connection that puts messages."""

    sock: socket.socket

    def put(self, count: int) -> bytes | bytearray:
        """Returns the bytes of the next *count* puts. The buffer is valid until the next call."""

    def take(self, data: bytes) -> int:
        """Returns the number of puts that *data* acknowledges, oldest first."""


class Receiver(Protocol):
    """One connection that gets messages."""

    sock: socket.socket

    def start(self) -> bytes:
        """Returns the request for the first messages."""

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        """Returns the acks to send, and the numbers of received messages and answered acks."""


class LoadFailed(Exception):
    """The server refused a put, closed the connection or stopped answering."""


class Latency:
    """A histogram of latencies whose buckets are less than 1 % wide, as in HDR histograms.

    Invariant: a bucket's key is its lower bound in ns, with at most BUCKET_BITS significant bits.
    """

    __slots__ = ("buckets", "count", "max_ns")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.count = 0
        self.max_ns = 0

    def add(self, ns: int, count: int = 1) -> None:
        """Records a latency of *ns* for *count* messages."""
        zeros = max(ns.bit_length() - BUCKET_BITS, 0)
        key = ns >> zeros << zeros
        self.buckets[key] = self.buckets.get(key, 0) + count
        self.count += count
        self.max_ns = max(self.max_ns, ns)

    def pool(self, other: "Latency") -> None:
        """Adds all records of *other*."""
        for ns, count in other.buckets.items():
            self.add(ns, count)
        self.max_ns = max(self.max_ns, other.max_ns)

    def percentile_ms(self, percent: float) -> float | None:
        """Returns the latency in ms that *percent* of the messages did not exceed, or None."""
        wanted = self.count * percent / 100
        for ns, count in sorted(self.buckets.items()):
            wanted -= count
            if wanted <= 0:
                return round(ns / NS_PER_MS, 3)
        return None

    def max_ms(self) -> float | None:
        """Returns the exact maximum latency in ms, or None without messages."""
        return round(self.max_ns / NS_PER_MS, 3) if self.count else None


class Timed:
    """Sent messages that are not answered yet, oldest first, with their send times."""

    __slots__ = ("_bursts", "count", "latency")

    def __init__(self, latency: Latency) -> None:
        self.count = 0
        self.latency = latency
        # pairs of (number of messages, send time in ns)
        self._bursts: deque[tuple[int, int]] = deque()

    def sent(self, count: int, now_ns: int) -> None:
        """Records the sending of *count* messages at *now_ns*."""
        self.count += count
        self._bursts.append((count, now_ns))

    def answered(self, count: int, now_ns: int) -> None:
        """Records the answers to the oldest *count* messages."""
        self.count -= count
        bursts, add = self._bursts, self.latency.add
        while count:
            burst, sent_ns = bursts.popleft()
            if burst > count:
                bursts.appendleft((burst - count, sent_ns))
                burst = count
            add(max(now_ns - sent_ns, 0), burst)
            count -= burst


@dataclass(frozen=True, slots=True)
class Plan:
    """The work of a run.

    Senders put until ``seconds`` or ``count`` is reached. Receivers get until all messages are
    acknowledged.

    With a ``rate``, each put has a due time, and its latency starts at that time, even if the
    window delays the put. If a server pauses for a second, all puts of that second wait.
    """

    inflight: int
    seconds: float
    count: int = 0  # number of puts (0: no limit), or number of gets if there are no senders
    rate: float = 0.0  # puts per second of all senders together; 0: as many as the windows allow
    seconds_max: float = float("inf")  # time after which the run is stopped
    copies: int = 1  # copies of each message that the receivers together acknowledge


@dataclass(slots=True)
class Outcome:
    """The result of a run."""

    messages: int
    seconds: float
    generator_cpu_s: float
    put: Latency
    ack: Latency
    end_to_end: Latency
    is_cut: bool  # whether seconds_max was reached before all work was done


class Load:
    """One run. Invariant: each sender has at most ``plan.inflight`` unanswered puts."""

    def __init__(self, plan: Plan, senders: Sequence[Sender], *receivers: Receiver) -> None:
        self._plan = plan
        self._put, self._ack, self._end_to_end = Latency(), Latency(), Latency()
        self._senders = {s.sock.fileno(): (s, Timed(self._put)) for s in senders}
        self._receivers = {r.sock.fileno(): (r, Timed(self._ack)) for r in receivers}
        # A receiver gets the messages of one sender in the order in which they were sent.
        is_pair = len(senders) == len(receivers) == plan.copies == 1
        self._travel = Timed(self._end_to_end) if is_pair else None
        self._sending = bool(senders)
        self._sent = self._answered = self._acked = 0
        self._start_ns = self._last_ns = 0

    def run(self) -> Outcome:
        """Does the work and returns the result.

        Raises:
            LoadFailed: The server did not finish the work.
        """
        poll = select.epoll()
        for number in (*self._senders, *self._receivers):
            poll.register(number, select.EPOLLIN)
        try:
            return self._loop(poll)
        except OSError as error:
            raise LoadFailed(f"the connection broke: {error}") from error
        finally:
            poll.close()

    def _loop(self, poll: select.epoll) -> Outcome:
        cpu_s = time.process_time()
        self._start_ns = self._last_ns = now_ns = time.monotonic_ns()
        self._stop_ns = now_ns + self._plan.seconds * NS_PER_S
        end_ns = now_ns + self._plan.seconds_max * NS_PER_S
        for receiver, _ in self._receivers.values():
            receiver.sock.sendall(receiver.start())
        self._fill_all()
        while not (is_done := self._is_done()) and time.monotonic_ns() < end_ns:
            for number, _ in self._ready(poll):
                if number in self._senders:
                    self._hear_sender(*self._senders[number])
                else:
                    self._hear_receiver(*self._receivers[number])
        messages = self._acked if self._receivers else self._answered
        last_ns = self._last_ns if is_done else time.monotonic_ns()
        return Outcome(
            messages,
            (last_ns - self._start_ns) / NS_PER_S,
            time.process_time() - cpu_s,
            self._put,
            self._ack,
            self._end_to_end,
            not is_done,
        )

    def _ready(self, poll: select.epoll) -> list[tuple[int, int]]:
        """Returns the ready connections, and waits if there are none. Sends puts that are due."""
        if not (self._plan.rate and self._sending and self._is_room()):
            ready = poll.poll(SILENCE_MAX_S)
            if not ready:
                raise LoadFailed(f"the server sent nothing for {SILENCE_MAX_S:.0f} s")
            return ready
        due_ns = min(self._due_ns(self._sent), self._stop_ns)
        wait_s = (due_ns - time.monotonic_ns()) / NS_PER_S
        select.select([poll], [], [], max(wait_s, 0))  # epoll has a resolution of only 1 ms.
        self._fill_all()
        return poll.poll(0)

    def _is_room(self) -> bool:
        return any(window.count < self._plan.inflight for _, window in self._senders.values())

    def _due_ns(self, number: int) -> int:
        return self._start_ns + int(number * NS_PER_S / self._plan.rate)

    def _is_done(self) -> bool:
        if self._sending or self._answered < self._sent:
            return False
        wanted = self._sent * self._plan.copies if self._senders else self._plan.count
        return not self._receivers or self._acked >= wanted

    def _fill_all(self) -> None:
        # The order rotates, so that equal windows take turns.
        first = self._sent % max(len(self._senders), 1)
        pairs = [*self._senders.values()]
        for sender, window in sorted(pairs[first:] + pairs[:first], key=lambda pair: pair[1].count):
            self._fill(sender, window)

    def _fill(self, sender: Sender, window: Timed) -> None:
        now_ns = time.monotonic_ns()
        count = self._plan.inflight - window.count
        if self._plan.count:
            count = min(count, self._plan.count - self._sent)
        self._sending = self._sending and now_ns < self._stop_ns
        if self._plan.rate:
            due = int((now_ns - self._start_ns) * self._plan.rate / NS_PER_S) + 1
            count = min(count, -(-(due - self._sent) // len(self._senders)))
        if not self._sending or count <= 0:
            return
        self._note(window, count, now_ns)
        self._sent += count
        if self._sent == self._plan.count:
            self._sending = False
        sender.sock.sendall(sender.put(count))

    def _note(self, window: Timed, count: int, now_ns: int) -> None:
        """Records *count* puts that are sent now. With a rate, records their due times instead."""
        times = [(count, now_ns)]
        if self._plan.rate:
            times = [(1, self._due_ns(self._sent + i)) for i in range(count)]
        for messages, ns in times:
            window.sent(messages, ns)
            if self._travel is not None:
                self._travel.sent(messages, ns)

    def _hear_sender(self, sender: Sender, window: Timed) -> None:
        count = sender.take(_read(sender.sock))
        if not count:
            return
        self._last_ns = now_ns = time.monotonic_ns()
        window.answered(count, now_ns)
        self._answered += count
        if self._sending:
            self._fill(sender, window)

    def _hear_receiver(self, receiver: Receiver, acks: Timed) -> None:
        send, got, acked = receiver.take(_read(receiver.sock))
        now_ns = time.monotonic_ns()
        if send:
            receiver.sock.sendall(send)
        if got:
            acks.sent(got, now_ns)
            if self._travel is not None:
                if got > self._travel.count:
                    raise LoadFailed(
                        "more messages arrived than were put: another producer may use the queue"
                    )
                self._travel.answered(got, now_ns)
        if acked:
            self._last_ns = now_ns
            acks.answered(acked, now_ns)
            self._acked += acked


def _read(sock: socket.socket) -> bytes:
    data = sock.recv(READ_BYTES)
    if not data:
        raise LoadFailed("the server closed the connection")
    return data


def dial(address: str, tls: TlsOptions | None = None) -> socket.socket:
    """Returns a socket that is connected to *address* (HOST:PORT, tls:HOST:PORT or unix:/PATH).

    Args:
        tls: How to check the certificate of an address with TLS. Default: the environment.

    Raises:
        OSError: The connection failed.
        TlsFailed: A file of *tls* cannot be used, or the certificate is not the expected one.
        ValueError: *tls* is given for an address without TLS.
    """
    where = parse(address)
    options = tls_options(where, tls)
    if where.path:
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(where.path)
        except OSError:
            sock.close()
            raise
        return sock
    sock = socket.create_connection((where.host, where.port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock if options is None else _secured(sock, options, where.host)


def _secured(plain: socket.socket, options: TlsOptions, host: str) -> ssl.SSLSocket:
    """Returns *plain* with TLS. A read returns one record of TLS, and none is left in the buffer.

    Therefore epoll reports all data that can be read, as without TLS.
    """
    try:
        sock = options.context().wrap_socket(plain, server_hostname=options.server_name or host)
    except BaseException:
        plain.close()
        raise
    try:
        # The certificate is checked here if it is pinned.
        options.check(sock)  # type: ignore[arg-type]  # It has the methods of an SSLObject.
    except BaseException:
        sock.close()
        raise
    return sock
