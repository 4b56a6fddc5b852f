import socket
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_bench.load import Latency, Load, LoadFailed, Plan, Timed, dial

MS = 1_000_000


class Echo:
    """A server that answers each byte with a byte, and records the maximum number unanswered."""

    def __init__(self, pieces: int = 1) -> None:
        self.ours, self.theirs = socket.socketpair()
        self.most = 0
        self._pieces = pieces
        self._thread = Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with self.theirs:
            while data := self.theirs.recv(4096):
                self.most = max(self.most, len(data))
                size = -(-len(data) // self._pieces)
                for at in range(0, len(data), size):
                    self.theirs.sendall(data[at : at + size])

    def close(self) -> None:
        """Closes the connection and waits for the server."""
        self.ours.close()
        self._thread.join()


class ByteSender:
    """A sender that puts single bytes."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.sent = 0

    def put(self, count: int) -> bytes:
        self.sent += count
        return b"p" * count

    def take(self, data: bytes) -> int:
        return len(data)


class ByteReceiver:
    """A receiver that requests messages once. "m" is a message, and "a" acknowledges one."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock

    def start(self) -> bytes:
        return b"m" * 10

    def take(self, data: bytes) -> tuple[bytes, int, int]:
        messages = data.count(b"m")
        return b"a" * messages, messages, data.count(b"a")


@pytest.fixture
def echoes() -> Iterator[list[Echo]]:
    made = [Echo(), Echo(pieces=3)]
    yield made
    for echo in made:
        echo.close()


def test_count_is_put_and_no_window_is_exceeded(echoes: list[Echo]) -> None:
    senders = [ByteSender(echo.ours) for echo in echoes]
    outcome = Load(Plan(inflight=7, seconds=float("inf"), count=1_000), senders).run()
    assert outcome.messages == 1_000
    assert outcome.put.count == 1_000
    assert max(echo.most for echo in echoes) <= 7
    assert outcome.seconds > 0


def test_time_ends_the_puts_and_all_are_answered(echoes: list[Echo]) -> None:
    outcome = Load(Plan(inflight=4, seconds=0.05), [ByteSender(echoes[0].ours)]).run()
    assert outcome.messages == outcome.put.count > 0
    assert outcome.generator_cpu_s > 0


def test_backlog_is_got_and_acknowledged(echoes: list[Echo]) -> None:
    receiver = ByteReceiver(echoes[0].ours)
    outcome = Load(Plan(inflight=0, seconds=float("inf"), count=10), [], receiver).run()
    assert outcome.messages == 10
    assert outcome.ack.count == 10
    assert outcome.end_to_end.percentile_ms(50) is None


def test_each_of_what_is_put_is_got_as_often_as_there_are_copies(echoes: list[Echo]) -> None:
    sender, receiver = ByteSender(echoes[0].ours), ByteReceiver(echoes[1].ours)
    plan = Plan(inflight=2, seconds=float("inf"), count=5, copies=2)
    outcome = Load(plan, [sender], receiver).run()
    assert (sender.sent, outcome.put.count) == (5, 5)
    assert (outcome.messages, outcome.ack.count) == (10, 10)
    assert outcome.end_to_end.percentile_ms(50) is None


def test_server_that_hangs_up_is_a_failure() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours, pytest.raises(LoadFailed):
        Load(Plan(inflight=1, seconds=1), [ByteSender(ours)]).run()


def test_pooled_times_are_those_of_both() -> None:
    one, other, both = Latency(), Latency(), Latency()
    for at, ns in enumerate((3, 1_234_567, 999, 7_000_001, 5_555)):
        (one, other)[at % 2].add(ns, at + 1)
        both.add(ns, at + 1)
    one.pool(other)
    assert (one.buckets, one.count, one.max_ns) == (both.buckets, both.count, both.max_ns)


def test_percentiles_weigh_each_burst_by_its_messages() -> None:
    latency = latency_of([(5 * MS, 1), (1 * MS, 98), (9 * MS, 1)])
    assert latency.percentile_ms(50) == pytest.approx(1.0, rel=0.01)
    assert latency.percentile_ms(99) == pytest.approx(5.0, rel=0.01)
    assert latency.percentile_ms(100) == pytest.approx(9.0, rel=0.01)
    assert latency.max_ms() == 9.0
    assert Latency().max_ms() is None
    assert Latency().percentile_ms(50) is None


@given(
    st.lists(st.tuples(st.integers(0, 10 * MS), st.integers(1, 5)), min_size=1), st.integers(1, 100)
)
def test_percentile_is_that_of_the_list_written_out(
    samples: list[tuple[int, int]], percent: int
) -> None:
    written_out = sorted(ns for ns, count in samples for _ in range(count))
    rank = -(-len(written_out) * percent // 100)
    found = latency_of(samples).percentile_ms(percent)
    assert found == pytest.approx(written_out[rank - 1] / MS, rel=0.008, abs=0.0006)


@given(st.lists(st.integers(1, 50), min_size=1), st.data())
def test_answers_are_timed_from_their_own_burst(bursts: list[int], data: st.DataObject) -> None:
    timed = Timed(Latency())
    for number, count in enumerate(bursts):
        timed.sent(count, number * 1000)
    left = sum(bursts)
    while left:
        count = data.draw(st.integers(1, left))
        timed.answered(count, 1_000_000)
        left -= count
        assert timed.count == left
    wanted = [(1_000_000 - n * 1000, count) for n, count in enumerate(bursts)]
    assert timed.latency.buckets == latency_of(wanted).buckets


def latency_of(samples: list[tuple[int, int]]) -> Latency:
    latency = Latency()
    for ns, count in samples:
        latency.add(ns, count)
    return latency


def test_puts_leave_at_their_rate_and_are_timed_from_when_they_were_due(echoes: list[Echo]) -> None:
    plan = Plan(inflight=50, seconds=float("inf"), count=200, rate=1_000)
    outcome = Load(plan, [ByteSender(echo.ours) for echo in echoes]).run()
    assert (outcome.messages, outcome.put.count) == (200, 200)
    assert outcome.seconds > 0.15  # The last put is due at 0.199 s, but timers are coarse.


def test_puts_at_a_rate_are_spread_over_all_connections(echoes: list[Echo]) -> None:
    senders = [ByteSender(echo.ours) for echo in echoes]
    Load(Plan(inflight=50, seconds=float("inf"), count=100, rate=1_000), senders).run()
    assert all(30 <= sender.sent <= 70 for sender in senders)


def test_put_that_the_window_held_back_waited_all_the_same() -> None:
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            theirs.recv(1)
            Event().wait(0.2)  # The server stalls.
            theirs.sendall(b"a")
            while data := theirs.recv(4096):
                theirs.sendall(data)

    thread = Thread(target=serve)
    thread.start()
    with ours:
        plan = Plan(inflight=1, seconds=float("inf"), count=20, rate=100)
        outcome = Load(plan, [ByteSender(ours)]).run()
    thread.join()
    median_ms = outcome.put.percentile_ms(50)
    assert median_ms is not None
    # The puts that were due in the meantime also waited: 0.2 s, 0.19 s, 0.18 s, ...
    assert median_ms > 80


def test_time_cuts_a_run_that_does_not_end() -> None:
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with theirs:
            theirs.recv(100)
            theirs.sendall(b"m" * 9)
            with suppress(OSError):
                while data := theirs.recv(100):
                    theirs.sendall(data.replace(b"a", b"ma"))

    thread = Thread(target=serve)
    thread.start()
    with ours:
        plan = Plan(0, float("inf"), count=10**9, seconds_max=0.1)
        outcome = Load(plan, [], ByteReceiver(ours)).run()
    thread.join()
    assert outcome.is_cut
    assert outcome.messages > 0
    assert outcome.seconds == pytest.approx(0.1, abs=0.09)


def test_dial_reaches_a_unix_socket_and_a_port(tmp_path: object) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        dial(f"127.0.0.1:{server.getsockname()[1]}").close()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(f"{tmp_path}/s")
        server.listen()
        dial(f"unix:{tmp_path}/s").close()
    with pytest.raises(OSError, match="refused"):
        dial(f"unix:{tmp_path}/s")
