"""Tests of the table of snapshots."""

import json
import shutil
from pathlib import Path

from qmgrd.snapshot.finder import DATA
from tests.qmgr_tables.snapshots import rows


def test_snapshot_shows_what_it_has(office: Path) -> None:
    (row,) = rows(office, table="snapshots")
    manifest = json.loads((office / "manifest.json").read_text())
    assert (row["path"], row["queue_manager"]) == (str(office), "OFFICE")
    assert (row["snapshot_id"], row["turn"]) == (manifest["snapshot_id"], manifest["turn"])
    assert row["data_bytes"] == (office / DATA).stat().st_size
    assert row["queues"] == len(manifest["queues"])
    # The parked messages count in addition.
    assert row["messages"] == manifest["messages"] + 2
    assert row["at"].timestamp() * 1_000_000 == manifest["wall_us"]


def test_damaged_and_missing_ones_are_rows_where_they_are_skipped(
    office: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(office, tmp_path / "copy")
    with (copy / DATA).open("r+b") as file:
        file.write(b"x")
    found = rows(f"{office},{copy},/none", table="snapshots", onDamaged="skip")
    assert [row["path"] for row in found] == [str(office), "/none", str(copy)]
    assert found[0]["damage"] is None
    assert "/none: not found" in found[1]["damage"]
    assert "its checksum differs from the manifest" in found[2]["damage"]
    assert rows("/none", table="snapshots", onDamaged="skip")[0]["queue_manager"] is None
