"""Tests of the core: handshake, heartbeats, goodbyes, and the errors of a client that has ended."""

import ast
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import qmgr_client.sansio.core
from qmgr_client.errors import ConnectionEnded
from qmgr_client.sansio.active_leases import START_AFTER_MS
from qmgr_client.sansio.core import ClientCore
from qmgr_client.sansio.events import Disconnected, Failed, Ready
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.states import Side
from tests.qmgr_client.scripted import PRODUCER, Scripted, delivery

SOURCES = Path(qmgr_client.sansio.core.__file__).parent


def test_hello_comes_first_and_nothing_before_the_welcome() -> None:
    core = ClientCore("app", PRODUCER)
    core.put("Q", b"record")
    core.connected(0)
    far = Connection(Side.LISTENER)
    ((hello, _),) = far.receive(core.data_to_send(0), 0)
    assert isinstance(hello, m.Hello)
    assert (hello.role, hello.name, hello.frame_max_bytes) == ("client", "app", 64 * 1024 * 1024)
    assert core.data_to_send(0) == b""
    assert not core.is_open


def test_welcome_makes_it_ready() -> None:
    pair = Scripted().connect()
    assert pair.core.is_open
    assert pair.latest(Ready).welcome.name == "QM1"


def test_each_connection_resumes_the_session_of_the_last_welcome() -> None:
    pair = Scripted().connect(session=b"first")
    assert pair.hello.session == b""
    pair.cut().connect(session=b"second")  # This is a different store.
    assert pair.hello.session == b"first"
    pair.cut().connect()  # This queue manager has an older version.
    assert pair.hello.session == b"second"
    pair.cut().connect()
    assert pair.hello.session == b""


def test_session_that_another_connection_resumed_is_over() -> None:
    """Reconnecting would fence the other connection, which would reconnect in turn, without end."""
    pair = Scripted().connect()
    pair.say(m.Goaway(ErrorCode.SESSION_FENCED, "a newer connection has resumed this session"))
    assert pair.latest(Failed).error.code == ErrorCode.SESSION_FENCED


def test_bytes_come_one_by_one() -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(0, m.Status)
    request = pair.hear(m.Status)
    far = pair._far
    assert far is not None
    for byte in far.send(m.Ok(request.request_id, {"name": "QM1"})):
        pair.core.receive(bytes([byte]), pair.now_ms)
    pair.pump()
    assert pair.done[ticket] == {"name": "QM1"}


def test_ping_is_answered() -> None:
    pair = Scripted().connect()
    pair.say(m.Ping(7))
    assert pair.pump() == [m.Pong(7)]


def test_silence_is_asked_about_and_then_ends_the_connection() -> None:
    pair = Scripted().connect(heartbeat_ms=1_000, liveness_ms=3_000)
    start_ms = pair.now_ms
    for pair.now_ms in range(start_ms, start_ms + 3_000, 250):
        pair.core.poll(pair.now_ms)
    assert len(pair.hear_all(m.Ping)) == 2
    pair.now_ms = start_ms + 3_000
    pair.core.poll(pair.now_ms)
    pair.core.poll(pair.now_ms)
    assert pair.hear(m.Goaway).code == ErrorCode.LIVENESS_EXPIRED
    assert [type(event) for event in pair.events].count(Disconnected) == 1
    pair.cut().connect()
    assert pair.core.is_open


