from typing import Any

import pytest

from qmgr_client.message import Message
from qmgr_protocol.record import FLAG_NOT_PERSISTENT, Uid
from qmgr_tools.message.text import (
    COLUMNS,
    PREVIEW_CHARACTERS,
    as_object,
    as_row,
    columns_of,
    show,
    text_of,
)


def message(body: bytes, **changed: Any) -> Message:
    plain = Message(
        body=body,
        uid=Uid("app", 5),
        priority=4,
        correlation_id=b"",
        envelope={},
        queue="Q",
        delivered=0,
        failed=0,
        state=0,
        put_us=0,
        handle=b"",
        queue_id=1,
    )
    return plain._replace(**changed)


def test_text_is_text_and_the_rest_is_base64() -> None:
    assert as_object(message("ü".encode()))["body"] == "ü"
    binary = as_object(message(b"\xff"))
    assert (binary["body"], binary["body_base64"], binary["body_bytes"]) == (None, "/w==", 1)
    assert text_of(b"\xff") is None


def test_message_without_a_uid_has_null() -> None:
    found = as_object(message(b"", uid=None))
    assert (found["uid"], found["origin"], found["timestamp"]) == (None, None, None)


def test_whatever_headers_hold_becomes_json() -> None:
    headers = {"b": b"\xff", "n": 5, "l": [b"x", None], "d": {1: b"y"}, "f": 1.5}
    assert as_object(message(b"", envelope={"headers": headers}))["headers"] == {
        "b": "\\xff",
        "n": 5,
        "l": ["x", None],
        "d": {"1": "y"},
        "f": 1.5,
    }


def test_binary_correlation_id_is_escaped() -> None:
    assert as_object(message(b"", correlation_id=b"a\xff"))["correlation_id"] == "a\\xff"


def test_what_is_seldom_has_a_column_where_it_stands() -> None:
    rows = [as_row(message(b"")), as_row(message(b"", delay_ms=5_000))]
    usual = columns_of(rows, delayed=False)
    assert tuple(usual) == COLUMNS
    titles = [column.title for column in columns_of(rows, delayed=True)]
    assert titles[-3:] == ["DELAY", "SIZE", "BODY"]
    rows.append(as_row(message(b"", expiry_left_ms=61_000, flags=FLAG_NOT_PERSISTENT)))
    left, persistent = columns_of(rows, delayed=False)[-4:-2]
    assert [left.cell(row) for row in rows] == ["", "", "1 min 1 s"]
    assert [persistent.cell(row) for row in rows] == ["", "", "no"]


def test_object_has_each_key_of_what_is_seldom() -> None:
    found = as_object(message(b""))
    assert (found["expiry_left_ms"], found["delay_ms"], found["persistent"]) == (None, 0, True)


def test_damaged_message_says_so() -> None:
    damaged = message(b"raw", damage="its checksum is wrong")
    assert as_object(damaged)["damage"] == "its checksum is wrong"
    assert as_row(damaged)["preview"] == "(damaged: its checksum is wrong)"


@pytest.mark.parametrize(
    ("body", "preview"),
    [
        (b"short", "short"),
        (b"x" * PREVIEW_CHARACTERS, "x" * PREVIEW_CHARACTERS),
        (b"x" * (PREVIEW_CHARACTERS + 1), "x" * (PREVIEW_CHARACTERS - 1) + "…"),
        (b"\xff" * 2048, "(2 KiB binary)"),
    ],
)
def test_preview_is_short(body: bytes, preview: str) -> None:
    assert as_row(message(body))["preview"] == preview


def test_end_of_a_cut_body_is_counted(capsys: pytest.CaptureFixture[str]) -> None:
    cut = message(b"start", cut_bytes=4_999_995)
    assert as_object(cut)["body_bytes"] == 5_000_000
    show(cut)
    assert capsys.readouterr().out.endswith("start\n\n(the first 5 of 5,000,000 bytes)\n")
