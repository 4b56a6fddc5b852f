from pathlib import Path

import pyarrow as pa
import pytest

from qmgr_bench.load import LoadFailed
from qmgr_bench.own.table_source import snapshots
from qmgr_bench.own.table_ways import check_same, loop, measured, snapshot_table
from qmgr_bench.setting import Setting


class Sums:
    """A replacement for a session, which returns prepared results."""

    def __init__(self, *answers: list[int]) -> None:
        self.answers = [*answers]

    def ask(self, *_: object) -> list[int]:
        return self.answers.pop(0)


def test_batches_are_counted() -> None:
    batch = pa.record_batch({"a": [1, 2, 3]})
    reading = measured(iter([batch, batch]))
    assert reading.rows == 6
    assert reading.wall_s > 0


@pytest.mark.process
def test_loop_decodes_so_many(tmp_path: Path) -> None:
    made = snapshots(Setting(tmp_path, 0.1, 1), [5])
    assert loop(str(made[5]), 3).rows == 3
    assert loop(str(made[5]), 9).rows == 5


def test_tables_that_differ_stop_the_benchmark() -> None:
    here, there = snapshot_table("/snap"), ("parquet", {"path": "/file"})
    same: object = Sums([1, 2], [1, 2])
    check_same(same, here, there)  # type: ignore[arg-type]
    other: object = Sums([1, 2], [1, 3])
    with pytest.raises(LoadFailed, match=r"parquet returned \[1, 3\], but qmgr returned \[1, 2\]"):
        check_same(other, here, there)  # type: ignore[arg-type]