def test_silence_instead_of_a_welcome_ends_the_connection() -> None:
    pair = Scripted()
    pair.core.connected(0)
    pair.core.poll(30_000)
    pair.core.data_to_send(30_000)
    assert [type(event) for event in pair.core.events()] == [Disconnected]


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.SHUTTING_DOWN,
        ErrorCode.LIVENESS_EXPIRED,
        ErrorCode.PEER_KEPT_OUT,
        ErrorCode.CONNECTIONS_EXHAUSTED,
        ErrorCode.INTERNAL_ERROR,
    ],
)
def test_goodbye_that_passes_has_the_shell_dial_again(code: int) -> None:
    pair = Scripted().connect()
    ticket = pair.core.request(0, m.Status)
    pair.pump()
    pair.say(m.Goaway(code, "later", 700))
    assert pair.latest(Disconnected)[::2] == (code, 700)
    request = pair.cut().connect().hear(m.Status)
    pair.say(m.Ok(request.request_id, {}))
    assert pair.done[ticket] == {}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.VERSION_UNSUPPORTED,
        ErrorCode.NOT_AUTHORIZED,
        ErrorCode.FRAME_MALFORMED,
        ErrorCode.CREDIT_EXCEEDED,
        60_000,
    ],
)
def test_goodbye_that_stays_ends_everything(code: int) -> None:
    pair = Scripted().connect()
    tickets = [pair.core.request(0, m.Status), pair.put(), pair.core.consume("Q", 8)]
    pair.pump()
    pair.say(m.Goaway(code, "never"))
    assert pair.latest(Failed).error.code == code
    assert {pair.done[ticket].code for ticket in tickets} == {code}
    with pytest.raises(ConnectionEnded, match="never"):
        pair.put()
    with pytest.raises(ConnectionEnded, match="never"):
        pair.core.request(0, m.Status)
    with pytest.raises(ConnectionEnded, match="never"):
        pair.core.consume("Q", 8)
    pair.core.connection_lost()
    with pytest.raises(ConnectionEnded):
        pair.core.connected(0)


def test_goodbye_instead_of_a_welcome() -> None:
    pair = Scripted()
    pair.core.connected(0)
    far = Connection(Side.LISTENER)
    far.receive(pair.core.data_to_send(0), 0)
    pair.core.receive(far.send(m.Goaway(ErrorCode.PEER_KEPT_OUT, "wait", 5)), 0)
    assert [type(event) for event in pair.core.events()] == [Disconnected]


def test_garbage_ends_everything() -> None:
    pair = Scripted().connect()
    pair.core.receive(b"\x00\x00\x00\x02\xff\xff", pair.now_ms)
    assert pair.hear(m.Goaway).code == ErrorCode.FRAME_MALFORMED
    assert "broke the protocol" in pair.latest(Failed).error.text


def test_late_and_strange_answers_are_ignored() -> None:
    pair = Scripted().connect()
    pair.say(m.Ok(99), m.Error(99, 300, 2), m.Ended(99, 201), m.Pong(3))
    pair.say(m.Deliver(99, 1, []), m.Settled(5), m.Committed(9, 9))
    assert pair.pump() == []
    assert pair.core.is_open


def test_operation_of_a_newer_queue_manager_is_ignored() -> None:
    pair = Scripted().connect()
    pair.core.receive(b"\x00\x00\x00\x04\x92\xcc\xc8\x01", pair.now_ms)  # Operation 200 is unknown.
    assert pair.pump() == []
    assert pair.core.is_open


def test_much_to_send_comes_in_pieces() -> None:
    pair = Scripted()
    pair.put()
    pair.opened()
    for _ in range(20):
        pair.put(b"." * 100_000)
    sizes = []
    while data := pair.core.data_to_send(pair.now_ms):
        sizes.append(len(data))
    assert len(sizes) > 3
    assert max(sizes) < 3 * 256 * 1024


def test_end_is_for_good_and_happens_once() -> None:
    pair = Scripted().connect()
    ticket = pair.put()
    pair.core.end(ConnectionEnded(ErrorCode.CANCELLED, "closed by the caller"))
    pair.core.end(ConnectionEnded(ErrorCode.CANCELLED, "again"))
    pair.pump()
    assert pair.done[ticket].text == "closed by the caller"
    assert [type(event) for event in pair.events].count(Failed) == 1


def test_outstanding_counts_puts_and_settles() -> None:
    pair = Scripted()
    pair.put()
    pair.opened()
    assert pair.core.outstanding == 1
    pair.hear(m.Put)
    pair.say(m.Committed(7, 1))
    assert pair.core.outstanding == 0


