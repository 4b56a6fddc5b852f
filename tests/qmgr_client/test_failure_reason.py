"""Tests of the reason and text of an exception."""

import pytest

from qmgr_client.failure_reason import failure_reason
from qmgr_protocol.messages import REASON_MAX, REASON_TEXT_MAX


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("no such carrier"), ("ValueError", "no such carrier")),
        (KeyError("ann"), ("KeyError", "'ann'")),
        (RuntimeError(), ("RuntimeError", "")),
        (OSError("\udcff.txt"), ("OSError", "?.txt")),
    ],
)
def test_type_is_the_reason_and_its_text_the_text(
    error: Exception, reason: tuple[str, str]
) -> None:
    assert failure_reason(error) == reason


def test_both_are_cut_to_what_a_note_takes() -> None:
    reason, text = failure_reason(type("X" * 100, (Exception,), {})("é" * 2_000))
    assert (len(reason), len(text)) == (REASON_MAX, REASON_TEXT_MAX)
