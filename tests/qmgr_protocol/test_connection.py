from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_protocol import layout
from qmgr_protocol import messages as m
from qmgr_protocol.codec import pack
from qmgr_protocol.connection import JOINED_MAX_BYTES, Connection, LivenessExpired, refusal
from qmgr_protocol.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from qmgr_protocol.frame import LENGTH, encode
from qmgr_protocol.pieces import PIECE_BYTES
from qmgr_protocol.states import Side, State
from qmgr_protocol.transitions import QUEUE_MANAGER_ONLY, TRANSITIONS
from tests.qmgr_protocol.golden import MESSAGES as GOLDEN
from tests.qmgr_protocol.golden import STORE_ID
from tests.qmgr_protocol.strategies import MESSAGES, chunked, messages_of, mutated_arrays

ROLES = ("client", "queue-manager")
HELLO = {
    "client": m.Hello(m.MAGIC, 1, 1, "client", "app", piece_max_bytes=PIECE_BYTES),
    "queue-manager": m.Hello(
        m.MAGIC, 1, 1, "queue-manager", "QM2", [], STORE_ID, piece_max_bytes=PIECE_BYTES
    ),
}
WELCOME = m.Welcome(1, "QM1", STORE_ID, 1, piece_max_bytes=PIECE_BYTES)
USUAL = {type(message): message for message in GOLDEN.values()} | {m.Welcome: WELCOME}


def frame(message: Any) -> bytes:
    return encode(layout.to_array(message))


def at(side: Side, state: State, role: str = "client") -> Connection:
    """Returns one end of a connection in state *state*."""
    connection = Connection(side)
    steps: list[tuple[Side, Any]] = [
        (Side.DIALLER, HELLO[role]),
        (Side.LISTENER, m.AuthChallenge(b"s")),
        (Side.DIALLER, m.AuthAnswer(b"p")),
        (Side.LISTENER, WELCOME),
        (Side.LISTENER, m.Goaway(0)),
    ]
    for sender, message in steps[: list(State).index(state)]:
        if sender is side:
            connection.send(message)
        else:
            assert connection.receive(frame(message), 0) == [(message, len(frame(message)))]
    assert connection.state is state
    return connection


def everything() -> Iterator[Any]:
    for state in State:
        for side in Side:
            for role in ROLES if state is not State.IDLE else ROLES[:1]:
                for kind in layout.NUMBERS:
                    name = f"{state.value}-{side.value}-{role}-{kind.__name__}"
                    yield pytest.param(state, side, role, kind, id=name)


def after(state: State, sender: Side, role: str, kind: type[Any]) -> State | None:
    if (sender, kind) in QUEUE_MANAGER_ONLY and role != "queue-manager":
        return None
    return TRANSITIONS.get((state, sender, kind))


def usual(kind: type[Any], role: str) -> Any:
    return HELLO[role] if kind is m.Hello else USUAL[kind]


@pytest.mark.parametrize("role", ROLES)
def test_listener_reads_costly_frames_only_from_queue_managers(role: str) -> None:
    connection, is_client = at(Side.LISTENER, State.OPEN, role), role == "client"
    found = connection.receive(encode([250, 7, *[[1, []]] * 1_000]), 0)
    assert [type(message) for message, _ in found] == [m.OperationUnknown] * (not is_client)
    assert (connection.error is not None) == is_client


COSTLY = {
    "76 KB of empty arrays": [250, 7, *[[[]] * 19_000] * 4],
    "800 KB of maps": [250, 7, *[{str(key): 1 for key in range(9_000)}] * 15],
    "1 MB of numbers": [250, 7, *[[1_000] * 19_000] * 19],
}


@pytest.mark.parametrize("side", Side)
@pytest.mark.parametrize("array", COSTLY.values(), ids=COSTLY)
def test_costly_frame_of_a_queue_manager_is_refused_at_both_ends(
    side: Side, array: list[Any]
) -> None:
    connection = at(side, State.OPEN, "queue-manager")
    assert connection.receive(encode(array), 0) == []
    assert connection.error is not None
    assert str(connection.error).endswith("arrays and maps use more than 524288 bytes")


