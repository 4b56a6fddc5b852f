"""Tests that only a store's own tokens resume a session, and that tokens cannot be derived."""

from hypothesis import given
from hypothesis import strategies as st

from qmgrd.core.sessions.session_token import SESSION_ID_BYTES, TOKEN_BYTES, SessionTokens
from tests.qmgrd.core.harness import SECRET, Manager

TOKENS = SessionTokens(SECRET, b"salt")


def test_token_stands_for_its_session_over_restarts() -> None:
    token = TOKENS.new(7)
    assert len(token) == TOKEN_BYTES
    session_id = TOKENS.session_id(token)
    assert len(session_id) == SESSION_ID_BYTES
    assert SessionTokens(SECRET, b"another start").session_id(token) == session_id
    assert SessionTokens(SECRET[::-1], b"salt").session_id(token) == b""


def test_sessions_of_all_connections_and_starts_differ() -> None:
    starts = [SessionTokens(SECRET, bytes([start]) * 16) for start in range(10)]
    tokens = [start.new(connection) for start in starts for connection in range(1, 100)]
    assert len({TOKENS.session_id(token) for token in tokens}) == len(tokens)


@given(st.binary(max_size=64))
def test_forged_token_is_refused(token: bytes) -> None:
    assert TOKENS.session_id(token) == b""


@given(st.integers(0, TOKEN_BYTES * 8 - 1))
def test_token_is_worth_nothing_once_a_bit_differs(bit: int) -> None:
    token = int.from_bytes(TOKENS.new(1), "big") ^ 1 << bit
    assert TOKENS.session_id(token.to_bytes(TOKEN_BYTES, "big")) == b""


def test_two_tokens_do_not_make_a_third() -> None:
    one, two = TOKENS.new(1), TOKENS.new(2)
    half = SESSION_ID_BYTES
    for mixed in (one[:half] + two[half:], two[:half] + one[half:], one[half:], one + two):
        assert TOKENS.session_id(mixed) == b""


def test_queue_manager_knows_its_sessions_after_a_restart(manager: Manager) -> None:
    app = manager.connect()
    manager.crash()
    assert manager.connect(session=app.session).session == app.session
    assert manager.connect().session != app.session
