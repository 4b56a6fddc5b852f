"""Tests of the notes of dead letters, and of reading damaged notes."""

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmgr_client.dead_letter import Attempt, DeadLetter, attempts, dead_letter
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode

NOTE: dict[str, Any] = {
    "code": 412,
    "reason": "BAD_CARRIER",
    "text": "carrier XX is not known",
    "queue": "FLIGHTS",
    "manager": "NYC",
    "us": 1_700_000_000_000_000,
    "failed": 2,
    "delivered": 3,
    "retries": 1,
    "left_ms": 59_000,
    "attempts": [[1_700_000_000_000_000, 412, "BAD_CARRIER", "why", "billing"]],
}
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(), inner, max_size=3),
)


def test_note_is_read() -> None:
    attempt = Attempt(1_700_000_000_000_000, ErrorCode(412), "BAD_CARRIER", "why", "billing")
    found = dead_letter(pack(NOTE))
    assert found == DeadLetter(
        ErrorCode.MESSAGE_REJECTED,
        "BAD_CARRIER",
        "carrier XX is not known",
        "FLIGHTS",
        "NYC",
        1_700_000_000_000_000,
        2,
        3,
        1,
        59_000,
        (attempt,),
    )
    assert found is not None
    assert found.code_name == "MESSAGE_REJECTED"
    assert found.time == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)


def test_missing_fields_read_as_empty_and_new_fields_are_ignored() -> None:
    found = dead_letter(pack({"code": 9_999, "hue": "red"}))
    assert found == DeadLetter(ErrorCode(9_999), "", "", "", "", 0, 0, 0, 0, None, ())
    assert found is not None
    assert found.code_name == "ERROR_9999"


@pytest.mark.parametrize(
    "note", [b"", b"\xc1", b"\x01", pack([1]), pack({}), pack({"code": "412"}), pack(NOTE) + b"x"]
)
def test_invalid_note_is_none(note: bytes) -> None:
    assert dead_letter(note) is None


def test_message_that_failed_is_no_dead_letter() -> None:
    note = pack({"attempts": [[1, 500], "rot", [2, True, "R", "t", "c", "of a newer one"]]})
    assert dead_letter(note) is None
    assert attempts(note) == (
        Attempt(1, ErrorCode(500), "", "", ""),
        Attempt(2, ErrorCode(0), "R", "t", "c"),
    )


@given(st.dictionaries(st.sampled_from(sorted(NOTE)), ANY))
def test_any_note_can_be_read(values: dict[str, Any]) -> None:
    found = dead_letter(pack({"code": 1} | values))
    if found is not None:
        assert all(type(number) is int for number in (found.us, found.failed, found.retries))
        assert found.us >= 0
        assert found.time.year <= 9_999
        assert found.left_ms is None or type(found.left_ms) is int


@given(st.binary(max_size=60))
def test_rot_is_no_note(note: bytes) -> None:
    found = dead_letter(note)
    assert found is None or type(found.code) is int
    assert type(attempts(note)) is tuple
