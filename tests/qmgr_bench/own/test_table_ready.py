"""Tests that ready batches have the requested number of rows, in the columns of the table."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from qmgr_bench.own.table_ready import Ready
from qmgr_bench.own.table_source import snapshots
from qmgr_bench.own.table_spark import Session
from qmgr_bench.setting import Setting
from qmgr_tables.options import ROWS_PER_PARTITION

pytestmark = [pytest.mark.spark, pytest.mark.process]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session(tmp_path_factory.mktemp("session"), 1) as session:
        yield session


def test_rows_are_shared_out_as_the_table_has_them() -> None:
    source = Ready({"path": "/snap", "rows": str(2 * ROWS_PER_PARTITION + 1)})
    parts = [part.value for part in source.reader(source.schema()).partitions()]
    assert len(parts) == 3
    assert sum(parts) == 2 * ROWS_PER_PARTITION + 1
    assert max(parts) - min(parts) <= 1


@pytest.mark.long
def test_spark_reads_as_many_rows_as_asked_for(session: Session, tmp_path: Path) -> None:
    made = snapshots(Setting(tmp_path, 0.1, 1), [5])
    ready = "ready", {"path": str(made[5]), "rows": "12"}
    session.ask("copy", ready, ("parquet", {"path": str(tmp_path / "copy")}))
    arrivals = pq.read_table(tmp_path / "copy", columns=["arrival"])["arrival"].to_pylist()
    assert arrivals == [1, 2, 3, 4, 5, 1, 2, 3, 4, 5, 1, 2]
    assert session.read(12, ready).worker_cpu_s > 0
