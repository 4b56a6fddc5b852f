"""The rules in the configuration."""

from typing import Any

import pytest
from pydantic import ValidationError

from qmgr_config.access_rule import DEFAULT_RULES, AccessRule


def rule(**values: Any) -> AccessRule:
    return AccessRule.model_validate({"method": "scram-sha-256"} | values)


def test_rule_fits_everything_by_default() -> None:
    found = rule()
    assert (found.sources, found.user, found.tls) == (("any",), ("*",), "any")


def test_one_value_is_a_list_of_one() -> None:
    found = rule(**{"from": "10.0.0.0/8", "user": "app", "method": "token"})
    assert (found.sources, found.user, found.method) == (("10.0.0.0/8",), ("app",), ("token",))


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"from": "10.0.0.1/8"}, "10.0.0.1/8 .* host bits"),
        ({"from": "localhost"}, "localhost.* a network such as"),
        ({"from": []}, "at least 1"),
        ({"from": ["any"] * 101}, "at most 100"),
        ({"user": "a b"}, "not a pattern of users"),
        ({"user": ""}, "not a pattern of users"),
        ({"user": []}, "at least 1"),
        ({"tls": "yes"}, "'any', 'required' or 'certificate'"),
        ({"method": "password"}, "scram-sha-256"),
        ({"method": []}, "at least 1"),
        ({"method": ["refuse", "open"]}, "give it alone"),
        ({"network": "any"}, "Extra inputs"),
    ],
)
def test_invalid_rule_is_refused_with_the_reason(values: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        rule(**values)


def test_rule_needs_a_method() -> None:
    with pytest.raises(ValidationError, match="method"):
        AccessRule.model_validate({})


def test_default_rules_need_tls_from_other_machines() -> None:
    assert [(x.sources, x.tls, "open" in x.method) for x in DEFAULT_RULES] == [
        (("unix", "loopback"), "any", True),
        (("any",), "required", False),
    ]
