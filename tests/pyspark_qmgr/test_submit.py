"""Tests of reports that run as a program, on one machine and on a cluster of two workers."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr import submit
from pyspark_qmgr.reports import job
from pyspark_qmgr.reports.registry import named
from tests.pyspark_qmgr.cluster import Cluster

REPO = Path(__file__).parents[2]
PACKAGES = (
    "spark/pyspark_qmgr",
    "spark/qmgr_tables",
    "qmgrd/qmgrd",
    "protocol/qmgr_protocol",
    "config/qmgr_config",
)


def test_program_says_where_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert submit.main(["--where"]) == 0
    assert capsys.readouterr().out == f"{Path(submit.__file__).resolve()}\n"


def test_program_finds_its_packages_wherever_it_is_started(tmp_path: Path) -> None:
    """The program's own directory must not be a source of imports: `java` would be its module."""
    look = "import runpy, sys; runpy.run_path(sys.argv[1], run_name='x'); print(sys.path)"
    directory = str(Path(submit.__file__).parent)
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[0] = {directory!r}; {look}", submit.__file__],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert repr(directory) not in done.stdout


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["dept"], 2, "error: 'dept' is not a valid report; did you mean depth?\n"),
        (["depth", "--to", "/x"], 2, "error: --path (the snapshots) and --to"),
        (["depth", "--to", "/x", "--path", "/nowhere"], 1, "error: /nowhere: not found"),
    ],
)
def test_what_cannot_be_is_refused_before_spark_starts(
    words: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert submit.main(words) == code
    assert capsys.readouterr().err.startswith(said)


def packed(path: Path) -> Path:
    """Returns our packages in a file for --py-files."""
    with zipfile.ZipFile(path, "w") as file:
        for package in PACKAGES:
            for source in (REPO / package).rglob("*.py"):
                file.write(source, source.relative_to((REPO / package).parent))
    return path


def contents(directory: Path) -> dict[str, list[Any]]:
    """Returns the sorted rows of each file of reports."""
    return {
        path.name: sorted(pq.read_table(path).to_pylist(), key=str)
        for path in sorted(directory.glob("*.parquet"))
    }


@pytest.mark.spark
@pytest.mark.long
@pytest.mark.timeout(600)
def test_cluster_makes_the_same_reports_as_one_machine(
    spark: SparkSession, snapshot: Path, empty: Path, tmp_path: Path
) -> None:
    """The cluster has two workers, which receive our packages."""
    names, paths = ("depth", "sizes"), [str(snapshot), str(empty)]
    alone, submitted = tmp_path / "alone", tmp_path / "submitted"
    assert job.make(spark, named(names), job.found(paths), str(alone), {}).failed == []
    words = ("--path", paths[0], "--path", paths[1], "--to", str(submitted))
    options = (
        "--py-files",
        str(packed(tmp_path / "qmgrd.zip")),
        "--conf",
        "spark.sql.shuffle.partitions=2",
    )
    with Cluster(tmp_path / "cluster", has_packages=False) as cluster:
        done = cluster.submit(Path(submit.__file__), *names, *words, options=options)
        assert done.returncode == 0, done.stderr[-3_000:]
        assert cluster.executors() == []
    told = json.loads((submitted / "report.json").read_text())
    assert [report["state"] for report in told["reports"]] == ["done", "done"]
    assert json.loads(done.stdout) == told
    assert contents(submitted) == contents(alone)
    assert (submitted / "report.html").is_file()
