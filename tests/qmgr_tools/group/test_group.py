"""Tests of qmctl group ls and show against a real daemon."""

import re

import pytest

from qmgr_client.blocking import connect
from qmgr_tools.group import row as group_row
from tests.qmgr_tools.conftest import Daemon, Ended, OnTerminal, Qmctl

pytestmark = pytest.mark.process
SPACED = "N3".ljust(24)


def put(qm: Qmctl, queue: str, group: str, number: int, *words: str) -> Ended:
    ended = qm("put", queue, f"{group}-{number}", "--group", group, "--number", str(number), *words)
    assert (ended.code, ended.err) == (0, "")
    return ended


@pytest.fixture
def flights(qm: Qmctl, queue: str) -> str:
    """A queue with three groups: N1 is complete, N2 lacks its second message, and one is open."""
    put(qm, queue, "N1", 1)
    put(qm, queue, "N1", 2, "--last")
    put(qm, queue, "N2", 1)
    put(qm, queue, "N2", 3)
    put(qm, queue, SPACED, 1, "--delay", "1h")
    return queue


def rows(qm: Qmctl, *words: str) -> dict[str, dict[str, object]]:
    return {row["group"]: row for row in qm("group", "ls", *words, "-o", "json").json}


def test_groups_are_listed_with_what_they_lack(qm: Qmctl, flights: str) -> None:
    found = rows(qm, flights)
    assert list(found) == ["N1", "N2", SPACED]
    keys = ("state", "count", "delayed", "leased", "next", "last", "missing", "holder")
    assert {name: tuple(row[key] for key in keys) for name, row in found.items()} == {
        "N1": ("complete", 2, 0, 0, 1, 2, 0, ""),
        "N2": ("gap", 2, 0, 0, 1, None, 1, ""),
        SPACED: ("open", 0, 1, 0, 1, None, 0, ""),
    }
    help_ = qm("group", "ls", "--help").out
    assert [key for key in (*found["N1"], *group_row.STATES) if key not in help_] == []


def test_list_is_a_table(qm: Qmctl, flights: str) -> None:
    head, *lines = qm("group", "ls", flights).out.splitlines()
    assert head.split("\t") == [
        "GROUP",
        "STATE",
        "COUNT",
        "DELAYED",
        "LEASED",
        "NEXT",
        "LAST",
        "MISSING",
        "AGE",
        "HOLDER",
    ]
    assert lines[1].split("\t")[:8] == ["N2", "gap", "2", "0", "0", "1", "", "1"]


def test_list_is_filtered(qm: Qmctl, flights: str) -> None:
    assert list(rows(qm, flights, "--incomplete")) == ["N2", SPACED]
    assert list(rows(qm, flights, "--state", "gap", "--state", "complete")) == ["N1", "N2"]
    assert list(rows(qm, flights, "--where", "group=N*", "--where", "missing>0")) == ["N2"]
    words = ("--columns", "group,next", "--sort", "-count", "--limit", "1")
    assert qm("group", "ls", flights, *words).out == "GROUP\tNEXT\nN1\t1\n"
    ended = qm("group", "ls", flights, "--state", "lost")
    assert (ended.code, "--state" in ended.err) == (2, True)


def test_group_is_shown_with_its_messages_and_gaps(qm: Qmctl, flights: str) -> None:
    for name in ("N2", b"N2".ljust(24, b"\0").hex()):
        found = qm("group", "show", flights, name, "-o", "json").json
        assert (found["group"], found["state"], found["gaps"]) == ("N2", "gap", [[2, 2]])
        assert [row["number"] for row in found["members"]] == [1, 3]
        assert [row["state"] for row in found["members"]] == ["ready", "ready"]
        assert found["next_number"] is None
    help_ = qm("group", "show", "--help").out
    own = ("waiting_for", "gaps", "members", "next_number")
    assert [key for key in (*own, *found["members"][0]) if key not in help_] == []
    out = qm("group", "show", flights, "N2").out
    assert "group\tN2\nstate\tgap\n" in out
    assert "missing numbers\t2\n" in out
    assert "NUMBER\t" in out
    assert qm("group", "show", flights, SPACED, "-o", "json").json["delayed"] == 1


def test_who_holds_a_group_is_shown(qm: Qmctl, flights: str, daemon: Daemon) -> None:
    with connect(daemon.unix, name="gate") as client, client.reader(flights) as reader:
        assert reader.get(group_id=b"N1".ljust(24, b"\0")) is not None
        found = qm("group", "show", flights, "N1", "-o", "json").json
        assert [row["state"] for row in found["members"]] == ["leased", "ready"]
        assert (found["leased"], found["holder"].endswith(" gate")) == (1, True)


def test_members_are_shown_from_a_number_on(qm: Qmctl, queue: str) -> None:
    text = b"x\n" * 1_001
    qm("put", queue, "--lines", "--group", "N1", stdin=text)
    ended = qm("group", "show", queue, "N1")
    assert ended.err == "for more messages: --from 1001\n"
    found = qm("group", "show", queue, "N1", "--from", "1001", "-o", "json").json
    assert [row["number"] for row in found["members"]] == [1_001]


def test_unknown_group_gets_a_suggestion_to_search(qm: Qmctl, flights: str) -> None:
    ended = qm("group", "show", flights, "n1")
    assert (ended.code, ended.out) == (3, "")
    assert "(GROUP_UNKNOWN)" in ended.err
    assert f"did you mean N1? see: qmctl group ls {flights}" in ended.err
    assert qm("group", "ls", "NOWHERE").code == 3


def test_tables_fit_a_terminal_of_80_columns(
    qm: Qmctl, queue: str, daemon: Daemon, on_terminal: OnTerminal
) -> None:
    """A group id of 48 digits wraps, but put times do not."""
    digits = "0f" * 24
    for number, words in ((1, []), (2, ["--expiry", "10min"]), (3, ["--last"])):
        put(qm, queue, digits, number, *words)
    with connect(daemon.unix, name="gate.host7.4711") as client, client.reader(queue) as reader:
        assert reader.get() is not None
        listed = lines_of(on_terminal("group", "ls", queue, COLUMNS="80"))
        shown = lines_of(on_terminal("group", "show", queue, digits, COLUMNS="80"))
    assert [line for line in listed + shown if len(line) > 80] == []
    assert listed[-1].strip().endswith(" gate.host7.4711")
    assert "".join(line.split()[0] for line in listed[1:-1]) == digits
    head = next(at for at, line in enumerate(shown) if line.startswith("NUMBER"))
    assert shown[head].split()[-1] == "AGE"
    assert shown[head + 2].strip() == "gate.host7.4711"
    assert [line.split()[0] for line in shown[head + 3 :]] == ["2", "3"]


def lines_of(ended: Ended) -> list[str]:
    """Returns the lines that a terminal without colours shows."""
    return re.sub(r"\x1b\[[0-9;]*m", "", ended.out).splitlines()


def test_number_that_is_taken_is_refused_by_name(qm: Qmctl, queue: str) -> None:
    put(qm, queue, "two words", 1, "--last")
    for number, code in (("1", "GROUP_NUMBER_TAKEN"), ("2", "GROUP_ENDED")):
        ended = qm("put", queue, "x", "--group", "two words", "--number", number)
        assert (ended.code, f"({code})" in ended.err) == (6, True)
        assert f"qmctl group show {queue} 'two words'" in ended.err
