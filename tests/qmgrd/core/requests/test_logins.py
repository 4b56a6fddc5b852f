"""Requests about the rules for logins."""

from typing import Any

import pytest

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from tests.qmgrd.core.harness import Manager

RULES = [
    {"from": "10.0.0.0/8", "user": "app", "tls": "required", "method": "scram-sha-256"},
    {"from": "10.1.0.0/16", "user": "app", "tls": "certificate", "method": "certificate"},
    {"from": ["unix", "loopback"], "method": "open"},
]


def test_default_rules_are_listed() -> None:
    found = Manager().connect().ask(m.AccessRules)
    assert found["default"] is True
    assert [(x["rule"], x["from"], x["tls"]) for x in found["rules"]] == [
        (1, ["unix", "loopback"], "any"),
        (2, ["any"], "required"),
    ]


def test_configured_rules_are_listed_with_those_that_no_connection_reaches() -> None:
    found = Manager(auth={"access": RULES}).connect().ask(m.AccessRules)
    assert found["default"] is False
    assert found["rules"][1] == {
        "rule": 2,
        "from": ["10.1.0.0/16"],
        "users": ["app"],
        "tls": "certificate",
        "methods": ["certificate"],
        "covered_by": 1,
    }
    assert [x["covered_by"] for x in found["rules"]] == [0, 1, 0]


@pytest.mark.parametrize(
    ("fields", "rule", "why"),
    [
        (("10.1.2.3", "app", "scram-sha-256", "required"), 1, "rule 1 allows scram-sha-256"),
        (("10.1.2.3", "app", "scram-sha-256"), 0, "no rule fits"),
        (
            ("10.1.2.3", "app", "certificate", "certificate"),
            1,
            "rule 1 allows scram-sha-256, but not certificate",
        ),
        (("10.1.2.3", "app", "token"), 0, "a token needs TLS on this address"),
        (("127.0.0.1", "", "open"), 3, "rule 3 allows open"),
        (("::1", "", "open"), 3, "rule 3 allows open"),
        (("unix", "", "open"), 3, "rule 3 allows open"),
        (("192.0.2.1", "", "open"), 0, "no rule fits"),
    ],
)
def test_rule_that_decides_is_found(fields: tuple[str, ...], rule: int, why: str) -> None:
    found = Manager(auth={"access": RULES}).connect().ask(m.AccessTest, *fields)
    assert (found["rule"], found["why"]) == (rule, why)
    assert found["allowed"] is (rule != 0 and "but not" not in why)


@pytest.mark.parametrize(
    "fields",
    [
        ("localhost", "app", "open", "none"),
        ("", "app", "open", "none"),
        ("unix", "app", "refuse", "none"),
        ("unix", "app", "open", "any"),
    ],
)
def test_invalid_question_is_refused(fields: tuple[Any, ...]) -> None:
    assert Manager().connect().code_of(m.AccessTest, *fields) == ErrorCode.VALUE_INVALID
