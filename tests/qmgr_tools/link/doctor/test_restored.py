from typing import Any

import pytest

from qmgr_tools.link.doctor import restored as link_restored
from qmgr_tools.link.doctor.diagnosis import diagnosis
from qmgr_tools.link.doctor.finding import Severity

NOW_US = 1_795_265_697_000_000
HOUR_US = 3_600_000_000
ROW: dict[str, Any] = {"link": "NYC", "addresses": ["nyc:7470"], "lost": 3}


@pytest.mark.parametrize(("hours", "severity"), [(1, Severity.WARNING), (25, Severity.NOTE)])
def test_loss_is_a_warning_for_a_day_and_a_note_from_then_on(
    hours: int, severity: Severity
) -> None:
    found = link_restored.at_peer(ROW | {"lost_us": NOW_US - hours * HOUR_US}, NOW_US)
    assert found is not None
    assert (found.code, found.severity) == ("peer-restored", severity)
    assert found.what.startswith(
        "the store of NYC was restored to an older state: up to 3 messages may be lost, detected "
    )
    assert found.what.endswith(" ago")
    assert found.remedy == "qmctl -c nyc:7470 link doctor"
    assert "put the messages again" in found.choices[-1].effect


def test_peer_that_dials_has_no_address_to_be_asked_at() -> None:
    found = link_restored.at_peer(ROW | {"addresses": [], "lost_us": NOW_US}, NOW_US)
    assert found is not None
    assert (found.remedy, found.choices[0].command) == ("", "")
    assert found.choices[0].effect == "also check the other end: run qmctl link doctor at NYC"


def test_loss_here_is_told_of_who_sends() -> None:
    row = {"peer": "EWR", "lost": 1, "lost_us": NOW_US}
    found = link_restored.here(row, NOW_US)
    assert found is not None
    assert found.what == (
        "this store was restored to a state older than messages from EWR: up "
        "to 1 message may be lost, detected now"
    )
    assert found.remedy == ""


def test_nothing_lost_is_nothing_said() -> None:
    assert link_restored.at_peer({"link": "NYC", "lost": 0, "lost_us": None}, NOW_US) is None
    assert link_restored.here({}, NOW_US) is None


def test_both_ends_are_part_of_the_diagnosis() -> None:
    lost = {"lost": 2, "lost_us": NOW_US - HOUR_US}
    up = {"link": "NYC", "state": "up", "waiting": 0, "paths": []} | lost
    inbound = {"peer": "NYC", "stream": "s", "commit_id": 4} | lost
    told = diagnosis({"links": [up], "inbound": [inbound]}, None, 0, NOW_US)
    codes = [finding["code"] for finding in told["links"][0]["findings"]]
    assert sorted(codes) == ["peer-restored", "restored"]
    assert told["verdict"] == "warning"
