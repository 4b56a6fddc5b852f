"""Tests of the hints about a selector that selects no messages."""

import json

import pytest

from qmgr_tools.message.selector_hint import hint
from tests.qmgr_tools.conftest import Daemon, Qmctl

HEADERS = [{"customer": "ann"}, {"customer": "bob", "color": "red"}]
QUOTED = (
    '"ann" in double quotes is the name of a header, which none of 2 messages examined has: '
    "text needs single quotes, as in 'ann'"
)


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (
            "custmer = 'ann'",
            "none of 2 messages examined has a header custmer, did you mean customer?",
        ),
        ("zzz IS NOT NULL", "none of 2 messages examined has a header zzz"),
        ('customer = "ann"', QUOTED),
        (
            'customer = "ann" OR custmer = "ann"',
            QUOTED + "; none of 2 messages examined has a header custmer, did you mean customer?",
        ),
        ("customer = 'eve'", ""),
        ("customer LIKE 'a*'", "in LIKE 'a*' the wildcard is %, not *"),
        ("customer LIKE 'e%*'", ""),
        ("\"customer\" = 'eve' AND priority > 4 AND JMSPriority < 9", ""),
        ("dead_queue = 'ORDERS' AND topic LIKE 'a/%'", ""),
        ("customer = 'it''s \"ann\" and zzz'", ""),
        ("customer = '", ""),
        ('customer = "it\'s"', QUOTED.replace('"ann"', '"it\'s"').replace("'ann'", "'it''s'")),
    ],
)
def test_name_that_no_message_has_is_told(selector: str, words: str) -> None:
    assert hint(selector, HEADERS) == words


def test_empty_queue_tells_nothing() -> None:
    assert hint("custmer = 'ann'", []) == ""


@pytest.mark.process
def test_each_command_that_selects_nothing_says_why(qm: Qmctl, queue: str, daemon: Daemon) -> None:
    qm("put", queue, "x", "--header", "customer=ann")
    wrong, told = 'customer = "ann"', "text needs single quotes, as in 'ann'"
    for words in (
        ["browse", queue],
        ["move", queue, f"{queue}.B"],
        ["move", queue, f"{queue}.B", "--dry-run"],
        ["queue", "purge", queue, "--yes"],
        ["queue", "purge", queue, "--dry-run"],
        ["dlq", "ls", "--queue", queue],
        ["dlq", "delete", "--queue", queue, "--yes"],
    ):
        if words[0] == "move":
            qm("queue", "create", f"{queue}.B")
        ended = qm(*words, "--where", wrong)
        assert ended.code == 0, ended
        assert told in ended.err, words
        assert told not in qm(*words, "--where", "customer = 'eve'").err, words
    got = qm("get", queue, "--where", wrong)
    assert (got.code, told in got.err) == (7, True)
    assert told not in qm("get", queue, "--where", "customer = 'eve'").err
    browsed = qm("browse", queue, "--where", wrong, "--json")
    assert (browsed.json, told in json.loads(browsed.err)["note"]) == ([], True)
