"""Tests of qmctl browse against a real daemon."""

import json

import pytest

from tests.qmgr_tools.conftest import Qmctl

pytestmark = pytest.mark.process


def bodies(qm: Qmctl, queue: str, *words: str) -> list[str]:
    return [row["body"] for row in qm("browse", queue, *words, "-o", "json").json]


def test_messages_are_selected(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "red", "--header", "color=red", "--correlation-id", "c")
    qm("put", queue, "blue", "--header", "color=blue", "--uid", "me.7")
    assert bodies(qm, queue, "--where", "color = 'red'") == ["red"]
    assert bodies(qm, queue, "--correlation-id", "c") == ["red"]
    assert bodies(qm, queue, "--uid", "me.7") == ["blue"]
    assert bodies(qm, queue, "--group-id", "01" * 24) == []
    assert qm("browse", queue, "--uid", "me.7", "--where", "size = 1").code == 2


@pytest.mark.parametrize("words", [["x"], ["--lines"]])
def test_typed_headers_are_selected_as_numbers_and_truths(
    words: list[str], qm: Qmctl, queue: str
) -> None:
    headers = ["--header", "delay:=20", "--header", "late:=true", "--header", "text=20"]
    assert qm("put", queue, *words, *headers, stdin=b"x\n").code == 0
    assert bodies(qm, queue, "--where", "delay BETWEEN 15 AND 60 AND late") == ["x"]
    assert bodies(qm, queue, "--where", "text = 20") == []
    assert qm("browse", queue, "-o", "json").json[0]["headers"] == {
        "delay": 20,
        "late": True,
        "text": "20",
    }


def test_delayed_messages_are_apart(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "later", "--delay", "1h")
    qm("put", queue, "now")
    assert bodies(qm, queue) == ["now"]
    assert bodies(qm, queue, "--delayed") == ["later"]


def test_time_left_delay_and_persistence_are_shown(qm: Qmctl, queue: str) -> None:
    words = ("--expiry", "1h", "--delay", "30min", "--non-persistent")
    qm("put", queue, "x", *words)
    (row,) = qm("browse", queue, "--delayed", "-o", "json").json
    assert 3_500_000 < row["expiry_left_ms"] <= 3_600_000
    assert (row["delay_ms"], row["persistent"]) == (1_800_000, False)
    head, line = qm("browse", queue, "--delayed").out.splitlines()
    cells = dict(zip(head.split("\t"), line.split("\t"), strict=True))
    assert cells["LEFT"].startswith("59 min") or cells["LEFT"] == "1 h"
    assert (cells["DELAY"], cells["PERSISTENT"]) == ("30 min", "no")


def test_get_takes_what_it_selects(qm: Qmctl, queue: str) -> None:
    qm("put", queue, "--lines", stdin=b"a\nbb\n")
    assert qm("get", queue, "--where", "size = 2", "--body-only").out == "bb"
    assert qm("get", queue, "--where", "size = 2").code == 7
    assert bodies(qm, queue) == ["a"]


@pytest.mark.parametrize("form", ["table", "json"])
def test_list_that_is_cut_off_says_so(form: str, qm: Qmctl, queue: str, bad: str) -> None:
    qm("put", queue, "--lines", stdin=b"x\n" * 21)
    ended = qm("browse", queue, "-o", form)
    assert (ended.code, ended.out.count(queue if form == "json" else "1 B")) == (0, 20)
    told = json.loads if form == "json" else lambda line: {"note": line.rstrip("\n")}
    more = "only the first {} are shown; to show more: --limit"
    assert told(ended.err) == {"note": more.format(20)}
    assert qm("browse", queue, "--limit", "21", "-o", form).err == ""
    cut_off = qm("dlq", "ls", "--queue", bad, "--limit", "2", "-o", form)
    assert told(cut_off.err) == {"note": more.format(2)}
    assert qm("dlq", "ls", "--queue", bad, "--limit", "3", "-o", form).err == ""


def test_sequence_id_is_shown_of_what_waits_for_a_link(at: Qmctl) -> None:
    at("link", "create", "HUB", "127.0.0.1:1", "--stopped")
    at("queue", "create", "Q@HUB")
    at("put", "Q@HUB", "--lines", stdin=b"a\nb\n")
    assert [row["sequence_id"] for row in at("browse", "@HUB", "--json").json] == [1, 2]
    header, first, second = at("browse", "@HUB").out.splitlines()
    place = header.split("\t").index("ID")
    assert [line.split("\t")[place] for line in (first, second)] == ["1", "2"]
    at("queue", "create", "Q")
    at("put", "Q", "here")
    assert [row["sequence_id"] for row in at("browse", "Q", "--json").json] == [None]
    assert "\tID\t" not in at("browse", "Q").out


def test_priority_that_was_not_given_is_not_made_up(at: Qmctl) -> None:
    at("sub", "create", "flights/#", "ANY:all")
    at("pub", "/flights/JFK", "x")
    (row,) = at("browse", "SYSTEM.PUBLICATIONS", "--json").json
    assert row["priority"] == 4
