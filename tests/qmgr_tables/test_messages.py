"""The table of messages: its batches."""

from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_tables import messages
from tests.qmgr_tables.snapshots import batches, reader_of
from tests.qmgrd.ops.shot import Camera, managed


def test_batches_are_capped_by_bytes(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        for _ in range(4):
            app.put("Q", *[bytes(1_000_000)] * 5)
        app.put("Q", bytes(4_000_000))
        app.put("Q", *(b"" for _ in range(50)), envelope={"headers": {"h": "x" * 60_000}})
        Camera(manager).take(tmp_path / "snap")
    found = batches(reader_of(tmp_path / "snap"))
    assert sum(batch.num_rows for batch in found) == 71
    assert len(found) == 6
    assert max(batch.nbytes for batch in found) < messages.BATCH_BYTES + 4_100_000


def test_batches_are_capped_by_rows(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "BATCH_ROWS", 1_000)
    found = batches(reader_of(snapshot, queues="MANY"))
    assert [batch.num_rows for batch in found] == [1000, 1000, 500]
