from collections.abc import Iterator
from pathlib import Path

import pytest

from qmgr_bench.load import LoadFailed
from qmgr_bench.own.table_spark import Reading, Session
from tests.qmgr_tables.fixtures import snapshot

__all__ = ["snapshot"]
pytestmark = [pytest.mark.spark, pytest.mark.process]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session(tmp_path_factory.mktemp("session"), 1) as session:
        yield session


def test_reading_is_reported_by_row() -> None:
    reading = Reading(1_000, 0.002, 0.003)
    assert (reading.wall_us, reading.cpu_us) == (2, 3)


@pytest.mark.long
def test_session_reads_sums_and_copies(session: Session, snapshot: Path, tmp_path: Path) -> None:
    table = "qmgr", {"path": str(snapshot), "queues": "MANY"}
    reading = session.read(2_500, table)
    assert reading.cpu_s > reading.worker_cpu_s > 0
    assert reading.wall_s > 0
    copied = "parquet", {"path": str(tmp_path / "copy")}
    session.ask("copy", table, copied)
    assert session.ask("sums", table) == session.ask("sums", copied)
    assert session.ask("sums", table) != session.ask("sums", ("qmgr", {"path": str(snapshot)}))


@pytest.mark.long
def test_session_that_ends_says_why(tmp_path: Path) -> None:
    with (
        Session(tmp_path, 1) as session,
        pytest.raises(LoadFailed, match=r"the Spark session ended: .*/gone"),
    ):
        session.ask("read", ("qmgr", {"path": "/gone"}))
