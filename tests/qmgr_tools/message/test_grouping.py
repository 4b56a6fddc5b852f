"""Tests of the group options of put, get and browse, against a real daemon."""

import pytest

from qmgr_client.message import Outgoing
from qmgr_protocol.record import GROUP_NUMBER_MAX
from qmgr_tools.cli.failure import Failure
from qmgr_tools.message import grouping
from tests.qmgr_tools.conftest import Qmctl

TAIL = b"N12345".ljust(24, b"\0")


def test_place_of_a_put_needs_a_group() -> None:
    assert grouping.of_put(b"", None, last=False) is None
    assert grouping.of_put(TAIL, None, last=False) == (TAIL, 1, False)
    assert grouping.of_put(TAIL, 7, last=True) == (TAIL, 7, True)
    for number, last in ((7, False), (None, True)):
        with pytest.raises(Failure, match="no group is given"):
            grouping.of_put(b"", number, last=last)


def test_number_needs_a_group() -> None:
    grouping.checked({"group_id": TAIL}, 4)
    grouping.checked({}, None)
    with pytest.raises(Failure, match="no group is given"):
        grouping.checked({"where": "size > 1"}, 4)


def test_lines_are_numbered_over_batches_and_the_last_ends_the_group() -> None:
    lines = [Outgoing(body, group=(TAIL, 5, True)) for body in (b"a", b"b")]
    first = grouping.numbered(lines, 0, is_end=False)
    second = grouping.numbered(lines[:1], 2, is_end=True)
    assert [one.group for one in first + second] == [
        (TAIL, 5, False),
        (TAIL, 6, False),
        (TAIL, 7, True),
    ]
    assert [one.body for one in first] == [b"a", b"b"]
    assert grouping.numbered([Outgoing(b"x")], 3, is_end=True) == [Outgoing(b"x")]
    assert grouping.numbered([], 0, is_end=True) == []


@pytest.mark.process
def test_place_in_a_group_is_put_and_shown(qm: Qmctl, queue: str) -> None:
    words = ("--group", "N12345", "--number", "2", "--last")
    assert qm("put", queue, "landed", *words).code == 0
    row = qm("browse", queue, "-o", "json").json[0]
    assert (row["group"], row["number"], row["last"]) == ("N12345", 2, True)
    head, line = qm("browse", queue).out.splitlines()
    cells = dict(zip(head.split("\t"), line.split("\t"), strict=True))
    assert (cells["GROUP"], cells["NUMBER"], cells["LAST"]) == ("N12345", "2", "yes")
    for name in ("N12345", TAIL.hex()):
        assert qm("browse", queue, "--group", name, "-o", "json").json == [row]
    out = qm("get", queue, "--group", "N12345").out
    assert "group\tN12345\nnumber\t2\nlast\tyes\n" in out


@pytest.mark.process
def test_columns_of_groups_stand_only_where_there_are_any(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "x")
    assert "GROUP" not in qm("browse", queue).out
    row = qm("browse", queue, "-o", "json").json[0]
    assert (row["group"], row["number"], row["last"]) == (None, None, None)


@pytest.mark.process
@pytest.mark.parametrize("lines", [3, 2_001])
def test_lines_become_a_group_in_their_order(lines: int, qm: Qmctl, queue: str) -> None:
    text = b"".join(b"%d\n" % number for number in range(lines))
    ended = qm("put", queue, "--lines", "--group", "N1", "--number", "7", "--last", stdin=text)
    assert (ended.code, ended.err) == (0, "")
    rows = qm("get", queue, "--all", "-o", "json").lines
    assert [row["body"] for row in rows] == [str(number) for number in range(lines)]
    assert [row["number"] for row in rows] == list(range(7, 7 + lines))
    assert [row["number"] for row in rows if row["last"]] == [6 + lines]


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["put", "Q", "x", "--number", "1"], "--number needs a group"),
        (["put", "Q", "x", "--last"], "--last needs a group"),
        (["put", "Q", "x", "--group", "y" * 25], ": a text of 25 bytes"),
        (["put", "Q", "x", "--group", "00" * 24], "24 zero bytes"),
        (["put", "Q", "x", "--group", "G", "--number", str(GROUP_NUMBER_MAX + 1)], "--number"),
        (["get", "Q", "--number", "1"], "--number needs a group"),
        (["get", "Q", "--order", "pinned"], "--order"),
        (["browse", "Q", "--group", "y" * 25], "invalid group id --group"),
    ],
)
def test_group_that_cannot_be_is_wrong_usage(words: list[str], why: str, qm: Qmctl) -> None:
    ended = qm(*words)
    assert (ended.code, ended.out) == (2, "")
    assert why in ended.err


@pytest.mark.process
def test_logical_order_is_by_number_whatever_came_first(qm: Qmctl, queue: str) -> None:
    for body, number, words in (("b", 2, ["--last"]), ("x", 0, []), ("a", 1, ["--priority", "1"])):
        place = ["--group", "N1", "--number", str(number)] if number else []
        assert qm("put", queue, body, *place, *words).code == 0
    browsed = qm("browse", queue, "--order", "logical", "-o", "json").json
    assert sorted(row["body"] for row in browsed) == ["a", "b", "x"]
    assert [row["body"] for row in browsed if row["group"]] == ["a", "b"]
    whole = ("--order", "logical", "--all-available", "--all", "--body-only")
    assert qm("get", queue, *whole).out == "".join(f"{row['body']}\n" for row in browsed)


@pytest.mark.process
def test_incomplete_group_is_not_begun_where_all_of_it_is_wanted(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "a", "--group", "N1")
    words = ("--order", "logical", "--all-available", "--body-only")
    assert qm("get", queue, *words).code == 7
    qm("put", queue, "b", "--group", "N1", "--number", "2", "--last")
    assert qm("get", queue, *words, "--all").out == "a\nb\n"


@pytest.mark.process
def test_one_message_of_a_group_is_got_by_its_number(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "--lines", "--group", "N1", stdin=b"a\nb\nc\n")
    assert qm("get", queue, "--group", "N1", "--number", "2", "--body-only").out == "b"
    assert qm("get", queue, "--group", "N1", "--number", "2").code == 7


@pytest.mark.process
def test_group_is_read_on_from_a_number(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "--lines", "--group", "N1", stdin=b"a\nb\nc\nd\n")
    words = ("--group", "N1", "--number", "2", "--order", "logical", "--count", "2", "--body-only")
    assert qm("get", queue, *words).out == "b\nc\n"


@pytest.mark.process
def test_selection_is_of_the_message_that_a_group_begins_with(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "--lines", "--group", "N1", "--last", stdin=b"a\nb\n")
    qm("put", queue, "first", "--group", "N2", "--header", "kind=arrival")
    qm("put", queue, "second", "--group", "N2", "--number", "2", "--last")
    words = ("--order", "logical", "--where", "kind = 'arrival'", "--all", "--body-only")
    assert qm("get", queue, *words).out == "first\nsecond\n"


@pytest.mark.process
def test_group_that_is_given_back_is_there_as_it_was(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "--lines", "--group", "N1", "--last", stdin=b"a\nb\nc\n")
    words = ("--order", "logical", "--all", "--body-only")
    ended = qm("get", queue, *words, "--release")
    assert (ended.code, ended.out, ended.err) == (0, "a\nb\nc\n", "")
    assert qm("get", queue, *words).out == "a\nb\nc\n"
