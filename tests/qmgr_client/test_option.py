"""Tests of options that do not exist."""

import pytest

from qmgr_client import option
from qmgr_protocol.errors import ErrorCode


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["priorty"], "put has no option 'priorty'; did you mean priority?"),
        (["uid", "hue"], "put has no option 'hue'; the options are priority, uid"),
    ],
)
def test_unknown_option_is_named_with_a_suggestion(options: list[str], text: str) -> None:
    error = option.unknown_option_error(options, ["uid", "priority"], "put")
    assert (error.code, error.text) == (ErrorCode.VALUE_INVALID, text)
