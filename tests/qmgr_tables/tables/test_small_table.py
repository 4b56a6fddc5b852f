"""Tests of tables whose rows are read snapshot by snapshot."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from qmgr_tables.options import Options
from qmgr_tables.tables import small_table
from qmgr_tables.tables.registry import TABLES
from qmgr_tables.tables.small_table import batches, plan, time_us, unpacked, unsealed
from qmgrd.core.layout import keys
from qmgrd.core.layout import row as rows_
from qmgrd.snapshot.finder import DATA, QueueInfo, SnapshotUnreadable, StoredSnapshot
from tests.qmgr_tables.snapshots import rows


def test_each_snapshot_is_a_part_with_the_queues_that_are_wanted() -> None:
    queues = (QueueInfo("A", 1, "local", ()), QueueInfo("B", 2, "local", ()))
    shots = [StoredSnapshot(f"/{name}", name, name, 1, 1, "", queues) for name in ("X", "Y")]
    parts = plan(shots, Options(("/",), queues=frozenset("B")))
    assert [(part.snapshot.id, [q.name for q in part.snapshot.queues]) for part in parts] == [
        ("X", ["B"]),
        ("Y", ["B"]),
    ]


def test_batches_are_capped_and_lack_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_table, "BATCH_ROWS", 3)
    schema = pa.schema([("b", pa.string()), ("a", pa.int64())])
    found = list(batches(iter([{"a": number, "z": 1} for number in range(7)]), schema))
    assert [batch.num_rows for batch in found] == [3, 3, 1]
    assert all(batch.schema.equals(schema) for batch in found)
    assert found[0].to_pylist()[1] == {"b": None, "a": 1}


def test_row_that_cannot_be_read_says_why() -> None:
    key = keys.SPACE_QUEUE + b"Q"
    assert unsealed(key, None) == (b"", "the row is missing")
    assert unsealed(key, b"xxxxx") == (b"", "the definition of queue Q: its checksum is wrong")
    found, why = unpacked(key, rows_.seal(key, b"\xc1"))
    assert (found, why.partition(":")[0]) == (None, "the row is not a map or list")


def test_time_that_no_datetime_holds_is_none() -> None:
    assert time_us(5) == 5
    assert [time_us(us) for us in (None, -1, 2**63, "5")] == [None] * 4


@pytest.mark.parametrize("name", sorted(set(TABLES) - {"audit", "snapshots"}))
def test_page_that_is_damaged_is_an_error_with_its_file(
    office: Path, tmp_path: Path, name: str
) -> None:
    copy = shutil.copytree(office, tmp_path / "copy")
    data = copy / DATA
    with data.open("r+b") as file:
        for page in range(2, data.stat().st_size // 4096):
            file.seek(page * 4096 + 8)
            file.write(b"\xff" * 8)
    with pytest.raises(
        SnapshotUnreadable, match=r"data\.mdb is damaged: .*; copy or take the snap"
    ):
        rows(copy, table=name, verify="false")
