"""Warnings of rules without an effect."""

from structlog.testing import capture_logs

from qmgr_config.access_rule import AccessRule
from qmgrd.core.access.rule import Rules
from qmgrd.net.logins import log_unreachable


def test_rule_behind_one_that_fits_the_same_connections_is_logged() -> None:
    rows = [{"from": "10.0.0.0/8", "method": "refuse"}, {"from": "10.1.2.3", "method": "token"}]
    with capture_logs() as lines:
        log_unreachable(Rules([AccessRule.model_validate(row) for row in rows]))
    assert [(line["log_level"], line["rule"], line["earlier"]) for line in lines] == [
        ("warning", 2, 1)
    ]


def test_default_rules_are_not_logged() -> None:
    with capture_logs() as lines:
        log_unreachable(Rules(()))
    assert lines == []
