from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports import job
from pyspark_qmgr.reports.registry import named
from qmgrd.snapshot.finder import SnapshotUnreadable
from tests.pyspark_qmgr.reports.test_page import Parsed

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_snapshots_become_reports_and_a_page(
    spark: SparkSession, snapshot: Path, tmp_path: Path
) -> None:
    found = job.found([str(snapshot)])
    reports = named(["depth", "sizes"])
    made = job.make(spark, reports, found, str(tmp_path), {"path": str(snapshot)})
    assert made.failed == []
    told = made.document()
    assert told["page"] == str(tmp_path / "report.html")
    assert [report["report"] for report in told["reports"]] == ["depth", "sizes"]
    assert {report["state"] for report in told["reports"]} == {"done"}
    (depth,) = told["reports"][0]["parts"]
    rows = spark.read.parquet(depth["parquet"])
    assert rows.count() == depth["rows"]
    assert rows.where("queue = 'MANY'").first()["depth"] == 2_500  # type: ignore[index]
    assert told["snapshots"][0]["snapshot_id"] == found[0].id
    assert set(told["versions"]) == {"qmgrd", "spark", "python", "java"}
    text = (tmp_path / "report.html").read_text()
    assert Parsed(text).open == []
    assert str(snapshot) in text
    assert spark.version in text


def test_damaged_snapshot_is_reported_before_spark_works(snapshot: Path, tmp_path: Path) -> None:
    copied = tmp_path / "snap"
    copied.mkdir()
    for file in snapshot.iterdir():
        (copied / file.name).write_bytes(file.read_bytes())
    data = bytearray((copied / "data.mdb").read_bytes())
    data[-1] ^= 1
    (copied / "data.mdb").write_bytes(data)
    with pytest.raises(SnapshotUnreadable, match="its checksum differs from the manifest"):
        job.found([str(copied)])
