"""The load engine: one thread, one epoll, every window kept full, every answer timed.

    sender    ──puts──▶ server ──answers──▶ counted, timed, and the window filled again
    receiver  ◀─messages─ server ◀─acks── at once, ─answers──▶ counted and timed

What a put or an ack looks like on the wire is a driver's affair, so that every server is driven by
the same windows and clocks. A latency is kept once for all messages that were sent together: with
a pair per burst in place of a number per message the engine stays faster than any server here.
"""

import select
import socket
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

SILENCE_MAX_S = 20.0
READ_BYTES = 1 << 20
NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


class Sender(Protocol):
    """One connection that puts."""

    sock: socket.socket

    def put(self, count: int) -> bytes:
        """Return the next *count* puts as bytes."""

    def take(self, data: bytes) -> int:
        """Return how many puts *data* acknowledges, oldest first."""


class Receiver(Protocol):
    """The connection that gets."""

    sock: socket.socket

    def start(self) -> bytes:
        """Return what asks for the first messages."""

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        """Return what to send (acks), how many messages *data* held, how many acks it answers."""


class LoadFailed(Exception):
    """The server refused a put, broke the connection or fell silent."""


@dataclass(slots=True)
class Latency:
    """Times with how many messages each stands for."""

    samples: list[tuple[int, int]] = field(default_factory=list)  # ns, messages

    def percentile_ms(self, percent: float) -> float | None:
        """Return the time that *percent* of the messages stayed within, or None without any."""
        total = sum(count for _, count in self.samples)
        wanted = total * percent / 100
        for ns, count in sorted(self.samples):
            wanted -= count
            if wanted <= 0:
                return round(ns / NS_PER_MS, 3)
        return None


class Timed:
    """What was sent and waits for its answer, oldest first, with the time of sending."""

    __slots__ = ("_bursts", "count", "latency")

    def __init__(self, latency: Latency) -> None:
        self.count = 0
        self.latency = latency
        self._bursts: deque[tuple[int, int]] = deque()  # messages, ns

    def sent(self, count: int, now_ns: int) -> None:
        """Take note of *count* that leave now."""
        self.count += count
        self._bursts.append((count, now_ns))

    def answered(self, count: int, now_ns: int) -> None:
        """Take note that the oldest *count* are answered."""
        self.count -= count
        bursts, samples = self._bursts, self.latency.samples
        while count:
            burst, sent_ns = bursts.popleft()
            if burst > count:
                bursts.appendleft((burst - count, sent_ns))
                burst = count
            samples.append((now_ns - sent_ns, burst))
            count -= burst


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do: puts until ``seconds`` or ``count`` are over, gets until all is acknowledged."""

    inflight: int
    seconds: float
    count: int = 0  # 0 = as many as the seconds allow; without senders: how many to get


@dataclass(slots=True)
class Outcome:
    """What was done."""

    messages: int
    seconds: float
    generator_cpu_s: float
    put: Latency
    ack: Latency
    end_to_end: Latency


class Load:
    """One run. Invariant: each sender has at most ``plan.inflight`` unanswered puts."""

    def __init__(self, plan: Plan, senders: Sequence[Sender], receiver: Receiver | None) -> None:
        self._plan = plan
        self._receiver = receiver
        self._put, self._ack, self._end_to_end = Latency(), Latency(), Latency()
        self._windows = {s.sock.fileno(): (s, Timed(self._put)) for s in senders}
        self._acks = Timed(self._ack)
        # With one sender messages come in the order in which they were sent.
        self._travel = Timed(self._end_to_end) if receiver and len(senders) == 1 else None
        self._sending = bool(senders)
        self._sent = self._answered = self._acked = 0
        self._last_ns = 0

    def run(self) -> Outcome:
        """Run to the end and return what was done.

        Raises:
            LoadFailed: the server did not do what it was asked.
        """
        poll = select.epoll()
        for number in self._windows:
            poll.register(number, select.EPOLLIN)
        if self._receiver is not None:
            poll.register(self._receiver.sock.fileno(), select.EPOLLIN)
        try:
            return self._loop(poll)
        except OSError as error:
            raise LoadFailed(f"the connection broke: {error}") from error
        finally:
            poll.close()

    def _loop(self, poll: select.epoll) -> Outcome:
        cpu_s = time.process_time()
        start_ns = time.monotonic_ns()
        self._stop_ns = start_ns + self._plan.seconds * NS_PER_S
        if self._receiver is not None:
            self._receiver.sock.sendall(self._receiver.start())
        for sender, window in self._windows.values():
            self._fill(sender, window)
        while not self._is_done():
            ready = poll.poll(SILENCE_MAX_S)
            if not ready:
                raise LoadFailed(f"the server said nothing for {SILENCE_MAX_S:.0f} s")
            for number, _ in ready:
                if number in self._windows:
                    self._hear_sender(*self._windows[number])
                else:
                    self._hear_receiver()
        messages = self._acked if self._receiver is not None else self._answered
        return Outcome(
            messages, (self._last_ns - start_ns) / NS_PER_S, time.process_time() - cpu_s,
            self._put, self._ack, self._end_to_end,
        )  # fmt: skip

    def _is_done(self) -> bool:
        if self._sending or self._answered < self._sent:
            return False
        wanted = self._sent if self._windows else self._plan.count
        return self._receiver is None or self._acked >= wanted

    def _fill(self, sender: Sender, window: Timed) -> None:
        now_ns = time.monotonic_ns()
        count = self._plan.inflight - window.count
        if self._plan.count:
            count = min(count, self._plan.count - self._sent)
        if now_ns >= self._stop_ns or count <= 0:
            self._sending = self._sending and now_ns < self._stop_ns and count > 0
            return
        window.sent(count, now_ns)
        if self._travel is not None:
            self._travel.sent(count, now_ns)
        self._sent += count
        sender.sock.sendall(sender.put(count))

    def _hear_sender(self, sender: Sender, window: Timed) -> None:
        count = sender.take(_read(sender.sock))
        if not count:
            return
        self._last_ns = now_ns = time.monotonic_ns()
        window.answered(count, now_ns)
        self._answered += count
        if self._sending:
            self._fill(sender, window)

    def _hear_receiver(self) -> None:
        receiver = self._receiver
        assert receiver is not None
        acks, got, acked = receiver.take(_read(receiver.sock))
        now_ns = time.monotonic_ns()
        if acks:
            receiver.sock.sendall(acks)
        if got:
            self._acks.sent(got, now_ns)
            if self._travel is not None:
                self._travel.answered(got, now_ns)
        if acked:
            self._last_ns = now_ns
            self._acks.answered(acked, now_ns)
            self._acked += acked


def _read(sock: socket.socket) -> bytes:
    data = sock.recv(READ_BYTES)
    if not data:
        raise LoadFailed("the server closed the connection")
    return data


def dial(address: str) -> socket.socket:
    """Return a connected socket to HOST:PORT or unix:/PATH.

    Raises:
        OSError: it cannot be.
    """
    if address.startswith("unix:"):
        sock = socket.socket(socket.AF_UNIX)
        try:
            sock.connect(address.removeprefix("unix:"))
        except OSError:
            sock.close()
            raise
        return sock
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host.strip("[]"), int(port)))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
