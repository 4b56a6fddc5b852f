"""Tests that the hostile clients detect the removal of each defence of the daemon."""

from pathlib import Path

import pytest

from tests.process.hostile.campaign import Plan, run
from tests.process.hostile.planted import FAULTS

# Maps a fault to the attacks that find it, the kind of store, and an invariant that it breaks.
FOUND = {
    "events": (("system",), "few", "turns_failed"),
    "stall": (("costly",), "few", "longest_stall_ms"),
    "bloat": (("browsers",), "few", "rss_max_mib"),
    "rob": (("rob", "guess"), "few", "stolen"),
    "grow": (("fill", "rows", "producers"), "full", "unexpected_exits"),
}


def test_every_planted_fault_has_attacks_that_find_it() -> None:
    assert FOUND.keys() == FAULTS.keys()


@pytest.mark.long
@pytest.mark.process
@pytest.mark.parametrize("fault", FOUND)
def test_fault_is_found(tmp_path: Path, fault: str) -> None:
    kinds, act, law = FOUND[fault]
    plan = Plan(
        acts=(act,),
        seconds=1,
        calm_s=1,
        attack_s=30,
        kinds=kinds,
        at_once=(len(kinds),),
        kills=0,
        program=("-m", "tests.process.hostile.planted", fault),
    )
    assert law in run(tmp_path, 1, plan).broken(plan.limits)
