"""Warns of rules for logins that have no effect."""

import structlog

from qmgrd.core.access.rule import Rules

log = structlog.get_logger()


def log_unreachable(rules: Rules) -> None:
    """Logs each rule that no connection can reach, because an earlier rule fits first."""
    for rule, earlier in rules.unreachable():
        log.warning(
            "a rule of auth.access is unreachable: an earlier rule fits all its connections",
            rule=rule.number,
            earlier=earlier.number,
        )
