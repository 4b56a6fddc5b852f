"""Errors of the client."""

from qmgr_client.errors import (
    AddressInvalid,
    ConnectFailed,
    ConnectionEnded,
    MessageDamaged,
    RequestTimeout,
    UnknownOutcome,
)
from qmgr_client.message import decode
from qmgr_protocol.errors import ErrorClass, ErrorCode, RequestError
from tests.qmgr_client.scripted import delivery


def test_connect_failed_says_what_where_and_what_to_try() -> None:
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


def test_what_was_sent_before_the_end_has_an_unknown_outcome() -> None:
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
