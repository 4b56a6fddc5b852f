from dataclasses import replace
from pathlib import Path

import pytest

from qmgr_bench.own.selecting import ONE_OF, RECORDS, Selected, select
from qmgr_bench.setting import Setting

SELECTED = Selected(100_000, 1_000, 100_000, 9, 50, 150_000, 5, 0.667)


def test_longest_turn_is_judged() -> None:
    assert SELECTED.targets()[0].reached
    assert not replace(SELECTED, turn_longest_ms=50.1).targets()[0].reached


def test_one_of_a_hundred_matches_and_it_is_the_last() -> None:
    matching = [at for at, record in enumerate(RECORDS) if b"UA" in record[:80]]
    assert (len(RECORDS), matching) == (ONE_OF, [ONE_OF - 1])


@pytest.mark.process
def test_selecting_is_measured_beside_getting(tmp_path: Path) -> None:
    # The work uses far more processor time than one clock tick.
    found = select(Setting(tmp_path, 0.1, 1, 0.1))
    assert (found.depth, found.matching) == (10_000, 100)
    assert min(found.looked_at_per_s, found.cpu_us, found.turn_longest_ms, found.get_cpu_us) > 0
    assert found.ratio == pytest.approx(found.looked_at_per_s / found.get_per_s, rel=0.01)
