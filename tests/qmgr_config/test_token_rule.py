"""Entries of [[auth.tokens]]."""

from typing import Any

import pytest
from pydantic import ValidationError

from qmgr_config.token_rule import TokenRule
from tests.tokens import entry

USER = {"claim": "sub", "match": "*", "user": "{1}"}


def rule(**others: Any) -> TokenRule:
    return TokenRule.model_validate(entry(**others))


def test_entry_has_defaults() -> None:
    found = rule()
    assert (found.clock_skew_ms, found.lifetime_max_ms) == (30_000, 86_400_000)
    assert found.audience == ("qmgrd",)
    assert rule(audience=["a", "b"], clock_skew_ms="5 min").clock_skew_ms == 300_000


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"issuer": ""}, "issuer"),
        ({"audience": []}, "audience"),
        ({"audience": ""}, "audience"),
        ({"audience": [""]}, "audience"),
        ({"keys_file": ""}, "keys_file"),
        ({"keys_file": "keys.pem"}, "not an absolute path"),
        ({"clock_skew_ms": "301 s"}, "too large"),
        ({"clock_skew_ms": -1}, "clock_skew_ms"),
        ({"lifetime_max_ms": 0}, "not positive"),
        ({"users": []}, "users"),
        ({"users": [USER | {"match": ""}]}, "is not a text"),
        ({"users": [USER | {"match": "a*b*"}]}, "at most one"),
        ({"users": [USER | {"match": "a\n"}]}, "is not a text"),
        ({"users": [USER | {"claim": ""}]}, "claim"),
        ({"users": [USER | {"user": "a b"}]}, "is not a user"),
        ({"users": [USER | {"match": "app"}]}, "match has no"),
        ({"users": [USER | {"more": 1}]}, "more"),
    ],
)
def test_invalid_entry_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(ValidationError, match=why):
        rule(**changes)