def test_longest_put_of_a_link_is_read() -> None:
    """The highest put window has 10,000 messages."""
    extra = {m.EXTRA_EXPIRY_MS: 70_000, m.EXTRA_DELAY_MS: 70_000, m.EXTRA_NOTE: b"n"}
    rows = [[index, extra] for index in range(m.EXTRAS_MAX)]
    put = m.Put(1, 1, 0, "Q", [b"record"] * 10_000, rows)
    ((found, _),) = at(Side.LISTENER, State.OPEN, "queue-manager").receive(frame(put), 0)
    assert found == put


@pytest.mark.parametrize(("state", "side", "role", "kind"), list(everything()))
def test_sending_moves_as_the_table_says_or_is_our_own_error(
    state: State, side: Side, role: str, kind: type[Any]
) -> None:
    connection, message = at(side, state, role), usual(kind, role)
    expected = after(state, side, role, kind)
    if expected is None:
        with pytest.raises(LocalProtocolError, match=f"may not send {kind.__name__} when"):
            connection.send(message)
        expected = state
    else:
        assert connection.send(message) == frame(message)
    assert connection.state is expected
    assert connection.error is None


@pytest.mark.parametrize(("state", "side", "role", "kind"), list(everything()))
def test_receiving_moves_as_the_table_says_or_is_the_peers_error(
    state: State, side: Side, role: str, kind: type[Any]
) -> None:
    connection, message = at(side, state, role), usual(kind, role)
    expected = after(state, connection.peer_side, role, kind)
    found = connection.receive(frame(message), 5)
    if expected is not None:
        assert found == [(message, len(frame(message)))]
        assert (connection.state, connection.error) == (expected, None)
        return
    assert found == []
    assert connection.state is state
    if state is State.CLOSED:
        assert connection.error is None
    else:
        assert connection.error is not None
        assert connection.error.code == ErrorCode.STATE_VIOLATION


def test_refusal_names_state_and_role() -> None:
    connection = at(Side.LISTENER, State.OPEN)
    connection.receive(frame(GOLDEN["LinkOpen"]), 0)
    assert str(connection.error) == "LinkOpen is not allowed in state open as role client"


def test_two_ends_agree_over_a_handshake() -> None:
    dialler, listener = Connection(Side.DIALLER), Connection(Side.LISTENER)
    listener.receive(dialler.send(HELLO["client"]), 0)
    dialler.receive(listener.send(WELCOME), 0)
    assert (dialler.state, listener.state) == (State.OPEN, State.OPEN)
    assert (dialler.hello, dialler.welcome) == (listener.hello, listener.welcome)


@pytest.mark.parametrize("state", [x for x in State if x is not State.CLOSED])
@pytest.mark.parametrize("side", Side)
def test_goaway_may_be_sent_to_whoever_broke_the_protocol(side: Side, state: State) -> None:
    connection = at(side, state)
    connection.receive(LENGTH.pack(2**32 - 1), 0)
    assert connection.error is not None
    if (state, side) != (State.IDLE, Side.DIALLER):  # A dialler must first send its hello.
        connection.send(m.Goaway(connection.error.code))
        assert connection.is_closed


def test_broken_connection_takes_nothing_more() -> None:
    connection = at(Side.LISTENER, State.OPEN)
    ping = frame(m.Ping(1))
    assert len(connection.receive(ping + frame(m.Ok(1)) + ping, 0)) == 1
    error = connection.error
    assert connection.receive(ping, 0) == []
    assert connection.error is error
    assert connection.buffered_bytes == 0


def test_error_does_not_keep_what_was_decoded() -> None:
    """A hostile client would fill the memory until the next garbage collection."""
    connection = Connection(Side.LISTENER)
    array = pack([250, 1, "a text that is not hello"])
    connection.receive(len(array).to_bytes(LENGTH.size, "big") + array, 0)
    error = connection.error
    assert error is not None
    assert (error.__traceback__, error.__cause__, error.__context__) == (None, None, None)


def test_goaway_ends_what_is_read() -> None:
    connection = at(Side.LISTENER, State.OPEN)
    data = frame(m.Ping(1)) + frame(m.Goaway(0)) + frame(m.Ping(2)) + b"\xff" * 9
    assert [message for message, _ in connection.receive(data, 0)] == [m.Ping(1), m.Goaway(0)]
    assert (connection.state, connection.error) == (State.CLOSED, None)


