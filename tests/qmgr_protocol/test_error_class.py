"""Tests that each error class has a number, a word and a sentence."""

from typing import Any

import pytest

from qmgr_protocol.error_class import ErrorClass
from qmgr_protocol.error_code import ErrorCode


@pytest.mark.parametrize(("number", "word"), [(1, "later"), (2, "never"), (3, "unknown")])
def test_number_alone_finds_the_class(number: int, word: str) -> None:
    assert ErrorClass(number).word == word
    assert ErrorClass(number).means.endswith(".")


def test_number_that_is_not_known_is_a_code_of_no_retry() -> None:
    code = ErrorCode(4_711)
    assert isinstance(code, ErrorCode)
    assert (code, code.value, code.name, repr(code)) == (
        4_711,
        4_711,
        "ERROR_4711",
        "<ErrorCode.ERROR_4711: 4711>",
    )
    assert (code.error_class, code.mq, code.means, code.remedy) == (ErrorClass.NEVER, "", "", "")
    assert hash(code) == hash(4_711)
    assert code == ErrorCode(4_711)


def test_numbers_that_are_not_known_are_not_kept() -> None:
    """A peer cannot make the table of codes grow."""
    before = dict(ErrorCode._value2member_map_)
    for number in range(5_000, 5_100):
        assert ErrorCode(number) == number
    assert before == ErrorCode._value2member_map_
    assert all(code < 5_000 for code in ErrorCode)


@pytest.mark.parametrize("value", ["QUEUE_FULL", None, 1.5, True])
def test_text_is_not_an_error_code(value: Any) -> None:
    with pytest.raises(ValueError, match="is not a valid ErrorCode"):
        ErrorCode(value)


def test_error_class_prints_as_its_name() -> None:
    assert [str(each) for each in ErrorClass] == ["RETRY_LATER", "NEVER", "UNKNOWN_OUTCOME"]
    assert f"{ErrorClass.NEVER:d}" == "2"
