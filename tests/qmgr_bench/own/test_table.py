from dataclasses import replace
from pathlib import Path

import pytest

from qmgr_bench.own.table import COUNTS, MethodMedians, Tables, table
from qmgr_bench.own.table_ways import DECODER, LEAN_SPARK, LONG_SPARK, SPARK
from qmgr_bench.setting import Setting

ONE = MethodMedians(SPARK, 1_000, 300_000, 260_000, 3.8, 1.5, 1.2, 3.0)


def test_targets_are_about_spark_on_one_core_with_payload() -> None:
    others = [replace(ONE, way=way, rows_per_core_s=1, ratio=9.0) for way in (DECODER, LEAN_SPARK)]
    long = replace(ONE, way=LONG_SPARK, rows_per_core_s=1)
    fine = Tables([ONE, long, *others], [])
    assert [target.reached for target in fine.targets()] == [True, True, True]
    slow = replace(ONE, rows_per_core_s=249_999, ratio=1.31)
    slow_ones = Tables([slow, replace(long, ratio=1.31), *others], [])
    assert [target.reached for target in slow_ones.targets()] == [False, False, False]


def test_bars_tell_ours_from_others() -> None:
    _, bars = Tables([ONE, replace(ONE, way="loop")], []).bars()
    assert bars == [(SPARK, 260_000, True), ("loop", 260_000, False)]


@pytest.mark.spark
@pytest.mark.process
@pytest.mark.long
@pytest.mark.timeout(400)
def test_all_ways_read_the_same_rows(tmp_path: Path) -> None:
    found = table(Setting(tmp_path, 0.1, 1, 0.0002))
    assert {one.way: one.rows for one in found.ways}.pop("loop") == 100
    assert {one.rows for one in found.ways if one.way != "loop"} == {1_000}
    assert all(one.cpu_us > one.worker_cpu_us >= 0 for one in found.ways)
    (decoder,) = (one for one in found.ways if one.way == DECODER)
    assert (decoder.ratio, decoder.cpu_ratio) == (1, 1)
    assert [(one.of, one.count, one.rows) for one in found.times] == [
        (of, count, 200) for of in ("partitions", "snapshots") for count in COUNTS
    ]
