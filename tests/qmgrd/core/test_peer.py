"""Tests of the daemon's side of a connection, without I/O."""

from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from qmgr_config.load import load
from qmgr_config.model import LimitsConfig
from qmgr_protocol import messages as m
from qmgr_protocol.connection import Connection
from qmgr_protocol.errors import (
    CreditExceeded,
    ErrorCode,
    FrameTooLarge,
    RemoteProtocolError,
    StateViolation,
)
from qmgr_protocol.frame import LENGTH, encode
from qmgr_protocol.layout import to_array
from qmgr_protocol.states import Side
from qmgrd.core.context.context import Dial
from qmgrd.core.intake import Intake
from qmgrd.core.peer import FRAMES_MAX, HEARTBEATS_MAX, UNANSWERED_FACTOR, Admit, Peer, goodbye
from qmgrd.core.sessions.session_token import SessionTokens
from tests.qmgrd.core.harness import SECRET, record

WELCOME = m.Welcome(1, "QM1", b"S" * 16, 7)
TOKENS = SessionTokens(SECRET, b"salt")
HELLO = m.Hello(m.MAGIC, 1, 1, "client", "app")


class Pair:
    """The daemon's side of a connection, and a simulated dialler at the other end."""

    def __init__(
        self, limits: LimitsConfig | None = None, admit: Admit = lambda hello: None
    ) -> None:
        self.intake = Intake()
        self.limits = limits or LimitsConfig()
        self.peer = Peer(1, self.intake, self.limits, WELCOME, TOKENS, 0, admit=admit)
        self.wire = Connection(Side.DIALLER)

    def say(self, *messages: Any, now_ms: int = 0) -> list[Any]:
        return self.hear(self.peer.receive(b"".join(map(self.wire.send, messages)), now_ms))

    def hear(self, data: bytes) -> list[Any]:
        return [message for message, _ in self.wire.receive(data, 0)]

    def waiting(self) -> list[str]:
        """Returns the names of the items that the broker will receive."""
        return [
            "event" if arrival.event else type(arrival.message).__name__
            for _, arrival in self.intake.take(10_000, 1 << 40)
        ]


def test_hello_is_answered_at_once_and_reported_to_the_broker() -> None:
    pair = Pair()
    (welcome,) = pair.say(HELLO)
    assert welcome == WELCOME._replace(session=welcome.session)
    assert pair.peer.is_open
    assert pair.peer.peer_name == "app"
    assert pair.waiting() == ["event"]


def test_welcome_hands_out_a_session_that_the_next_hello_resumes() -> None:
    first, again, other = Pair(), Pair(), Pair()
    (welcome,) = first.say(HELLO)
    assert again.say(HELLO._replace(session=welcome.session)) == [welcome]
    assert again.peer.session_id == first.peer.session_id != b""
    for strange in (welcome.session[::-1], welcome.session[:-1], welcome.session + b"x", b"x"):
        other = Pair()
        (answer,) = other.say(HELLO._replace(session=strange))
        assert answer.session not in (b"", strange)
        assert other.peer.session_id == TOKENS.session_id(answer.session)


def test_ping_is_answered_at_once() -> None:
    pair = Pair()
    pair.say(HELLO)
    assert pair.say(m.Ping(5)) == [m.Pong(5)]
    assert pair.waiting() == ["event"]


def test_requests_wait_for_the_turn_in_order() -> None:
    pair = Pair()
    pair.say(HELLO)
    assert pair.say(m.Status(1), m.Put(1, 1, 0, "Q", []), m.Pong(1), m.Get(2, "Q")) == []
    facts = pair.peer.facts(0)
    assert facts["waiting"] == 3  # The number of a peer's waiting messages excludes events.
    assert facts["waiting_bytes"] > 10
    assert pair.waiting() == ["event", "Status", "Put", "Get"]
    assert pair.peer.facts(0) == {
        "waiting": 0,
        "waiting_bytes": 0,
        "delayed_by": "",
        "delay_ms": 0,
        "token_ms": None,
    }


def test_goodbye_of_the_peer_is_noted() -> None:
    pair = Pair()
    pair.say(HELLO)
    pair.say(m.Goaway(0, "done"))
    assert pair.peer.goaway == m.Goaway(0, "done")


def test_ping_before_a_goodbye_needs_no_answer() -> None:
    pair = Pair()
    pair.say(HELLO)
    assert pair.say(m.Ping(1), m.Goaway(0)) == []


def test_quarantined_peer_gets_a_reason_and_the_broker_no_event() -> None:
    away = m.Goaway(ErrorCode.PEER_KEPT_OUT, "later", 500)
    pair = Pair(admit=lambda hello: away if hello.name == "app" else None)
    assert pair.say(HELLO) == [away]
    pair.peer.closed("gone")
    assert pair.waiting() == []