def test_what_was_under_way_when_we_left_is_no_error() -> None:
    connection = at(Side.LISTENER, State.OPEN)
    connection.send(m.Goaway(ErrorCode.SHUTTING_DOWN))
    assert connection.receive(frame(m.Ping(1)), 0) == []
    assert connection.error is None


def test_dialler_that_does_not_wait_for_the_welcome_breaks_the_protocol() -> None:
    listener = Connection(Side.LISTENER)
    found = listener.receive(frame(HELLO["client"]) + frame(m.Status(1)), 0)
    assert [message for message, _ in found] == [HELLO["client"]]
    assert listener.error is not None
    assert listener.error.code == ErrorCode.STATE_VIOLATION


def test_limits_of_frames_grow_with_the_handshake() -> None:
    listener = Connection(Side.LISTENER)
    listener.receive(LENGTH.pack(4_097), 0)
    assert listener.error is not None
    dialler = at(Side.DIALLER, State.GREETING)
    dialler.receive(LENGTH.pack(65_537), 0)
    assert dialler.error is not None
    for side in Side:
        open_ = at(side, State.OPEN)
        open_.receive(LENGTH.pack(8 * 1024 * 1024), 0)
        assert open_.error is None
        other = at(side, State.OPEN)
        other.receive(LENGTH.pack(8 * 1024 * 1024 + 1), 0)
        assert other.error is not None


def test_each_end_reads_frames_as_long_as_it_said() -> None:
    hello, welcome = HELLO["client"], WELCOME
    hello = hello._replace(frame_max_bytes=100_000)
    welcome = welcome._replace(frame_max_bytes=200_000)
    dialler, listener = Connection(Side.DIALLER), Connection(Side.LISTENER)
    listener.receive(dialler.send(hello), 0)
    dialler.receive(listener.send(welcome), 0)
    for connection, limit in ((dialler, 100_000), (listener, 200_000)):
        connection.receive(LENGTH.pack(limit), 0)
        assert connection.error is None


BAD_HELLOS = {
    "magic": HELLO["client"]._replace(magic="mqtt"),
    "version": HELLO["client"]._replace(version_min=2, version_max=9),
    "versions the wrong way round": HELLO["client"]._replace(version_min=9, version_max=1),
    "role": HELLO["client"]._replace(role="root"),
    "frame": HELLO["client"]._replace(frame_max_bytes=65_535),
    "piece": HELLO["client"]._replace(piece_max_bytes=67_999),
    "name": HELLO["queue-manager"]._replace(name="x" * 65),
    "client's name": HELLO["client"]._replace(name="x" * 256),
    "store": HELLO["queue-manager"]._replace(store_id=b"x"),
}
BAD_WELCOMES = {
    "version": WELCOME._replace(version=2),
    "frame": WELCOME._replace(frame_max_bytes=0),
    "piece": WELCOME._replace(piece_max_bytes=1),
    "name": WELCOME._replace(name="a/b"),
    "store": WELCOME._replace(store_id=b""),
}


@pytest.mark.parametrize("hello", BAD_HELLOS.values(), ids=BAD_HELLOS)
def test_hello_that_cannot_succeed_is_refused_at_both_ends(hello: m.Hello) -> None:
    listener = Connection(Side.LISTENER)
    assert listener.receive(frame(hello), 0) == []
    assert listener.error is not None
    assert listener.state is State.IDLE
    assert frame(m.Goaway(1)) == listener.send(m.Goaway(1))
    dialler = Connection(Side.DIALLER)
    with pytest.raises(LocalProtocolError):
        dialler.send(hello)
    assert dialler.state is State.IDLE


@pytest.mark.parametrize("side", Side)
def test_piece_is_refused_by_an_end_that_does_not_accept_pieces(side: Side) -> None:
    connection = Connection(side)
    if side is Side.DIALLER:
        connection.send(HELLO["client"]._replace(piece_max_bytes=0))
        connection.receive(frame(WELCOME), 0)
    else:
        connection.receive(frame(HELLO["client"]), 0)
        connection.send(WELCOME._replace(piece_max_bytes=0))
    assert connection.send(USUAL[m.Piece])  # The peer accepts pieces.
    assert connection.receive(frame(USUAL[m.Piece]), 0) == []
    assert connection.error is not None
    assert connection.error.code == ErrorCode.STATE_VIOLATION


