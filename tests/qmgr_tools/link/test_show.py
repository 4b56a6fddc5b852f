"""Tests of qmctl link ls and show against a daemon."""

import pytest

from tests.qmgr_tools.conftest import Qmctl
from tests.qmgr_tools.link.test_link import KEYS

pytestmark = pytest.mark.process


def test_list_and_show_are_tables(at: Qmctl) -> None:
    assert at("link", "create", "NYC", "127.0.0.1:1", "unix:/x", "--stopped").out == (
        "created link NYC; state: stopped\n"
    )
    header, row = at("link", "ls").out.splitlines()
    assert header.split("\t")[:4] == ["LINK", "STATE", "PATHS", "WAITING"]
    assert row.split("\t")[:4] == ["NYC", "stopped", "0/1", "0"]
    assert "127.0.0.1:1, unix:/x" in row
    assert "addresses\t127.0.0.1:1, unix:/x\n" in at("link", "show", "NYC").out


def test_list_takes_conditions_an_order_and_columns(at: Qmctl) -> None:
    for name in ("NYC", "EWR", "BOS"):
        at("link", "create", name, "127.0.0.1:1", "--stopped")
    at("queue", "create", "Q@EWR")
    at("put", "Q@EWR", "x")
    names = ("link", "ls", "--columns", "link,waiting")
    assert at(*names, "--sort", "-waiting", "--limit", "1").out == "LINK\tWAITING\nEWR\t1\n"
    assert at(*names, "--where", "state!=stopped").out == "LINK\tWAITING\n"
    few = at("link", "ls", "--where", "waiting=0", "--sort", "-link", "-o", "json").json
    assert [(link["direction"], link["link"]) for link in few] == [("out", "NYC"), ("out", "BOS")]
    wrong = at("link", "ls", "--where", "leased>0")
    assert (wrong.code, "column 'leased'" in wrong.err) == (2, True)


def test_what_is_defined_is_shown_and_may_be_listed(at: Qmctl) -> None:
    more = ("--ordered", "--fetch", "--route", "EWR", "--route", "*", "--transit", "--stopped")
    at("link", "create", "NYC", "127.0.0.1:1", *more)
    at("link", "create", "BOS", "127.0.0.1:1", "--stopped")
    shown = at("link", "show", "NYC").out
    assert "\nordered\tyes\nfetch\tyes\nroutes\tEWR, *\ntransit\tyes\n" in shown
    words = ("link", "ls", "--columns", "link,ordered,fetch,routes,transit")
    assert at(*words, "--where", "ordered=no").out.splitlines()[1:] == ["BOS\tno\tno\t\tno"]
    assert at(*words, "--where", "routes=*EWR*").out.splitlines()[1:] == [
        "NYC\tyes\tyes\tEWR, *\tyes"
    ]


def test_each_path_is_shown(at: Qmctl) -> None:
    at("link", "create", "NYC", "127.0.0.1:1", "--connections", "3", "--stopped")
    facts, _, table = at("link", "show", "NYC").out.partition("\n\n")
    assert "paths\t0/3\n" in facts
    header, *rows = (line.split("\t") for line in table.splitlines())
    assert header[:2] == ["PATH", "STATE"]
    assert [row[:2] for row in rows] == [["0", "waiting"], ["1", "waiting"], ["2", "waiting"]]


def test_json_keys_are_documented(qmctl: Qmctl) -> None:
    said = qmctl("link", "show", "--help").out
    assert [key for key in KEYS if key not in said] == []