def test_peer_whose_frames_are_too_short_for_a_message_is_sent_away() -> None:
    pair = Pair()
    (away,) = pair.say(HELLO._replace(frame_max_bytes=1 << 20))
    assert away.code == ErrorCode.FIELD_INVALID
    assert "Hello.frame_max_bytes: 1048576, but this queue manager needs 4259840" in away.text


def test_client_whose_frames_are_too_short_for_a_delivery_is_sent_away() -> None:
    """Even short messages need longer frames, because up to 1 MiB of messages shares a frame."""
    limits = LimitsConfig(frame_max_bytes=200_000, message_max_bytes=10_000)
    hello = HELLO._replace(frame_max_bytes=200_000)
    (away,) = Pair(limits).say(hello)
    assert "but this queue manager needs 1114112" in away.text
    (welcome,) = Pair(limits).say(hello._replace(role="queue-manager", store_id=b"F" * 16))
    assert type(welcome) is m.Welcome


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"\0" * 64,
        b"\xff" * 64,
        encode([1, "qmgr"]),
        encode([80, 1]),
        encode([1, "xxxx", 1, 1, "client", "a"]),
        encode([1, "qmgr", 2, 9, "client", "a"]),
        encode([1, "qmgr", 1, 1, "root", "a"]),
    ],
)
def test_rubbish_in_place_of_a_hello_is_refused(data: bytes) -> None:
    pair = Pair()
    with pytest.raises(RemoteProtocolError):
        pair.peer.receive(data, 0)
    pair.peer.closed("gone")
    assert pair.waiting() == []


def test_frame_before_the_hello_is_short() -> None:
    with pytest.raises(FrameTooLarge, match="frame of 4097 bytes exceeds the limit of 4096 bytes"):
        Pair().peer.receive(LENGTH.pack(4_097), 0)


def test_frame_over_the_limit_is_refused_before_it_has_come() -> None:
    pair = Pair()
    pair.say(HELLO)
    limit = WELCOME.frame_max_bytes
    pair.peer.receive(LENGTH.pack(limit), 0)
    other = Pair()
    other.say(HELLO)
    with pytest.raises(
        FrameTooLarge, match=f"frame of {limit + 1} bytes exceeds the limit of {limit} bytes"
    ):
        other.peer.receive(LENGTH.pack(limit + 1), 0)


def test_requests_before_invalid_bytes_are_applied_except_reads() -> None:
    pair = Pair()
    pair.say(HELLO)
    sent = pair.wire.send(m.QueueCreate(1, "Q")) + pair.wire.send(m.Status(2))
    with pytest.raises(RemoteProtocolError):
        pair.peer.receive(sent + b"\xff" * 9, 0)
    pair.peer.closed("rubbish")
    assert pair.waiting() == ["event", "QueueCreate", "event"]


def test_message_of_the_other_side_breaks_the_protocol() -> None:
    pair = Pair()
    pair.say(HELLO)
    with pytest.raises(StateViolation):
        pair.peer.receive(encode([6, 1, None]), 0)


def test_client_may_not_open_a_link() -> None:
    pair = Pair()
    pair.say(HELLO)
    with pytest.raises(StateViolation):
        pair.peer.receive(encode([60, 1, b"x" * 24, 1, 1]), 0)


# -- credit


def test_puts_beyond_the_window_break_the_protocol() -> None:
    pair = Pair(LimitsConfig(put_window_messages=10))
    pair.say(HELLO)
    pair.say(m.Put(1, 1, 0, "Q", [b"x"] * 10))
    with pytest.raises(CreditExceeded, match="11 puts outstanding; the limit is 10"):
        pair.say(m.Put(1, 11, 0, "Q", [b"x"]))


def test_credit_comes_back_with_the_turn() -> None:
    pair = Pair(LimitsConfig(put_window_messages=10))
    pair.say(HELLO)
    for _ in range(3):
        pair.say(m.Put(1, 1, 0, "Q", [b"x"] * 10))
        pair.waiting()


def test_puts_without_records_count_too() -> None:
    pair = Pair(LimitsConfig(put_window_messages=10))
    pair.say(HELLO)
    with pytest.raises(CreditExceeded, match="11 puts outstanding; the limit is 10"):
        pair.say(*[m.Put(1, 1, 0, "Q", [])] * 11)


@pytest.mark.parametrize("flood", [m.Ping(1), m.Pong(1)])
def test_flood_of_heartbeats_breaks_the_protocol(flood: Any) -> None:
    """The daemon answers each heartbeat immediately, so no credit limits heartbeats."""
    pair = Pair()
    pair.say(HELLO)
    pair.say(*[flood] * HEARTBEATS_MAX)
    with pytest.raises(CreditExceeded, match=f"{HEARTBEATS_MAX + 1} heartbeats outstanding"):
        pair.say(*[flood] * (HEARTBEATS_MAX + 1))


