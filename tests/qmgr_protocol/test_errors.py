import pytest

from qmgr_protocol import errors
from qmgr_protocol.connection import LivenessExpired, VersionUnsupported
from qmgr_protocol.errors import (
    CommitOutOfRange,
    CreditExceeded,
    ErrorClass,
    ErrorCode,
    FieldInvalid,
    FrameMalformed,
    FrameTooLarge,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    StateViolation,
    WindowExceeded,
    class_of,
    name_of,
)

BROKEN: list[tuple[RemoteProtocolError, ErrorCode, str]] = [
    (
        FrameTooLarge(9, 8),
        ErrorCode.FRAME_TOO_LARGE,
        "frame of 9 bytes exceeds the limit of 8 bytes",
    ),
    (FrameMalformed("no array"), ErrorCode.FRAME_MALFORMED, "no array"),
    (FieldInvalid("Put", "queue", "is missing"), ErrorCode.FIELD_INVALID, "Put.queue: is missing"),
    (
        StateViolation("Put", "greeting"),
        ErrorCode.STATE_VIOLATION,
        "Put is not allowed in state greeting",
    ),
    (CreditExceeded("puts", 9, 8), ErrorCode.CREDIT_EXCEEDED, "9 puts outstanding; the limit is 8"),
    (WindowExceeded(9, 3, 4), ErrorCode.WINDOW_EXCEEDED, "id 9 exceeds commit id 3 + window 4"),
    (
        CommitOutOfRange(9, 8),
        ErrorCode.COMMIT_OUT_OF_RANGE,
        "commit id 9, but the next id to assign is 8",
    ),
    (
        VersionUnsupported(2, 3),
        ErrorCode.VERSION_UNSUPPORTED,
        "the peer offers versions 2 to 3; only 1 is supported here",
    ),
    (
        LivenessExpired(40_000, 30_000),
        ErrorCode.LIVENESS_EXPIRED,
        "received nothing for 40000 ms; the limit is 30000 ms",
    ),
]


@pytest.mark.parametrize(("error", "code", "text"), BROKEN, ids=lambda value: type(value).__name__)
def test_broken_protocol_says_fact_and_limit(
    error: RemoteProtocolError, code: ErrorCode, text: str
) -> None:
    assert (error.code, str(error)) == (code, text)


def test_each_kind_of_broken_protocol_has_a_code_of_its_own() -> None:
    codes = [error.code for error, _, _ in BROKEN]
    assert len(set(codes)) == len(codes)


def test_class_tells_what_to_do_next() -> None:
    assert class_of(ErrorCode.QUEUE_FULL) is ErrorClass.RETRY_LATER
    assert class_of(ErrorCode.QUEUE_UNKNOWN) is ErrorClass.NEVER
    assert class_of(ErrorCode.INTERNAL_ERROR) is ErrorClass.UNKNOWN_OUTCOME


def test_code_of_a_newer_peer_is_not_worth_a_retry_and_shows_its_number() -> None:
    assert class_of(9_999) is ErrorClass.NEVER
    assert name_of(9_999) == "ERROR_9999"


def test_code_has_its_name() -> None:
    assert name_of(303) == "QUEUE_FULL"


def test_request_error_carries_code_class_and_wait() -> None:
    error = RequestError(ErrorCode.QUEUE_FULL, "queue Q holds 3 messages, at most 3", 1_000)
    assert (error.code, error.error_class, error.retry_after_ms) == (303, 1, 1_000)
    assert str(error) == "QUEUE_FULL: queue Q holds 3 messages, at most 3"
    assert str(RequestError(ErrorCode.QUEUE_FULL, "")) == "QUEUE_FULL"


def test_text_that_quotes_a_peer_is_cut() -> None:
    error = RequestError(ErrorCode.VALUE_INVALID, "x" * 1_000_000)
    assert len(error.text) == errors.TEXT_MAX


def test_the_three_kinds_are_apart() -> None:
    kinds = (RemoteProtocolError, LocalProtocolError, RequestError)
    assert not any(issubclass(a, b) for a in kinds for b in kinds if a is not b)
