from dataclasses import replace
from pathlib import Path

import pytest

from qmgr_bench.own.unit import INFLIGHTS, MOVE, PUT, SIZES, UnitOf, Units, unit
from qmgr_bench.setting import Setting

ONE = UnitOf(MOVE, 100, 1, 20_000, 200, 5, 6, 20, 1, 2.1, 25_000, 4, 5, 15, 2, 0.8)


def test_unit_is_to_be_one_turn_where_the_disk_counts() -> None:
    more = replace(ONE, messages=10, flushes_per_unit=4)
    verdicts = {t.what: t.reached for t in Units([ONE, more, replace(ONE, inflight=16)]).targets()}
    assert verdicts == {
        "flushes of a unit, get and put 100, 1 at a time, relative to no unit": True,
        "flushes of a unit, get and put 10, 1 at a time, relative to no unit": False,
    }
    assert Units([replace(ONE, flushes_per_unit=None, plain_flushes=None)]).targets() == []


def test_bars_have_both_ways() -> None:
    _, bars = Units([replace(ONE, inflight=16)]).bars()
    assert [bar[0] for bar in bars] == [
        "get and put 100, 16 at once",
        "get and put 100, 16 at once, no unit",
    ]


@pytest.mark.long
@pytest.mark.process
def test_units_are_measured_beside_the_same_work_without(tmp_path: Path) -> None:
    found = unit(Setting(tmp_path, 0.2, 1, 0.05))
    kinds = [(one.work, one.messages, one.inflight) for one in found.series]
    assert kinds == [(work, k, most) for work in (MOVE, PUT) for k in SIZES for most in INFLIGHTS]
    for one in found.series:
        assert 0 < one.p50_ms <= one.p99_ms
        assert 0 < one.plain_p50_ms <= one.plain_p99_ms
        assert min(one.server_cpu_us, one.plain_cpu_us, one.generator_cpu_us) > 0
        rates = one.messages_per_s, one.plain_messages_per_s  # The rates are integers.
        rounded = 0.01 + sum(0.5 / rate for rate in rates)
        assert one.ratio == pytest.approx(rates[0] / rates[1], rel=rounded)
        assert one.units_per_s == pytest.approx(one.messages_per_s / one.messages, abs=1)
