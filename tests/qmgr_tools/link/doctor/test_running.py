"""Tests of the findings about a link that is up."""

from typing import Any

import pytest

from qmgr_tools.link.doctor import running as link_running
from qmgr_tools.link.doctor.measurement import Measurement

Row = dict[str, Any]


def path(index: int = 0, **more: Any) -> Row:
    return {
        "path": index,
        "state": "up",
        "address": "nyc:1",
        "in_flight": 0,
        "oldest_ms": None,
        "landed": 0,
        "rtt_ms": 2,
        "stalls": 0,
        "redial_ms": None,
        "error": "",
    } | more


def row(*paths: Row, **more: Any) -> Row:
    return {
        "link": "NYC",
        "state": "up",
        "addresses": ["nyc:1"],
        "error": "",
        "waiting": 0,
        "waiting_bytes": 0,
        "commit_id": 100,
        "held": 0,
        "next_id": 101,
        "oldest_ms": None,
        "transferred": 100,
        "resent": 0,
        "paths": list(paths or (path(),)),
    } | more


def codes(now: Row, before: Row | None = None) -> list[tuple[str, str]]:
    found = link_running.found(Measurement(now, before, 1000 if before else 0))
    assert all(one.what and one.why and one.remedy.startswith("qmctl ") for one in found)
    return [(one.code, one.severity.word) for one in found]


LATE = row(path(in_flight=3, oldest_ms=10_000), waiting=3, oldest_ms=10_000, in_flight=3)
GAP = row(waiting=9, held=4)
BUSY = row(waiting=50_000, commit_id=0, next_id=50_001)
CASES = {
    "well": (row(), None, []),
    "well and idle": (row(), row(), []),
    "inhibited": (row(error="GET_INHIBITED: so"), None, [("gets-inhibited", "warning")]),
    "stuck": (row(waiting=3), row(waiting=2), [("nothing-moves", "warning")]),
    "put just now": (row(waiting=3), row(), []),
    "just up": (row(waiting=3), row(waiting=3, state="opening"), []),
    "stuck for long": (LATE, LATE, [("nothing-moves", "critical"), ("path-late", "warning")]),
    "landed": (row(path(landed=5), waiting=3), row(waiting=3), []),
    "one look": (row(waiting=3), None, []),
    "a path is down": (
        row(path(), path(1, state="waiting", error="gone", redial_ms=500)),
        None,
        [("paths-down", "warning")],
    ),
    "late": (row(path(), path(1, in_flight=2, oldest_ms=5000)), None, [("path-late", "warning")]),
    "slow": (row(path(), path(1), path(2, rtt_ms=400)), None, [("path-slow", "warning")]),
    "fetches": (row(path(fetches="yes"), path(1, fetches="asked")), None, []),
    "not fetched": (row(path(fetches="LINK_UNKNOWN: none")), None, [("not-fetched", "warning")]),
    "a little slow": (row(path(), path(1, rtt_ms=90)), None, []),
    "all slow": (row(path(rtt_ms=400), path(1, rtt_ms=500)), None, []),
    "stalled once": (row(path(stalls=2)), row(path(stalls=2)), [("path-stalled", "note")]),
    "stalls": (row(path(stalls=2)), row(path(stalls=1)), [("path-stalled", "warning")]),
    "gap stays": (GAP, row(path(landed=9), waiting=9, held=3), [("gap", "warning")]),
    "gap moves": (GAP, row(waiting=9, held=3, commit_id=90), []),
    "sent again once": (row(resent=500), row(resent=500), [("resent", "note")]),
    "sent again": (row(resent=500), row(resent=300), [("resent", "warning")]),
    "a few sent again": (row(resent=99), row(), []),
    "grows": (
        row(waiting=50_000, commit_id=1000, next_id=52_001),
        BUSY,
        [("backlog-grows", "warning")],
    ),
    "shrinks": (row(waiting=49_000, commit_id=1000, next_id=50_001), BUSY, []),
}


@pytest.mark.parametrize(("now", "before", "expected"), CASES.values(), ids=CASES)
def test_faults_are_found(now: Row, before: Row | None, expected: list[tuple[str, str]]) -> None:
    assert codes(now, before) == expected


def said(now: Row, before: Row | None = None) -> str:
    return link_running.found(Measurement(now, before, 1000 if before else 0))[0].what


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("a path is down", "1 of 2 paths not up: path 1 is waiting (gone), reconnects in 500 ms"),
        ("late", "path 1: 2 messages in flight, the oldest for 5 s"),
        ("slow", "path 2 has a round trip of 400 ms, the others of 2 ms"),
        ("stalled once", "path 0 2 times since"),
        ("gap stays", "NYC holds 4 messages above a gap at id 101, which did not close within 1 s"),
        ("sent again", "500 messages sent again since the daemon started, and 100"),
        ("grows", "1,000 messages/s sent, 2,000 messages/s put"),
        ("stuck for long", "without progress for 1 s:"),
        ("inhibited", "gets are inhibited on @NYC, so the link is up but sends nothing"),
    ],
)
def test_finding_says_how_much_and_since_when(case: str, words: str) -> None:
    now, before, _ = CASES[case]
    assert words in said(now, before)


THERE = "qmctl -c nyc:1 link"


@pytest.mark.parametrize(
    ("why", "remedy", "says"),
    [
        (
            "LINK_UNKNOWN: link BOS does not exist; create it with: qmctl link create BOS "
            "HOST:PORT",
            f"{THERE} create BOS --passive",
            "creates that link:",
        ),
        ("LINK_UNKNOWN: none", f"{THERE} create NAME --passive", "NAME is this queue manager"),
        (("LINK_DOWN: link BOS of NYC is refused"), f"{THERE} doctor BOS", "shows its problems"),
        ("LINK_DOWN: link BOS of NYC is stopped", f"{THERE} start BOS", "starts it: the"),
        (
            "LINK_DOWN: link BOS of NYC has addresses, so it dials and its peer cannot fetch",
            f"{THERE} show BOS",
            "empty, delete it there and create",
        ),
        ("NOT_AUTHORIZED: no", f"{THERE} doctor NAME", "NAME is this queue manager"),
    ],
)
def test_remedy_of_what_is_not_fetched_is_by_its_reason(why: str, remedy: str, says: str) -> None:
    (finding,) = link_running.found(Measurement(row(path(fetches=why), path(1, fetches=why))))
    assert why in finding.what
    assert finding.remedy == remedy
    assert says in finding.choices[0].effect
    assert len({choice.command for choice in finding.choices}) == len(finding.choices)
