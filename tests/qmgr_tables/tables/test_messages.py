"""Tests of the batches of the table of messages."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from qmgr_protocol import messages as m
from qmgr_tables import row as rows
from qmgr_tables.image import image
from qmgr_tables.option_parser import parse
from qmgr_tables.tables import messages
from qmgrd.core.layout import entry
from tests.qmgr_tables.snapshots import batches, reader_of
from tests.qmgrd.core.harness import record
from tests.qmgrd.snapshot.shot import Camera, managed


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


def test_plain_messages_are_so_short_that_their_number_caps_them(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        longest = entry.INLINE_MAX_BYTES - 200
        for _ in range(5):
            app.put("Q", *[bytes(longest)] * 500)
        Camera(manager).take(tmp_path / "snap")
    found = batches(reader_of(tmp_path / "snap"))
    assert [batch.num_rows for batch in found] == [messages.HALF_ROWS, 2_500 - messages.HALF_ROWS]
    assert max(batch.nbytes for batch in found) < messages.LONG_BYTES
    assert [body for batch in found for body in batch["body"].to_pylist()] == [
        bytes(longest)
    ] * 2_500


def test_batch_goes_over_many_short_queues(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        app = manager.connect()
        for number in range(50):
            app.ask(m.QueueCreate, f"Q{number:02}")
            app.put(f"Q{number:02}", b"%d" % number)
        Camera(manager).take(tmp_path / "snap")
    (found,) = batches(reader_of(tmp_path / "snap", queuesPattern="Q.*"))
    assert found["queue"].to_pylist() == [f"Q{number:02}" for number in range(50)]
    assert found["body"].to_pylist() == [b"%d" % number for number in range(50)]


def test_columns_are_several_times_as_fast_as_rows(tmp_path: Path) -> None:
    with managed(tmp_path / "qm") as manager:
        app = manager.connect()
        app.ask(m.QueueCreate, "Q")
        app.put_records("Q", *(record(bytes(256)) for _ in range(8_000)))
        Camera(manager).take(tmp_path / "snap")
    reader = reader_of(tmp_path / "snap", queues="Q")
    options = parse({"path": str(tmp_path / "snap")})
    ((share,),) = (part.value for part in reader.partitions())

    def by_row() -> None:
        with image(share.snapshot).transaction() as tx:
            for run in share.runs:
                for key, value in tx.scan(*messages.bounds(run)):
                    rows.read(tx, key, value, run, share.snapshot, options)

    def least_s(work: Callable[[], object]) -> float:
        times = []
        for _ in range(5):
            start_s = time.process_time()
            work()
            times.append(time.process_time() - start_s)
        return min(times)

    assert least_s(by_row) > 2 * least_s(lambda: batches(reader))


def test_batches_are_capped_by_rows(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "BATCH_ROWS", 1_000)
    found = batches(reader_of(snapshot, queues="MANY"))
    assert [batch.num_rows for batch in found] == [1000, 1000, 500]