def test_put_counts_with_the_length_of_its_frame() -> None:
    pair = Pair()
    pair.say(HELLO)
    put = m.Put(1, 1, 0, "Q", [b"x"])
    pair.say(put)
    assert pair.peer.facts(0)["waiting_bytes"] == len(encode(to_array(put)))


def test_bytes_of_puts_beyond_the_window_break_the_protocol() -> None:
    limits = LimitsConfig(put_window_bytes=1024, frame_max_bytes=4 << 20, message_max_bytes=1024)
    pair = Pair(limits)
    pair.say(HELLO)
    pair.say(m.Put(1, 1, 0, "Q", [bytes(3 << 20)]))
    with pytest.raises(CreditExceeded, match="bytes of puts outstanding; the limit is 1024"):
        pair.say(m.Put(1, 2, 0, "Q", [bytes(2 << 20)]))


def test_requests_beyond_the_window_break_the_protocol_until_answered() -> None:
    pair = Pair(LimitsConfig(request_window=10))
    pair.say(HELLO)
    pair.say(*(m.Status(number) for number in range(1, 11)))
    pair.waiting()  # A turn has applied the requests, but has not answered them.
    pair.peer.encode(m.Ok(1, {}))
    pair.say(m.Status(11))
    with pytest.raises(CreditExceeded, match=r"11 unanswered requests.*10"):
        pair.say(m.Settle(1, m.ACK, 3, b""))


def test_requests_without_an_answer_are_bounded_too() -> None:
    pair = Pair(LimitsConfig(request_window=5))
    pair.say(HELLO)
    pair.say(*(m.Credit(1, 1, 1) for _ in range(5 * UNANSWERED_FACTOR)))
    with pytest.raises(CreditExceeded, match="21 requests outstanding; the limit is 20"):
        pair.say(m.Cancel(1))


def test_flood_of_short_frames_is_not_read_to_its_end() -> None:
    """A read full of frames of 7 bytes took 80 ms before the credit was checked."""
    pair = Pair(LimitsConfig(request_window=5))
    pair.say(HELLO)
    flood = b"".join(pair.wire.send(m.Cancel(1)) for _ in range(37_000))
    with pytest.raises(CreditExceeded, match=f"{FRAMES_MAX} requests outstanding"):
        pair.peer.receive(flood, 0)


def test_read_of_many_frames_is_complete() -> None:
    pair = Pair()
    pair.say(HELLO)
    count = FRAMES_MAX * 2 + 1
    pair.say(*(m.Cancel(1) for _ in range(count)), m.Ping(1))
    assert pair.waiting() == ["event", *["Cancel"] * count]
    assert not pair.peer.partial_bytes


# -- heartbeats


def test_silent_peer_is_pinged_then_given_up() -> None:
    pair = Pair(LimitsConfig(heartbeat_ms=100, liveness_ms=300))
    pair.say(HELLO, now_ms=1_000)
    assert pair.peer.poll(1_099) == b""
    assert pair.hear(pair.peer.poll(1_100)) == [m.Ping(1_100)]
    assert pair.peer.poll(1_150) == b""
    assert pair.hear(pair.peer.poll(1_200)) == [m.Ping(1_200)]
    with pytest.raises(
        RemoteProtocolError, match="received nothing for 300 ms; the limit is 300 ms"
    ):
        pair.peer.poll(1_300)


def test_peer_that_never_says_hello_is_given_up_without_a_ping() -> None:
    pair = Pair(LimitsConfig(heartbeat_ms=100, liveness_ms=300))
    assert pair.peer.poll(200) == b""
    with pytest.raises(RemoteProtocolError):
        pair.peer.poll(300)


def test_anything_heard_keeps_a_peer_alive() -> None:
    pair = Pair(LimitsConfig(heartbeat_ms=100, liveness_ms=300))
    pair.say(HELLO, now_ms=0)
    pair.say(m.Pong(1), now_ms=250)
    assert pair.peer.poll(340) == b""


# -- links


def test_link_says_hello_as_a_queue_manager() -> None:
    intake = Intake()
    peer = Peer(1, intake, LimitsConfig(), WELCOME, TOKENS, 0, dial=Dial("QM2", "h:1", 1))
    far = Connection(Side.LISTENER)
    ((hello, _),) = far.receive(peer.hello(), 0)
    assert isinstance(hello, m.Hello)
    assert (hello.role, hello.name, hello.store_id) == ("queue-manager", "QM1", b"S" * 16)
    peer.receive(far.send(m.Welcome(1, "QM2", b"T" * 16, 1)), 0)
    assert peer.is_open
    assert peer.peer_name == "QM2"
    peer.receive(far.send(m.Committed(1, 5)), 0)
    peer.closed("gone")
    peer.closed("again")
    assert [bool(arrival.event) for _, arrival in intake.take(9, 999)] == [True, False, True]


