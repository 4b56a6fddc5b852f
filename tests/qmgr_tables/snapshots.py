"""Snapshots for the tests of the Spark source, made by a real queue manager on a real store."""

from pathlib import Path
from typing import Any

from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from pyspark_qmgr.reader import TableReader
from pyspark_qmgr.source import DefaultSource
from qmgr_protocol import messages as m
from qmgr_protocol import record as records
from qmgrd.core.layout import keys
from tests.qmgrd.core.harness import Client, Manager, record
from tests.qmgrd.snapshot.shot import Camera, managed

GROUP_ID = bytes(range(24))
HEADERS = {
    "text": "grün",
    "number": -7,
    "flag": True,
    "none": None,
    "real": 1.5,
    "bytes": b"\xff\x00a",
    "list": [1, "zwei", b"\xff"],
    "map": {"a": {"b": 1}},
    b"\xfekey": "",
}
ENVELOPE = {"headers": HEADERS, "reply_to": "ANSWERS", "content_type": "text/plain"}
LONG = bytes(range(256)) * 100


def flip_last_byte(manager: Manager, key: bytes) -> None:
    """Changes the last byte of the value under *key*, as a faulty disk may do."""
    tx = manager.store.begin()
    value = tx.get(key)
    tx.put(key, value[:-1] + bytes([value[-1] ^ 1]))
    manager.store.commit()


def fill(manager: Manager) -> None:
    """Puts messages of all kinds on the queues ALL, MANY and @NYC, and none on EMPTY."""
    app = manager.connect()
    for queue in ("ALL", "EMPTY", "MANY"):
        app.ask(m.QueueCreate, queue)
    app.put("ALL", b"set aside")
    flip_last_byte(manager, keys.message(1, keys.LANE_READY, 4, 1))
    assert app.get("ALL") == []  # The daemon finds the damage and sets the message aside.
    app.put("ALL", b"plain")
    app.put(
        "ALL",
        b"full",
        priority=9,
        correlation_id=b"N\xc3\xa4\xff",
        envelope=ENVELOPE,
        group=(GROUP_ID, 3, True),
    )
    app.put("ALL", b"given", uid=("ELSE", 1_600_000_000_123_456), priority=0)
    app.put("ALL", b"far", uid=("ELSE", 2**63 - 1), priority=0)
    app.put("ALL", LONG, correlation_id=b"long", priority=1)
    app.put("ALL", b"", priority=2)
    app.put("ALL", b"damaged", priority=3)
    flip_last_byte(manager, keys.message(1, keys.LANE_READY, 3, 8))
    app.release(*app.get("ALL"))  # The released message has priority 9.
    app.put_records("MANY", *(record(b"%05d" % number) for number in range(2_500)))
    app.ask(m.LinkCreate, "NYC", {"addresses": ["127.0.0.1:1"], "stopped": True})
    app.ask(m.QueueCreate, "FAR@NYC")
    app.put("FAR@NYC", b"away", priority=2)
    fill_times(app)
    fill_dead_letters(app)


def fill_times(app: Client) -> None:
    """Puts messages with due and expiry times on queue TIMES."""
    app.ask(m.QueueCreate, "TIMES")
    app.put("TIMES", b"expires", expiry_ms=60_000)
    app.put("TIMES", b"delayed", delay_ms=30_000, priority=7)
    app.put("TIMES", b"both", delay_ms=30_000, expiry_ms=60_000)
    app.put("TIMES", b"in vain", delay_ms=60_000, expiry_ms=30_000)
    app.put("TIMES", b"volatile", flags=records.FLAG_NOT_PERSISTENT)
    app.put("TIMES", b"of the queue", priority=9, flags=records.FLAG_PRIORITY_OF_QUEUE)
    app.put("TIMES", b"for ever", expiry_ms=2**62)
    app.manager.turn(5_000)  # Five seconds pass, so all messages are closer to their due times.
    app.put("FAR@NYC", b"as NYC says", flags=records.FLAG_PRIORITY_OF_QUEUE)


def fill_dead_letters(app: Client) -> None:
    """Makes one message a dead letter. Another message only fails."""
    app.ask(m.QueueCreate, "FAILS", {"backout_threshold": 1})
    app.put("FAILS", b"dead")
    app.release(*app.get("FAILS"))


def make(directory: Path, name: str = "QM1", *, empty: bool = False) -> Path:
    """Returns a snapshot of the queue manager *name*."""
    with managed(directory / f"store-{name}", name) as manager:
        if not empty:
            fill(manager)
        else:
            manager.connect().ask(m.QueueCreate, "EMPTY")
        Camera(manager).take(directory / name)
    return directory / name


def reader_of(path: Path | str, schema: StructType | None = None, **options: str) -> TableReader:
    source = DefaultSource({"path": str(path), **options})
    reader = source.reader(schema or source.schema())
    assert isinstance(reader, TableReader)
    return reader


def batches(reader: TableReader, partitions: list[InputPartition] | None = None) -> list[Any]:
    """Returns all batches of a reader, as Spark would request them."""
    asked = reader.partitions() if partitions is None else partitions
    return [
        batch for partition in asked or [InputPartition(None)] for batch in reader.read(partition)
    ]


def rows(
    path: Path | str, schema: StructType | None = None, **options: str
) -> list[dict[str, Any]]:
    """Returns all rows of a snapshot."""
    found = batches(reader_of(path, schema, **options))
    return [row for batch in found for row in batch.to_pylist()]
