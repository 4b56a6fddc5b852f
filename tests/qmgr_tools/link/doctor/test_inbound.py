"""Tests of the findings about an inbound stream."""

from typing import Any

import pytest

from qmgr_tools.link.doctor import inbound as link_inbound

ROW: dict[str, Any] = {
    "peer": "BOS",
    "stream": "0a",
    "commit_id": 7,
    "ahead": 0,
    "duplicates": 0,
    "in_line": 0,
    "blocked_id": None,
    "blocked_queue": None,
    "tries_left": None,
    "error": "",
}
AHEAD, LINE = ROW | {"ahead": 3}, ROW | {"in_line": 3}
BLOCKED = AHEAD | {"blocked_id": 8, "blocked_queue": "Q", "error": "QUEUE_UNKNOWN: no"}


@pytest.mark.parametrize(
    ("now", "before", "codes"),
    [
        (ROW, ROW, []),
        (AHEAD, None, []),
        (AHEAD, ROW, []),
        (AHEAD, AHEAD | {"commit_id": 6}, []),
        (AHEAD, AHEAD, ["inbound-gap"]),
        (LINE, LINE, ["inbound-gap"]),
        (BLOCKED, BLOCKED, ["inbound-blocked"]),
        (ROW | {"duplicates": 99}, None, []),
        (ROW | {"duplicates": 100}, None, ["inbound-duplicates"]),
        (ROW | {"duplicates": 100, "commit_id": 1000}, None, []),
        (ROW | {"dead_letters": 1, "dead_error": "ROUTE_LOOP: x"}, None, ["inbound-dead-letters"]),
    ],
)
def test_what_does_not_get_on_is_found(
    now: dict[str, Any], before: dict[str, Any] | None, codes: list[str]
) -> None:
    assert [one.code for one in link_inbound.found(now, before, 1000)] == codes


def test_messages_without_the_right_to_put_are_explained() -> None:
    row = ROW | {"dead_letters": 4_313, "dead_error": "SENDER_NOT_AUTHORIZED: no right; grant it"}
    (found,) = link_inbound.found(row, None, 0)
    assert found.what == (
        "4,313 messages from BOS became dead letters here since the daemon started; the last "
        "reason: SENDER_NOT_AUTHORIZED: no right; grant it"
    )
    assert [choice.command.split(" --")[0] for choice in found.choices] == [
        "qmctl dlq ls",
        "qmctl grant create put queue QUEUE",
        "qmctl dlq retry",
    ]


def test_gap_is_told_with_what_waits_behind_it() -> None:
    both = AHEAD | {"in_line": 2}
    (found,) = link_inbound.found(both, both, 1000)
    assert found.what == (
        "id 8 from BOS did not arrive within 1 s: 3 messages stored after it; 2 "
        "messages buffered after it because the link is --ordered"
    )
    assert found.remedy == "qmctl link doctor BOS --watch"


@pytest.mark.parametrize(
    ("code", "severity", "remedy"),
    [
        ("PEER_NOT_ALLOWED", "warning", "qmctl link allow EWR --store-id 0b"),
        ("PEER_STORE_CHANGED", "warning", "qmctl link allow EWR --store-id 0b"),
        ("LINK_DOWN", "note", ""),
    ],
)
def test_who_was_refused_is_told_with_what_allows_it(code: str, severity: str, remedy: str) -> None:
    row = {"peer": "EWR", "store_id": "0b", "code": code, "count": 3, "last_us": 5_000_000}
    finding = link_inbound.refused(row, 65_000_000)
    assert (finding.severity.word, finding.remedy) == (severity, remedy)
    told = "a queue manager named EWR was refused here 3 times, the last time 1 min ago"
    assert finding.what.startswith(told)


def test_peer_without_the_right_to_link_is_told_with_the_grant() -> None:
    why = "user ewr may not do this: the right to link on peer EWR is required"
    row = {"peer": "EWR", "code": "NOT_AUTHORIZED", "count": 1, "error": f"NOT_AUTHORIZED: {why}"}
    finding = link_inbound.refused(row, 65_000_000)
    assert finding.severity.word == "warning"
    assert finding.what.endswith(f": {why}")
    assert finding.remedy == "qmctl grant create --user ewr link peer EWR"
