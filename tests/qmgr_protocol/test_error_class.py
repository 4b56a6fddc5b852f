"""What may be done next has a number, a word and a sentence."""

import pytest

from qmgr_protocol.error_class import ErrorClass


@pytest.mark.parametrize(("number", "word"), [(1, "later"), (2, "never"), (3, "unknown")])
def test_number_alone_finds_the_class(number: int, word: str) -> None:
    assert ErrorClass(number).word == word
    assert ErrorClass(number).means.endswith(".")
