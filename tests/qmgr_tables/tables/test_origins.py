"""Tests of the table of origins."""

from pathlib import Path

from tests.qmgr_tables.office import by
from tests.qmgr_tables.snapshots import rows


def test_origin_shows_its_highest_timestamp(office: Path) -> None:
    found = by(rows(office, table="origins", queues="UIDS"), "origin")
    assert {origin: row["highest"] for origin, row in found.items()} == {"A": 300, "B": 509}


def test_damaged_row_has_its_origin(office: Path) -> None:
    (row,) = rows(office, table="origins", queues="IN")
    assert (row["origin"], row["highest"]) == ("FAR", None)
    assert row["damage"].endswith(": its checksum is wrong")


def test_origin_that_counts_something_else_has_no_time(snapshot: Path) -> None:
    row = by(rows(snapshot, table="origins", queues="ALL"), "origin")["ELSE"]
    assert (row["highest"], row["highest_at"]) == (2**63 - 1, None)