def test_longest_name_of_a_client_is_taken_and_a_longer_one_told() -> None:
    hello = HELLO["client"]._replace(name="x" * 255)
    assert Connection(Side.LISTENER).receive(frame(hello), 0) == [(hello, len(frame(hello)))]
    listener = Connection(Side.LISTENER)
    listener.receive(frame(hello._replace(name="x" * 256)), 0)
    assert str(listener.error) == "Hello.name: 256 characters; the limit for a client is 255"


@pytest.mark.parametrize("welcome", BAD_WELCOMES.values(), ids=BAD_WELCOMES)
def test_welcome_that_cannot_succeed_is_refused_at_both_ends(welcome: m.Welcome) -> None:
    dialler = at(Side.DIALLER, State.GREETING)
    assert dialler.receive(frame(welcome), 0) == []
    assert dialler.error is not None
    listener = at(Side.LISTENER, State.GREETING)
    with pytest.raises(LocalProtocolError):
        listener.send(welcome)


def test_newer_dialler_that_speaks_our_version_too_is_welcome() -> None:
    listener = Connection(Side.LISTENER)
    hello = HELLO["client"]._replace(version_max=7, features=["topics", "streams"])
    assert [message for message, _ in listener.receive(frame(hello), 0)] == [hello]


def test_unknown_operation_is_handed_out_and_the_connection_stays() -> None:
    connection = at(Side.LISTENER, State.OPEN)
    ((unknown, size), (ping, _)) = connection.receive(encode([99, 41]) + frame(m.Ping(1)), 0)
    assert isinstance(unknown, m.OperationUnknown)
    assert (unknown.operation, unknown.request_id, size) == (99, 41, 7)
    assert ping == m.Ping(1)
    assert refusal(unknown) == m.Error(
        41, ErrorCode.OPERATION_UNKNOWN, 2, 0, "operation 99 is unknown in protocol version 1"
    )


@pytest.mark.parametrize("request_id", [0, 2**32, 2**63])
def test_unknown_operation_without_a_request_has_no_answer(request_id: int) -> None:
    assert refusal(m.OperationUnknown(99, request_id)) is None


def test_heartbeat_is_due_after_silence_and_not_twice_at_once() -> None:
    connection = at(Side.LISTENER, State.OPEN)
    connection.receive(b"", 1_000)
    assert connection.poll(1_099, 100, 300) == b""
    assert connection.poll(1_100, 100, 300) == frame(m.Ping(1_100))
    assert connection.poll(1_101, 100, 300) == b""
    assert connection.poll(1_200, 100, 300) == frame(m.Ping(1_200))


def test_any_byte_of_an_open_connection_is_a_sign_of_life() -> None:
    connection = at(Side.LISTENER, State.OPEN)
    connection.receive(frame(m.Ping(1))[:3], 1_000)
    assert connection.poll(1_099, 100, 300) == b""


def test_silence_ends_a_connection() -> None:
    connection = at(Side.LISTENER, State.OPEN)
    connection.receive(b"", 1_000)
    with pytest.raises(LivenessExpired, match="received nothing for 300 ms; the limit is 300 ms"):
        connection.poll(1_300, 100, 300)


def test_handshake_that_drips_in_is_no_sign_of_life() -> None:
    """Otherwise, a peer that slowly sends single bytes could occupy a connection for ever."""
    connection = Connection(Side.LISTENER, now_ms=1_000)
    hello = frame(HELLO["client"])
    for now_ms in range(1_000, 1_300, 30):
        connection.receive(hello[:1], now_ms)
        hello = hello[1:]
    with pytest.raises(LivenessExpired):
        connection.poll(1_300, 100, 300)


def test_no_heartbeat_before_the_connection_is_open() -> None:
    for state in (State.IDLE, State.GREETING, State.CLOSED):
        assert at(Side.LISTENER, state).poll(200, 100, 300) == b""


# -- any bytes, in any state, in any pieces

ENDS = st.tuples(st.sampled_from(Side), st.sampled_from(State), st.sampled_from(ROLES))
FRAMES = (
    MESSAGES.map(frame)
    | mutated_arrays().map(encode)
    | st.builds(lambda data: LENGTH.pack(len(data)) + data, st.binary(max_size=40))
    | st.binary(max_size=20)
    | messages_of(m.Ping).map(frame)
)
TALK = st.lists(FRAMES, max_size=6).map(b"".join)


