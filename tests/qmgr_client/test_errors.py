"""Tests of the errors of the client."""

from collections.abc import Callable
from pathlib import Path

import pytest

from qmgr_client.blocking import Client, connect
from qmgr_client.errors import (
    AddressInvalid,
    ConnectFailed,
    ConnectionEnded,
    Duplicate,
    LeaseLost,
    MessageDamaged,
    NotAuthorized,
    QueueFull,
    QueueUnknown,
    RequestTimeout,
    UnknownOutcome,
)
from qmgr_client.message import decode
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from qmgr_protocol.record import Uid
from tests.qmgr_client.scripted import delivery
from tests.qmgr_client.served import Server


def test_connect_failed_has_a_reason_an_address_and_a_hint() -> None:
    error = ConnectFailed("127.0.0.1:1", "Connection refused", "is qmgrd running there?")
    assert str(error) == (
        "cannot connect to 127.0.0.1:1: Connection refused; is qmgrd running there?"
    )


def test_address_that_names_nothing_is_a_connection_that_failed() -> None:
    error = AddressInvalid("here", "it is not host:port")
    assert isinstance(error, ConnectFailed)
    assert isinstance(error, ValueError)
    assert (error.address, error.why) == ("here", "it is not host:port")
    assert str(error) == (
        "cannot connect to here: it is not host:port; write it as 127.0.0.1:7470 or "
        "unix:/run/qmgrd.sock"
    )


def test_unknown_outcome_keeps_its_code() -> None:
    error = UnknownOutcome(ErrorCode.PRODUCER_UNKNOWN, "gone")
    assert error.error_class is ErrorClass.UNKNOWN_OUTCOME
    assert str(error) == "PRODUCER_UNKNOWN: gone"


def test_request_without_a_reply_may_have_been_worked_on() -> None:
    error = RequestTimeout("ORDERS", 5_000)
    assert isinstance(error, TimeoutError)
    assert error.error_class is ErrorClass.UNKNOWN_OUTCOME
    assert "no reply to a request on ORDERS within 5,000 ms" in str(error)


def test_request_sent_before_the_end_has_an_unknown_outcome() -> None:
    error = ConnectionEnded(ErrorCode.PRODUCER_FENCED, "another took over")
    assert error.error_class is ErrorClass.NEVER
    assert error.once_sent().error_class is ErrorClass.UNKNOWN_OUTCOME
    assert error.once_sent().code == ErrorCode.PRODUCER_FENCED
    assert isinstance(error, RequestError)


def test_damaged_message_can_be_settled() -> None:
    message = decode(delivery()[:-1] + b"?", "Q", 3)
    error = MessageDamaged(message)
    assert error.message.handle == message.handle
    assert "checksum" in str(error)


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.QUEUE_UNKNOWN, QueueUnknown),
        (ErrorCode.QUEUE_FULL, QueueFull),
        (ErrorCode.QUEUE_BYTES_FULL, QueueFull),
        (ErrorCode.DUPLICATE_MESSAGE, Duplicate),
        (ErrorCode.LEASE_LOST, LeaseLost),
        (ErrorCode.NOT_AUTHORIZED, NotAuthorized),
        (ErrorCode.VALUE_INVALID, RequestError),
    ],
)
def test_error_is_of_the_class_for_its_code(code: ErrorCode, kind: type[RequestError]) -> None:
    for error in (RequestError(code, "why", 5), RequestError(int(code), "why", retry_after_ms=5)):
        assert type(error) is kind
        assert (error.code, error.text, error.retry_after_ms) == (code, "why", 5)
        assert error.code is code
        assert str(error) == f"{code.name}: why"


def test_class_that_is_asked_for_stays_whatever_its_code() -> None:
    assert type(UnknownOutcome(ErrorCode.QUEUE_FULL, "why")) is UnknownOutcome
    assert type(ConnectionEnded(ErrorCode.NOT_AUTHORIZED, "why")) is ConnectionEnded


def test_code_of_a_newer_queue_manager_has_a_name_and_is_not_worth_a_retry() -> None:
    error = RequestError(4_711, "the moon is full")
    assert type(error) is RequestError
    assert isinstance(error.code, ErrorCode)
    assert (error.code, error.code.name) == (4_711, "ERROR_4711")
    assert error.error_class is ErrorClass.NEVER
    assert str(error) == "ERROR_4711: the moon is full"


@pytest.mark.parametrize(
    ("kind", "fail"),
    [
        (QueueUnknown, lambda client: client.put("NONE", b"x")),
        (QueueFull, lambda client: [client.put("Q", b"x") for _ in range(2)]),
        (Duplicate, lambda client: [client.put("U", b"x", uid=Uid("A", 1)) for _ in range(2)]),
        (LeaseLost, lambda client: client.ack(next(client.browse("U")))),
    ],
)
def test_error_comes_from_a_daemon(
    tmp_path: Path, kind: type[RequestError], fail: Callable[[Client], object]
) -> None:
    with Server(tmp_path) as server, connect(server.address) as client:
        client.admin.queue_create("Q", depth_max=1)
        client.admin.queue_create("U")
        client.put("U", b"x")
        with pytest.raises(kind):
            fail(client)
