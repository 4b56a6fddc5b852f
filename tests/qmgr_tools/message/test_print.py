"""Tests that a message that is not printed is not acknowledged. See also test_message.py."""

import pytest

from tests.qmgr_tools.conftest import OnTerminal, Qmctl

pytestmark = pytest.mark.process


def test_body_that_would_steer_a_terminal_is_not_printed(
    qm: Qmctl, on_terminal: OnTerminal, queue: str
) -> None:
    qm("put", queue, "\x1b[2J")
    ended = on_terminal("get", queue, "--body-only")
    assert (ended.code, "\x1b[2J" in ended.out) == (2, False)
    assert f"of {queue}" in ended.out
    assert qm("get", queue, "--body-only").out == "\x1b[2J"


def test_publication_tells_its_topic(qm: Qmctl, queue: str, topic: str) -> None:
    qm("pub", topic, "x")
    assert f"topic\t{topic}\n" in qm("get", f"{queue}:a").out
    (row,) = qm("browse", f"{queue}:b", "-o", "json").json
    assert (row["topic"], row["republished"]) == (topic, False)
    assert "TOPIC" in qm("browse", f"{queue}:b").out
