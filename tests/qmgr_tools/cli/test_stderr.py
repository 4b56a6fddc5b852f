"""Tests of JSON on stderr, and of the option --json."""

import json

import pytest

from qmgr_tools.cli import output, stderr
from qmgr_tools.cli.failure import Exit, Failure
from tests.qmgr_tools.conftest import Daemon, Qmctl

KEYS = ["code", "exit_code", "what", "why", "remedy"]


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("queue ls -o json", True),
        ("-o json queue ls", True),
        ("queue ls --output=json", True),
        ("queue ls -ojson", True),
        ("--json queue ls", True),
        ("queue ls", False),
        ("queue ls -o table", False),
        ("put Q json", False),
        ("put Q -- --json", False),
    ],
)
def test_command_line_says_whether_errors_are_json(words: str, wanted: bool) -> None:
    assert stderr.asks_for_json(words.split()) is wanted


def test_notes_are_lines_of_json_only_where_that_is_wanted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output.note("a\tnote")
    with stderr.in_json(wanted=True):
        output.note('"ann"\n')
    assert capsys.readouterr().err == 'a\\tnote\n{"note": "\\"ann\\"\\\\n"}\n'
    assert not stderr.is_json()


def test_error_has_all_keys_whatever_is_known() -> None:
    told = json.loads(stderr.error_line(Failure(Exit.FAILED, "cannot", "it broke")))["error"]
    assert told == {"code": None, "exit_code": 1, "what": "cannot", "why": "it broke", "remedy": ""}
    assert list(told) == KEYS


@pytest.mark.process
def test_errors_of_each_kind_have_one_shape(qm: Qmctl, daemon: Daemon) -> None:
    for words, code, exit_code in (
        (["get", "NOWHERE"], "QUEUE_UNKNOWN", 3),
        (["get"], None, 2),
        (["queue"], None, 2),
        (["queue", "frob"], None, 2),
        (["-c", "unix:/nowhere/qmgrd.sock", "status"], None, 5),
        (["browse", "Q", "--where", "= 1"], None, None),
    ):
        ended = qm("--json", *words)
        assert ended.out == ""
        error = json.loads(ended.err.splitlines()[-1])["error"]
        assert list(error) == KEYS
        assert error["exit_code"] == ended.code
        if exit_code is not None:
            assert (error["code"], ended.code) == (code, exit_code)


@pytest.mark.process
def test_json_is_short_for_o_json(qm: Qmctl, queue: str) -> None:
    rows = qm("queue", "ls", "-o", "json").json
    assert {row["queue"] for row in rows} >= {queue}
    names = [row["queue"] for row in rows]
    assert [row["queue"] for row in qm("queue", "ls", "--json").json] == names
    assert [row["queue"] for row in qm("--json", "queue", "ls").json] == names
    both = qm("queue", "ls", "--json", "-o", "table")
    assert (both.code, "-o table and --json exclude each other" in both.err) == (2, True)
    assert "--json" in qm("queue", "ls", "--help").out


@pytest.mark.process
def test_every_list_is_an_array(qm: Qmctl, queue: str) -> None:
    for words in (
        "queue ls",
        "link ls",
        "connection ls",
        "job ls",
        "template ls",
        "aside ls",
        "sub ls",
        "topic ls",
        "republish ls",
        "context ls",
        "events",
        "audit",
        "history ls",
        "dlq ls",
        f"browse {queue}",
        f"group ls {queue}",
        f"dlq ls --queue {queue}",
    ):
        ended = qm(*words.split(), "--json")
        if ended.code == Exit.NOT_FOUND:  # The reserved queue does not exist yet.
            continue
        assert isinstance(ended.json, list), words
