"""Tests of the diagnosis of all links from the rows of a daemon."""

from typing import Any

import pytest

from qmgr_tools.link.doctor.diagnosis import diagnosis
from tests.qmgr_tools.link.doctor.test_blocked import NOW_US
from tests.qmgr_tools.link.doctor.test_blocked import ROW as BLOCKED
from tests.qmgr_tools.link.doctor.test_down import ROW as DOWN
from tests.qmgr_tools.link.doctor.test_inbound import AHEAD
from tests.qmgr_tools.link.doctor.test_inbound import ROW as INBOUND
from tests.qmgr_tools.link.doctor.test_running import row as up

Row = dict[str, Any]


def found(
    links: list[Row], inbound: list[Row], before: list[Row] | None = None, named: str | None = None
) -> Row:
    then = None if before is None else {"links": before, "inbound": inbound}
    now = {"links": links, "inbound": inbound, "inbound_count": len(inbound)}
    return diagnosis(now, then, 1000, NOW_US, named)


@pytest.mark.parametrize(
    ("row", "codes", "verdict"),
    [
        (up(), [], "ok"),
        (DOWN, ["down"], "critical"),
        (DOWN | {"state": "dialling"}, ["down"], "critical"),
        (DOWN | {"state": "opening", "down_ms": 500}, ["down"], "warning"),
        (DOWN | {"state": "stopped"}, ["stopped"], "warning"),
        (DOWN | {"state": "stopped", "waiting": 0}, [], "ok"),
        (DOWN | {"state": "refused", "error": "RESTORED: x"}, ["refused-restored"], "critical"),
        (BLOCKED | {"error": "QUEUE_FULL: x"}, ["blocked"], "warning"),
    ],
)
def test_each_state_has_its_findings(row: Row, codes: list[str], verdict: str) -> None:
    all_of_them = found([row], [])
    (entry,) = all_of_them["links"]
    assert [one["code"] for one in entry["findings"]] == codes
    assert (entry["verdict"], all_of_them["verdict"]) == (verdict, verdict)


def test_worst_link_makes_the_verdict_of_all() -> None:
    told = found([up(), DOWN | {"link": "EWR", "down_ms": 0}], [])
    assert told["verdict"] == "warning"
    assert [entry["verdict"] for entry in told["links"]] == ["ok", "warning"]
    assert found([], [])["verdict"] == "ok"


def test_what_leads_here_stands_with_the_link_there_or_alone() -> None:
    from_nyc = INBOUND | {"peer": "NYC", "stream": "0b"}
    both = found([up()], [from_nyc, AHEAD], [up()])
    assert [entry["link"] for entry in both["links"]] == ["NYC", "BOS"]
    nyc, bos = both["links"]
    assert nyc["inbound"] == [from_nyc]
    assert (bos["state"], bos["progress"], bos["paths"]) == (None, None, [])
    assert [one["code"] for one in bos["findings"]] == ["inbound-gap"]
    assert both["looked_ms"] == 1000


def test_keys_are_the_same_for_any_link() -> None:
    entries = found([up(), DOWN | {"link": "EWR"}], [INBOUND])["links"]
    assert len({tuple(entry) for entry in entries}) == 1
    assert len({tuple(entry["progress"]) for entry in entries if entry["progress"]}) == 1


def test_worst_finding_comes_first() -> None:
    blocked = INBOUND | {"peer": "NYC", "blocked_id": 8, "error": "QUEUE_UNKNOWN: no"}
    (entry,) = found([up(error="GET_INHIBITED: so")], [blocked])["links"]
    assert [one["severity"] for one in entry["findings"]] == ["critical", "warning"]


def test_blocked_link_that_tries_again_just_now_is_blocked() -> None:
    before = BLOCKED | {"link": "NYC", "commit_id": 100, "error": "QUEUE_FULL: x"}
    (entry,) = found([up(waiting=2)], [], [before])["links"]
    assert [one["code"] for one in entry["findings"]] == ["blocked"]
    (goes_on,) = found([up(waiting=2)], [], [before | {"commit_id": 99}])["links"]
    assert goes_on["verdict"] == "ok"


def test_manager_that_is_named_stands_alone() -> None:
    assert [entry["link"] for entry in found([up()], [], None, "NYC")["links"]] == ["NYC"]
