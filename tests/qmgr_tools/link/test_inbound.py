"""Tests of the tables of inbound links. test_link.py tests them with a daemon."""

import pytest

from qmgr_tools.link import inbound

ROW = {
    "peer": "EWR",
    "stream": "0123456789abcdef",
    "commit_id": 7,
    "ahead": 0,
    "duplicates": 2,
    "blocked_id": 8,
    "blocked_queue": "NONE",
    "tries_left": 3,
    "error": "QUEUE_UNKNOWN: no",
}


def test_refused_peer_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    inbound.show([ROW])
    header, row = capsys.readouterr().out.splitlines()
    assert header.split("\t")[4:7] == ["BLOCKED AT", "BLOCKED QUEUE", "TRIES LEFT"]
    assert row.split("\t") == [
        "EWR",
        "7",
        "0",
        "2",
        "8",
        "NONE",
        "3",
        "01234567…cdef",
        "QUEUE_UNKNOWN: no",
    ]


@pytest.mark.parametrize(
    ("count", "words"), [(0, ""), (1, ""), (3, "2 more inbound links are not shown\n")]
)
def test_omitted_rows_are_counted(
    capsys: pytest.CaptureFixture[str], count: int, words: str
) -> None:
    inbound.note_left_out({"inbound": [ROW], "inbound_count": count})
    assert capsys.readouterr().err == words


def test_line_stays_free_between_two_tables(capsys: pytest.CaptureFixture[str]) -> None:
    inbound.show([ROW], after=["a link"])
    assert capsys.readouterr().out.startswith("\nFROM\t")
    inbound.show([], after=["a link"])
    assert capsys.readouterr().out == ""


def test_last_error_of_a_refused_peer_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    refused = {"peer": "EWR", "store_id": "0b", "code": "NOT_AUTHORIZED", "count": 2, "last_us": 0}
    inbound.show_allowed({"refused": [refused | {"error": "NOT_AUTHORIZED: no right"}]})
    header, row = capsys.readouterr().out.splitlines()
    assert header.split("\t")[-1] == "ERROR"
    assert row.split("\t")[-1] == "NOT_AUTHORIZED: no right"
