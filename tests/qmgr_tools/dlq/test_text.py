"""Tests of the text that shows dead letters with valid and invalid notes."""

import re

import pytest

from qmgr_client.message import Message
from qmgr_protocol.codec import pack
from qmgr_protocol.errors import ErrorCode
from qmgr_protocol.record import Uid
from qmgr_tools.dlq import text as dlq_text
from tests.qmgr_tools.conftest import OnTerminal, Qmctl

REJECTED = int(ErrorCode.MESSAGE_REJECTED)


def message(note: dict[str, object] | None) -> Message:
    return Message(
        b"body",
        Uid("QM1", 7),
        4,
        b"",
        {},
        "BAD",
        0,
        0,
        0,
        0,
        b"",
        1,
        note=b"" if note is None else pack(note),
    )


def test_row_and_object_have_what_the_note_says() -> None:
    note = {
        "code": REJECTED,
        "reason": "bad",
        "queue": "ORDERS",
        "manager": "QM1",
        "us": 1_000_000,
        "failed": 2,
        "delivered": 3,
        "left_ms": 5,
        "attempts": [[1, 0, "late", "text", "app"]],
    }
    row = dlq_text.as_row(message(note))
    assert (row["origin_queue"], row["code"], row["reason"]) == (
        "ORDERS",
        "MESSAGE_REJECTED",
        "bad",
    )
    assert (row["failed"], row["delivered"], row["retries"]) == (2, 3, 0)
    found = dlq_text.as_object(message(note))
    assert found["dead"]["time"] == "1970-01-01T00:00:01.000000Z"
    assert found["attempts"] == [
        {
            "time": "1970-01-01T00:00:00.000001Z",
            "code": "",
            "reason": "late",
            "text": "text",
            "client": "app",
        }
    ]
    assert dlq_text.JSON_KEYS.count("left_ms") == 1


@pytest.mark.parametrize("note", [None, {}, {"attempts": "x"}, {"code": "x"}])
def test_message_that_is_not_a_dead_letter_is_shown_as_such(
    note: dict[str, object] | None, capsys: pytest.CaptureFixture[str]
) -> None:
    found = dlq_text.as_object(message(note))
    assert (found["dead"], found["attempts"]) == (None, [])
    assert dlq_text.as_row(message(note))["uid"] == "QM1.7"
    dlq_text.show(message(note))
    assert capsys.readouterr().out.startswith(
        "this message is not a dead letter: a producer put it on this queue\n"
    )


@pytest.mark.process
def test_list_keeps_uids_whole_on_a_narrow_terminal(
    qm: Qmctl, bad: str, on_terminal: OnTerminal
) -> None:
    rows = qm("dlq", "ls", "--queue", bad, "-o", "json").json
    shown = on_terminal("dlq", "ls", "--queue", bad, COLUMNS="80").out
    assert [row["uid"] in shown for row in rows] == [True] * 3
    assert shown.count("MESSAGE_REJECTED") == 3
    assert max(map(len, re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines())) <= 80
