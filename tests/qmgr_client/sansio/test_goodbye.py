"""Tests of the ends of a connection: temporary ones, and those that end the client."""

import pytest

from qmgr_client.errors import ConnectionEnded
from qmgr_client.sansio.events import Disconnected
from qmgr_client.sansio.goodbye import broken_by, ended_by
from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode, RemoteProtocolError


@pytest.mark.parametrize(
    "code", [ErrorCode.SHUTTING_DOWN, ErrorCode.LOGINS_DELAYED, ErrorCode.INTERNAL_ERROR]
)
def test_client_connects_again_after_a_temporary_end(code: ErrorCode) -> None:
    text = "the queue manager ended the connection: wait"
    assert ended_by(m.Goaway(code, "wait", 250)) == Disconnected(code, text, 250)


@pytest.mark.parametrize(
    "code", [0, ErrorCode.LOGIN_FAILED, ErrorCode.LOGIN_REQUIRED, ErrorCode.SESSION_FENCED]
)
def test_client_ends_when_the_next_connection_would_end_as_well(code: int) -> None:
    ended = ended_by(m.Goaway(code, "go", 250))
    assert isinstance(ended, ConnectionEnded)
    assert ended.code == code
    assert ended.text.endswith("ended the connection: go")


@pytest.mark.parametrize(
    ("is_open", "text"),
    [
        (True, "the queue manager broke the protocol: no frame"),
        (False, "no queue manager answers: no frame"),
    ],
)
def test_client_ends_when_the_protocol_is_broken(is_open: bool, text: str) -> None:
    error = RemoteProtocolError("no frame")
    ended = broken_by(error, is_open=is_open)
    assert (ended.code, ended.text) == (error.code, text)