def test_link_uses_the_heartbeat_interval_of_the_welcome() -> None:
    peer = Peer(1, Intake(), LimitsConfig(), WELCOME, TOKENS, 0, dial=Dial("QM2", "h:1", 1))
    far = Connection(Side.LISTENER)
    far.receive(peer.hello(), 0)
    welcome = m.Welcome(1, "QM2", b"T" * 16, 1, heartbeat_ms=60_000, liveness_ms=180_000)
    peer.receive(far.send(welcome), 0)
    assert peer.poll(59_999) == b""
    assert [message for message, _ in far.receive(peer.poll(60_000), 0)] == [m.Ping(60_000)]
    peer.poll(179_999)
    with pytest.raises(
        RemoteProtocolError, match="received nothing for 180000 ms; the limit is 180000 ms"
    ):
        peer.poll(180_000)


def test_link_that_gets_no_welcome_is_given_up_by_its_own_limits() -> None:
    limits = LimitsConfig(heartbeat_ms=100, liveness_ms=300)
    peer = Peer(1, Intake(), limits, WELCOME, TOKENS, 0, dial=Dial("QM2", "h:1", 1))
    peer.hello()
    assert peer.poll(299) == b""
    with pytest.raises(RemoteProtocolError, match="received nothing for 300 ms"):
        peer.poll(300)


def test_link_that_is_sent_away_was_never_dialled() -> None:
    """The broker receives one event, which reports that the dial failed."""
    intake = Intake()
    peer = Peer(1, intake, LimitsConfig(), WELCOME, TOKENS, 0, dial=Dial("QM2", "h:1", 1))
    far = Connection(Side.LISTENER)
    far.receive(peer.hello(), 0)
    peer.receive(far.send(m.Goaway(ErrorCode.SHUTTING_DOWN, "later")), 0)
    assert peer.goaway is not None
    peer.closed("gone")
    assert len(list(intake.take(9, 999))) == 1


def test_link_learns_that_a_standby_refused_it() -> None:
    intake, dial = Intake(), Dial("QM2", "h:1", 1)
    peer = Peer(1, intake, LimitsConfig(), WELCOME, TOKENS, 0, dial=dial)
    far = Connection(Side.LISTENER)
    far.receive(peer.hello(), 0)
    goaway = m.Goaway(ErrorCode.NOT_ACTIVE, "QM2 is active at h:2", 500)
    peer.receive(far.send(goaway), 0)
    peer.closed("the peer left")

    ((_, arrival),) = intake.take(9, 999)
    assert arrival.event is not None
    broker = Mock()
    arrival.event(broker)
    broker.dial_failed.assert_called_once_with(dial, "h:1: the peer left", goaway)


def test_nothing_is_encoded_for_a_connection_that_is_closing() -> None:
    pair = Pair()
    pair.say(HELLO)
    assert pair.peer.encode(m.Ok(1)) != b""
    assert pair.peer.encode(m.Goaway(0)) != b""
    assert pair.peer.encode(m.Ok(2)) == b""


def test_goodbye_has_the_code_and_a_text_that_fits() -> None:
    assert goodbye(FrameTooLarge(9, 8)) == m.Goaway(
        100, "frame of 9 bytes exceeds the limit of 8 bytes"
    )
    assert len(goodbye(RemoteProtocolError("x" * 9_999)).text) == 1_000


def test_closed_connection_leaves_no_trace_in_the_intake() -> None:
    pair = Pair()
    pair.say(HELLO)
    pair.say(m.Put(1, 1, 0, "Q", [record(b"x")]))
    pair.peer.closed("gone")
    pair.waiting()
    assert pair.intake._pending == {}


def test_queue_managers_of_the_shipped_examples_can_be_linked() -> None:
    """A peer that dials for a link receives no messages, so its frames may be small."""
    examples = Path(__file__).parents[3] / "config" / "examples"
    configs = [
        load(path) for path in sorted(examples.glob("*.toml")) if path.name != "definitions.toml"
    ]
    assert len(configs) >= 2
    for far in configs:
        for near in configs:
            peer = Peer(1, Intake(), near.limits, m.Welcome(1, "A", b"A" * 16, 1), TOKENS, 0)
            hello = m.Hello(
                m.MAGIC,
                1,
                1,
                "queue-manager",
                "B",
                [],
                b"B" * 16,
                1,
                "",
                far.limits.frame_max_bytes,
            )
            peer.receive(Connection(Side.DIALLER).send(hello), 0)
            assert peer.goaway is None
            assert peer.is_open
