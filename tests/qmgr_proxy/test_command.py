"""Tests of the options of qmctl proxy. test_run.py tests the running command."""

import pytest

from tests.qmgr_tools.conftest import Qmctl


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["7480", "127.0.0.1:1"], "LISTEN is not a valid address"),
        (["127.0.0.1:0", "unix:/x"], "TARGET is not a valid address"),
        (
            ["127.0.0.1:0", "h:1", "--lose", "60", "--double", "60"],
            "cannot damage chunks as requested",
        ),
    ],
)
def test_wrong_use_is_reported(words: list[str], why: str, qmctl: Qmctl) -> None:
    ended = qmctl("proxy", *words)
    assert (ended.code, why in ended.err) == (2, True)
