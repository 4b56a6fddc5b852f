from pathlib import Path

import pyarrow.parquet as pq
import pytest

from qmgr_bench.own.table_source import QUEUE, batches, copies, postgres, snapshots, write_parquet
from qmgr_bench.setting import Setting


@pytest.mark.process
def test_snapshots_rise_and_are_read_and_copied(tmp_path: Path) -> None:
    said: list[str] = []
    made = snapshots(Setting(tmp_path, 0.1, 1, note=said.append), [3, 5])
    assert {
        depth: sum(batch.num_rows for batch in batches(str(path))) for depth, path in made.items()
    } == {3: 3, 5: 5}
    assert sum(batch.num_rows for batch in batches(copies(made[3], 2))) == 6
    write_parquet(str(made[5]), tmp_path / "file")
    read = pq.read_table(tmp_path / "file")
    assert read["queue"].to_pylist() == [QUEUE] * 5
    assert {len(body) for body in read["body"].to_pylist()} == {256}


def test_database_that_is_not_asked_for_is_left_out(tmp_path: Path) -> None:
    notes: list[str] = []
    with postgres(Setting(tmp_path, 0.1, 1, note=notes.append)) as found:
        assert found is None
    assert notes == [
        "TABLE: skipping PostgreSQL: it or its driver (libpostgresql-jdbc-java) is missing"
    ]
