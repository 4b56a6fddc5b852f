"""qmctl access show."""

import pytest

from tests.qmgr_tools.conftest import Qmctl


@pytest.mark.process
def test_default_rules_are_shown(at: Qmctl) -> None:
    shown = at("access", "show")
    assert shown.code == 0
    assert shown.out.splitlines() == [
        "RULE\tFROM\tUSER\tTLS\tMETHOD",
        "1\tunix, loopback\t*\tany\tscram-sha-256, scram-sha-256-plus, certificate, token, open",
        "2\tany\t*\trequired\tscram-sha-256, scram-sha-256-plus, certificate, token",
        "these are the default rules, because auth.access has no rules",
    ]
    found = at("access", "show", "-o", "json").json
    assert (found["default"], len(found["rules"])) == (True, 2)
