"""Tests of the findings about a message that one of the ends cannot store."""

from typing import Any

import pytest

from qmgr_tools.link.doctor import blocked as link_blocked
from qmgr_tools.link.doctor.finding import Severity

NOW_US = 1_795_265_697_000_000
ROW: dict[str, Any] = {
    "link": "LGA",
    "state": "blocked",
    "addresses": ["lga:7470"],
    "paths": [],
    "blocked_uid": f"BOS.{NOW_US - 180_000_000}",
    "blocked_queue": "BAGS",
    "blocked_behind": 4,
    "retry_ms": 9000,
    "ordered": False,
}


@pytest.mark.parametrize(
    ("code", "severity", "remedy"),
    [
        ("QUEUE_UNKNOWN", Severity.CRITICAL, "queue create BAGS"),
        ("QUEUE_FULL", Severity.WARNING, "queue alter BAGS --depth-max N"),
        ("QUEUE_BYTES_FULL", Severity.WARNING, "queue alter BAGS --bytes-max N"),
        ("PUT_INHIBITED", Severity.WARNING, "queue alter BAGS --no-put-inhibit"),
        ("TRANSFER_REFUSED", Severity.CRITICAL, "queue alter BAGS --transfer-in"),
        ("STORE_FULL", Severity.CRITICAL, "status"),
        ("MESSAGE_TOO_LARGE", Severity.CRITICAL, "queue show BAGS"),
        ("LINK_LINE_FULL", Severity.WARNING, "explain LINK_LINE_FULL"),
    ],
)
def test_block_is_told_with_what_mends_it_there(code: str, severity: Severity, remedy: str) -> None:
    row = ROW | {"error": f"{code}: LGA reports: it is so; fix it with: qmctl"}
    found = link_blocked.found(row, NOW_US)
    assert (found.code, found.severity) == ("blocked", severity)
    there = "" if remedy.startswith("explain") else "-c lga:7470 "
    assert found.remedy == f"qmctl {there}{remedy}"
    assert found.what == (
        f"LGA cannot store a message for BAGS: {code}: LGA reports: it is so; the message "
        f"is {ROW['blocked_uid']}, put 3 min ago; 4 messages after it; retries in 9 s"
    )
    assert found.choices[-1].command == "qmctl link start LGA"


@pytest.mark.parametrize(
    ("queue", "is_plain"), [("BAGS@SHOPC", False), (None, True), ("BAGS", True)]
)
def test_message_for_a_manager_unknown_there_may_go_on_or_be_given_up(
    queue: str | None, *, is_plain: bool
) -> None:
    error = "LINK_UNKNOWN: LGA reports: link SHOPC does not exist; create it with: qmctl"
    choices = link_blocked.found(ROW | {"error": error, "blocked_queue": queue}, NOW_US).choices
    there = "qmctl -c lga:7470 link"
    assert [choice.command for choice in choices] == (
        ["qmctl explain LINK_UNKNOWN", "qmctl link start LGA"]
        if is_plain
        else [
            f"{there} create SHOPC HOST:PORT --transit",
            f"{there} create SHOPC --passive --transit",
            f"{there} delete SHOPC --purge",
            "qmctl link start LGA",
        ]
    )
    if not is_plain:
        assert "wait there for SHOPC" in choices[2].effect
        assert "loses this" in choices[2].effect


@pytest.mark.parametrize(
    ("blocked_ms", "says"), [(None, ""), (999, ""), (7_200_000, "; blocked for 2 h")]
)
def test_block_that_lasts_says_how_long(blocked_ms: int | None, says: str) -> None:
    what = link_blocked.found(ROW | {"error": "odd", "blocked_ms": blocked_ms}, NOW_US).what
    assert f"4 messages after it{says}; retries in 9 s" in what


def test_message_that_is_gone_meanwhile_leaves_words_out() -> None:
    row = ROW | {"blocked_uid": None, "blocked_queue": None, "retry_ms": None, "error": "odd"}
    found = link_blocked.found(row | {"blocked_behind": None}, NOW_US)
    assert found.what == "LGA cannot store a message: odd; 0 messages after it"
    assert found.remedy == "qmctl link start LGA"


def test_no_remedy_names_a_queue_that_is_unknown() -> None:
    row = ROW | {"blocked_uid": None, "blocked_queue": None}
    found = link_blocked.found(row | {"error": "MESSAGE_TOO_LARGE: too long"}, NOW_US)
    assert [choice.command for choice in found.choices] == [
        "qmctl explain MESSAGE_TOO_LARGE",
        "qmctl link start LGA",
    ]


def test_meaning_of_the_error_says_where_it_is_meant() -> None:
    why = link_blocked.found(ROW | {"error": "QUEUE_UNKNOWN: x"}, NOW_US).why
    assert why.startswith(
        "At LGA: The queue does not exist. No message is lost: the message waits here"
    )
    assert link_blocked.found(ROW | {"error": "odd"}, NOW_US).why.startswith("No message is lost")


def test_ordered_link_stores_nothing_behind_it() -> None:
    assert "no later message is stored" in link_blocked.found(ROW | {"ordered": True}, NOW_US).why
    assert "already in flight are stored" in link_blocked.found(ROW, NOW_US).why


@pytest.mark.parametrize(
    ("left", "says"),
    [
        (None, "it is retried until"),
        (1, "1 try left before it moves"),
        (3, "3 tries left before it moves"),
    ],
)
def test_receiving_end_tells_it_too(left: int | None, says: str) -> None:
    row = {
        "peer": "BOS",
        "blocked_id": 8,
        "blocked_queue": "BAGS",
        "tries_left": left,
        "error": "QUEUE_FULL: it is; get",
    }
    found = link_blocked.inbound(row)
    assert found is not None
    assert found.what.startswith("message 8 from BOS for BAGS cannot be stored here: QUEUE_FULL:")
    assert says in found.what
    assert (found.code, found.remedy) == ("inbound-blocked", "qmctl queue alter BAGS --depth-max N")
    assert link_blocked.inbound(row | {"blocked_id": None}) is None
