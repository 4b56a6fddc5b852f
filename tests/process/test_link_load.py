"""Tests of links between real daemons over a faulty network, and with a broken receiver."""

import asyncio
from pathlib import Path

import pytest

from tests.process import broken
from tests.process.link_faults import KINDS
from tests.process.link_load import LinkLoad, is_settled, report


@pytest.mark.process
def test_links_lose_and_double_nothing_on_a_bad_network(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    load = LinkLoad(tmp_path, 1)
    asyncio.run(load.run(list(KINDS)))
    assert report(load, len(KINDS), 1, 0) == 0, load.faults()
    assert load.harm.done == dict.fromkeys(KINDS, 1)
    assert all(load.ledger.consumed for load in load.loads)
    assert all(guests.allowed and guests.refused and guests.changes for guests in load.guests)
    summary = capsys.readouterr().out
    assert "lost=0 doubled=0 unexpected=0 damaged=0 unsettled=0" in summary
    assert "let_in=0 shut_out=0" in summary


@pytest.mark.long
@pytest.mark.process
def test_receiver_that_loses_messages_behind_a_gap_is_found(tmp_path: Path) -> None:
    load = LinkLoad(tmp_path, 1, program=(broken.__file__, "gulp"), stall_max_s=2)
    asyncio.run(load.run(["stall", "cut", "stall"]))
    assert load.faults()["lost"]


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("bug", ["admit", "linger"])
def test_daemon_that_lets_in_who_has_no_right_is_found(tmp_path: Path, bug: str) -> None:
    load = LinkLoad(tmp_path, 1, program=(broken.__file__, bug), stall_max_s=2)
    asyncio.run(load.run(["cut"] * 4))
    assert load.faults()["let in"]


@pytest.mark.parametrize(
    "odd", [{"state": "blocked"}, {"connections_up": 3}, {"waiting": 1}, {"in_flight": 1}]
)
def test_link_in_a_wrong_state_is_not_settled(odd: dict[str, object]) -> None:
    row = {"state": "up", "connections": 4, "connections_up": 4, "waiting": 0, "in_flight": 0}
    assert is_settled(row)
    assert not is_settled(row | odd)
