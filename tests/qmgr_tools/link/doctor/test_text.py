"""Tests of the output for people, about links with and without findings."""

from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import pytest

from qmgr_tools.link.doctor import text as link_doctor_text
from tests.qmgr_tools.cli.test_output import Terminal
from tests.qmgr_tools.link.doctor.test_diagnosis import found
from tests.qmgr_tools.link.doctor.test_down import ROW as DOWN
from tests.qmgr_tools.link.doctor.test_inbound import AHEAD
from tests.qmgr_tools.link.doctor.test_inbound import ROW as INBOUND
from tests.qmgr_tools.link.doctor.test_running import path
from tests.qmgr_tools.link.doctor.test_running import row as up

WELL = up(path(), path(1), connections=2, connections_up=2)
BUSY = WELL | {"waiting": 3000, "waiting_bytes": 3_072_000, "commit_id": 1100, "next_id": 4101}
REFUSED = DOWN | {"link": "LGA", "state": "refused", "error": "PEER_WRONG: it is X; alter"}


@pytest.fixture
def on_screen(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Returns the output of link doctor on a terminal of 100 columns without colours."""
    for key, value in {"COLUMNS": "100", "TERM": "xterm", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(key, value)

    def shown(told: dict[str, Any], named: str | None = None) -> str:
        screen = Terminal()
        with redirect_stdout(screen):
            link_doctor_text.show(told, named)
        return "\n".join([*screen.lines, ""])

    return shown


Screen = Callable[..., str]
Shown = pytest.CaptureFixture[str]


def test_link_that_is_well_has_one_line(on_screen: Screen) -> None:
    before = WELL | {"next_id": 4101}
    shown = on_screen(found([BUSY, up(link="EWR")], [], [before, up(link="EWR")]))
    assert shown.splitlines() == [
        "NYC  ok        up over 2 of 2 paths, 3,000 messages (2.9 MiB) pending, 1,000",
        "               messages/s, 1000 KiB/s, drained in 3 s",
        "EWR  ok        up, no messages pending",
    ]


def test_link_that_is_not_tells_what_to_type(on_screen: Screen) -> None:
    shown = on_screen(found([up(link="EWR"), DOWN, REFUSED], []))
    assert (
        "EWR  ok        up, no messages pending\n\nNYC  critical  waiting, 3 messages (2 KiB)"
    ) in shown
    assert "\n  down: down for 1 min 30 s; " in shown
    assert "\n    try: qmctl -c nyc:1 status\n" in shown
    assert "  for causes and other remedies: qmctl link explain NYC\n" in shown
    assert "explain LGA" not in shown  # Only one remedy exists.
    assert max(map(len, shown.splitlines())) <= 100


def test_what_cannot_be_typed_here_is_told_in_words(on_screen: Screen) -> None:
    shown = on_screen(found([DOWN | {"addresses": [], "error": "the peer left: so"}], []))
    assert "NYC lost its connection: the peer left: so; " in shown
    assert ("try: check the other end: run qmctl link doctor at NYC\n") in shown


def test_link_that_is_named_has_its_paths_and_what_leads_here(on_screen: Screen) -> None:
    lame = up(path(), path(1, state="waiting", error="gone", stalls=2), waiting=1, in_flight=1)
    lame |= {"connections": 2, "connections_up": 1, "held": 4, "oldest_ms": 700, "resent": 9}
    peer = AHEAD | {"peer": "NYC", "in_line": 2, "duplicates": 5}
    shown = on_screen(found([lame], [peer], None, "NYC"), "NYC")
    assert (
        "confirmed up to id 100; 4 messages above a gap; 1 message in flight, the "
        "oldest sent 700 ms ago;" in " ".join(shown.split())
    )
    head, first, second = (line for line in shown.splitlines() if "nyc:1" in line or "PATH" in line)
    assert head.split()[:5] == ["PATH", "STATE", "ADDRESS", "IN", "FLIGHT"]
    assert (first.split()[:2], second.split()[-2:]) == (["0", "up"], ["2", "gone"])
    assert (
        "from NYC: all up to id 7 have arrived; 3 messages above a gap; 2 messages "
        "buffered after it; 5 messages arrived again" in " ".join(shown.split())
    )


def test_path_tells_whether_the_peer_sends_over_it(capsys: Shown) -> None:
    link_doctor_text.show_paths([path(fetches="yes"), path(1, fetches="LINK_DOWN: so")])
    _, header, *rows = capsys.readouterr().out.splitlines()
    assert header.split("\t")[-1] == "FETCHES"
    assert [row.split("\t")[-1] for row in rows] == ["yes", "LINK_DOWN: so"]


def test_no_link_is_told(on_screen: Screen) -> None:
    assert on_screen(found([], [])) == "there are no outbound or inbound links\n"


def test_finding_is_a_row_where_no_terminal_is(capsys: Shown) -> None:
    link_doctor_text.show(found([up(), DOWN | {"link": "EWR"}], [INBOUND]))
    header, well, down, inbound = capsys.readouterr().out.splitlines()
    assert header == "LINK\tVERDICT\tSTATE\tWAITING\tFINDING\tSEVERITY\tWHAT\tREMEDY"
    assert well == "NYC\tok\tup\t0\t\t\t\t"
    assert down.startswith("EWR\tcritical\twaiting\t3\tdown\tcritical\tdown for 1 min 30 s; ")
    assert down.endswith("\tqmctl -c nyc:1 status")
    assert inbound == "BOS\tok\t\t\t\t\t\t"


def test_those_that_are_not_looked_at_are_counted(capsys: Shown) -> None:
    link_doctor_text.show(found([], [INBOUND]) | {"inbound_count": 3})
    assert capsys.readouterr().err == "2 more inbound links are not examined\n"


def test_explaining_tells_why_and_what_each_way_does(capsys: Shown) -> None:
    link_doctor_text.explain(found([DOWN], [INBOUND | {"peer": "NYC"}], None, "NYC"))
    assert capsys.readouterr().out.splitlines() == [
        "NYC  critical  waiting, 3 messages (2 KiB) pending",
        "",
        "down: down for 1 min 30 s; nyc:1: no route; 5 consecutive connection attempts "
        "failed; connects again in 4 s; it holds 3 messages, stored safely",
        "why: NYC does not answer at nyc:1, nyc:2. It does not run, cannot be reached, "
        "or has another address. The link retries automatically, at growing intervals, "
        "and continues where it stopped.",
        "remedies:",
        "  qmctl -c nyc:1 status",
        "    shows whether the peer can be reached; changes nothing",
        "  qmctl link start NYC",
        "    connects now; nothing is lost or duplicated",
        "  qmctl link alter NYC HOST:PORT",
        "    if the peer listens at another address: continues at the new address; nothing "
        "is lost or duplicated",
        "",
        "from NYC: all up to id 7 have arrived",
    ]


def test_explaining_tells_that_nothing_is_wrong(capsys: Shown) -> None:
    link_doctor_text.explain(found([WELL], []))
    assert capsys.readouterr().out.splitlines()[1] == "One measurement found no problem."


def test_one_that_only_leads_here_stands_so() -> None:
    entry: dict[str, Any] = found([], [INBOUND, INBOUND | {"commit_id": 0}])["links"][0]
    assert link_doctor_text.state_of(entry) == (
        "inbound only: all up to id 7 have arrived, no message has arrived"
    )