def test_loss_without_a_connection_changes_nothing() -> None:
    core = ClientCore("app", PRODUCER)
    core.connection_lost()
    core.receive(b"late", 0)
    core.poll(0)
    assert core.data_to_send(0) == b""


def test_core_reads_no_clock_rolls_no_die_and_waits_for_nothing() -> None:
    sources = [*SOURCES.glob("*.py"), SOURCES.parent / "message.py"]
    assert len(sources) > 10
    for source in sources:
        tree = ast.parse(source.read_text())
        imported = {
            word.partition(".")[0]
            for node in ast.walk(tree)
            for word in (
                [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else []
            )
        }
        assert not imported & {"asyncio", "os", "random", "socket", "threading", "time"}, source


def ticked(pair: Scripted, now_ms: int) -> list[Any]:
    """Ticks the core at each due time until *now_ms*. Returns the messages that the core sends."""
    while (due_ms := pair.core.next_due_ms) <= now_ms:
        assert due_ms > pair.now_ms, "the next due time is in the past"
        pair.now_ms = due_ms
        pair.core.tick(due_ms)
    pair.now_ms = now_ms
    heard, pair.heard = pair.pump(), []
    return heard


def test_ticks_at_the_named_times_send_heartbeats_and_notice_silence() -> None:
    pair = Scripted().connect(heartbeat_ms=1_000, liveness_ms=3_000)
    start_ms = pair.now_ms
    assert ticked(pair, start_ms + 900) == []
    assert [type(x) for x in ticked(pair, start_ms + 1_400)] == [m.Ping]
    ticked(pair, start_ms + 3_300)
    assert pair.latest(Disconnected).code == ErrorCode.LIVENESS_EXPIRED


def test_connection_does_not_expire_before_a_late_shell_has_read_it() -> None:
    pair = Scripted().connect(heartbeat_ms=1_000, liveness_ms=3_000)
    pair.now_ms += 10_000
    pair.core.tick(pair.now_ms)
    pair.say(m.Pong())  # The pong arrived while the shell was delayed.
    ticked(pair, pair.now_ms + 300)
    assert pair.core.is_open


def consuming(pair: Scripted, lease_ms: int, *, auto_renew: bool) -> int:
    """Opens a consumer, which receives two messages. Returns its ticket."""
    ticket = pair.core.consume("Q", 10, auto_renew=auto_renew)
    opening = pair.hear(m.Consume)
    items = [delivery(b"x", arrival, 100 + arrival) for arrival in (1, 2)]
    pair.say(m.Ok(opening.request_id, [3, lease_ms]), m.Deliver(opening.request_id, 3, items))
    return ticket


def renewals(messages: list[Any]) -> int:
    return sum(isinstance(x, m.Settle) and x.action == m.RENEW for x in messages)


def test_lease_of_what_the_application_keeps_starts_after_a_few_milliseconds() -> None:
    pair = Scripted().connect()
    ticket = consuming(pair, 30_000, auto_renew=False)
    assert pair.core.next_message(ticket, pair.now_ms) is not None  # This lease starts early.
    assert renewals(ticked(pair, pair.now_ms)) == 1
    assert pair.core.next_message(ticket, pair.now_ms) is not None
    assert renewals(ticked(pair, pair.now_ms + START_AFTER_MS - 1)) == 0
    assert renewals(ticked(pair, pair.now_ms + 1)) == 1
    assert renewals(ticked(pair, pair.now_ms + 29_000)) == 0


def test_short_leases_are_renewed_in_time() -> None:
    """Renewals are on time even though heartbeats need a tick only once a second."""
    pair = Scripted().connect()
    ticket = consuming(pair, 200, auto_renew=True)
    assert pair.core.next_message(ticket, pair.now_ms) is not None
    start_ms = pair.now_ms
    times = [start_ms]
    for now_ms in range(start_ms, start_ms + 2_000):
        if renewals(ticked(pair, now_ms)):
            times.append(now_ms)
            pair.say(m.Settled(len(times) - 1, []), m.Pong())
    assert len(times) > 10
    assert all(after - before < 150 for before, after in pairwise(times))
