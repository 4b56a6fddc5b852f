from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyspark_qmgr.reports.place import Place, PlaceUnusable, first_line

pytestmark = pytest.mark.spark


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_frame_and_text_replace_existing_files(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(spark, str(tmp_path / "a" / "b"))
    for count in (5, 3):
        place.write_frame("x.parquet", spark.range(count))
        place.write_text("page.html", "grün" * count)
    assert place.read_frame("x.parquet").count() == 3
    assert (tmp_path / "a/b/page.html").read_text() == "grün" * 3
    assert names(tmp_path / "a/b") == ["page.html", "x.parquet"]
    assert place.shown("page.html") == str(tmp_path / "a/b/page.html")


def test_failed_frame_leaves_the_existing_file(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(spark, str(tmp_path))
    place.write_frame("x.parquet", spark.range(5))
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        place.write_frame("x.parquet", spark.range(5).selectExpr("1 DIV (id - 3) AS id"))
    assert place.read_frame("x.parquet").count() == 5
    place.discard("x.parquet")
    assert names(tmp_path) == []


def test_what_was_begun_before_a_crash_is_no_obstacle(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / ".partial-x.parquet").mkdir()
    (tmp_path / ".partial-x.parquet/part-0").write_text("half")
    (tmp_path / ".partial-page").write_text("half")
    place = Place(spark, str(tmp_path))
    place.write_frame("x.parquet", spark.range(1))
    place.write_text("page", "whole")
    assert names(tmp_path) == ["page", "x.parquet"]
    assert (tmp_path / "page").read_text() == "whole"


def test_directory_that_cannot_be_is_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlaceUnusable, match=f"^{tmp_path}/file/deeper: .*; choose another"):
        Place(spark, f"{tmp_path}/file/deeper")
    with pytest.raises(PlaceUnusable, match=r'^nowhere://x/y: No FileSystem for scheme "nowhere"'):
        Place(spark, "nowhere://x/y")


def test_first_line_of_an_error_is_what_is_reported() -> None:
    assert first_line(ValueError("one\ntwo")) == "one"
    assert first_line(ValueError()) == "ValueError"