@given(ENDS, chunked(TALK))
def test_whatever_comes_is_read_or_the_peers_error(
    end: tuple[Side, State, str], case: tuple[bytes, list[bytes]]
) -> None:
    data, chunks = case
    whole, pieces = at(*end), at(*end)
    at_once = whole.receive(data, 1)
    bit_by_bit = [found for chunk in chunks for found in pieces.receive(chunk, 1)]
    assert [repr(found) for found in bit_by_bit] == [repr(found) for found in at_once]
    assert (whole.state, str(whole.error)) == (pieces.state, str(pieces.error))
    assert isinstance(whole.error, RemoteProtocolError | None)
    assert whole.buffered_bytes == pieces.buffered_bytes < 8 * 1024 * 1024 + 4
    assert sum(size for _, size in at_once) + whole.buffered_bytes <= len(data)


@given(ENDS, MESSAGES)
def test_whatever_is_sent_goes_out_or_is_our_own_error(
    end: tuple[Side, State, str], message: Any
) -> None:
    connection = at(*end)
    try:
        data = connection.send(message)
    except LocalProtocolError:
        return
    assert data == frame(message)


# -- consecutive puts


def put(first_id: int, *, stream: int = 1, seen: int = 0, queue: str = "Q", size: int = 1) -> m.Put:
    return m.Put(stream, first_id, seen, queue, [bytes(size)])


def joining(*messages: Any, records_max: int = 10) -> list[Any]:
    """Returns the messages that a listener receives if all *messages* arrive together."""
    connection = Connection(Side.LISTENER, joined_max=records_max)
    connection.receive(frame(HELLO["client"]), 0)
    connection.send(WELCOME)
    data = b"".join(map(frame, messages))
    found = connection.receive(data, 0)
    assert sum(size for _, size in found) == len(data)
    return [message for message, _ in found]


def test_puts_that_follow_each_other_become_one() -> None:
    assert joining(put(1), put(2), put(3)) == [m.Put(1, 1, 0, "Q", [b"\0"] * 3)]


@pytest.mark.parametrize(
    "second",
    [
        put(1),
        put(3),
        put(2, stream=2),
        put(2, seen=1),
        put(2, queue="P"),
        m.Put(1, 2, 0, "Q", []),
        m.Ping(2),
        m.Put(1, 2, 0, "Q", [b""] * 10),
    ],
    ids=["again", "gap", "stream", "seen", "queue", "empty", "other", "too many"],
)
def test_puts_stay_apart_where_they_differ(second: Any) -> None:
    assert joining(put(1), second) == [put(1), second]


def test_puts_stay_apart_behind_an_empty_one_and_across_a_request() -> None:
    empty = m.Put(1, 1, 0, "Q", [])
    assert joining(empty, put(1)) == [empty, put(1)]
    assert joining(put(1), m.Status(1), put(2)) == [put(1), m.Status(1), put(2)]


def test_puts_become_one_up_to_a_limit() -> None:
    found = joining(*(put(1 + i) for i in range(25)))
    assert [len(message.records) for message in found] == [10, 10, 5]
    found = joining(*(put(1 + i, size=JOINED_MAX_BYTES // 2 - 50) for i in range(3)))
    assert [len(message.records) for message in found] == [2, 1]
    assert joining(put(1), put(2), records_max=0) == [put(1), put(2)]


def test_puts_of_a_link_stay_apart() -> None:
    connection = Connection(Side.LISTENER, joined_max=10)
    connection.receive(frame(HELLO["queue-manager"]), 0)
    connection.send(WELCOME)
    found = connection.receive(frame(put(1)) + frame(put(2)), 0)
    assert [message for message, _ in found] == [put(1), put(2)]


@pytest.mark.parametrize("at_", [1, 2, 3, 5])
def test_put_that_is_wrong_is_told_though_it_follows_another(at_: int) -> None:
    connection = Connection(Side.LISTENER, joined_max=10)
    connection.receive(frame(HELLO["client"]), 0)
    connection.send(WELCOME)
    wrong: list[Any] = [*layout.to_array(put(2))]
    wrong[at_] = [1] if at_ == 5 else float(wrong[at_])
    found = connection.receive(frame(put(1)) + encode(wrong), 0)
    assert [message for message, _ in found] == [put(1)]
    assert isinstance(connection.error, RemoteProtocolError)
