"""The data of row TABLE: snapshots of a queue, and the same rows in Parquet and in PostgreSQL."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from qmgr_bench.host import Host
from qmgr_bench.own.traffic import fill
from qmgr_bench.postgres import USER, PostgresServer
from qmgr_bench.setting import Setting
from qmgr_protocol import messages as m
from qmgr_tables.option_parser import parse
from qmgr_tables.planning import plan
from qmgr_tables.tables.registry import TABLES

QUEUE = "Q"
GROUP_ROWS = 100_000  # number of rows per row group
FETCH_ROWS = "10000"
MESSAGES = TABLES["messages"]
# path of the driver in Debian's libpostgresql-jdbc-java
JAR = Path("/usr/share/java/postgresql.jar")


def snapshots(setting: Setting, depths: list[int]) -> dict[int, Path]:
    """Puts messages on a queue and takes a snapshot at each of *depths*, in ascending order."""
    found = {}
    with Host(setting.directory / "manager") as host:
        host.ask(m.QueueCreate, QUEUE)
        depth = 0
        for wanted in depths:
            fill(host, QUEUE, wanted - depth, setting.say)
            depth = wanted
            found[wanted] = setting.directory / f"at-{wanted}"
            setting.say(f"TABLE: taking a snapshot of {wanted:,} messages")
            host.ask(m.Snapshot, str(found[wanted]))
    shutil.rmtree(host.directory)
    return found


def copies(snapshot: Path, count: int) -> str:
    """Copies *snapshot* *count* times. Returns a path that covers all copies."""
    directory = snapshot.with_name(f"{snapshot.name}-{count}")
    for number in range(count):
        shutil.copytree(snapshot, directory / str(number))
    return str(directory)


def batches(path: str, **options: str) -> Iterator[pa.RecordBatch]:
    """Yields the messages of a snapshot as batches, without Spark."""
    asked = parse({"path": path, "queues": QUEUE, **options})
    for share in chain.from_iterable(plan(MESSAGES, asked)):
        yield from MESSAGES.read(share, asked, MESSAGES.schema)


def write_parquet(path: str, file: Path) -> None:
    """Writes all messages of a snapshot to *file*, with no dictionary for the repeated bodies."""
    plain = [name for name in MESSAGES.schema.names if name not in ("body", "headers")]
    with pq.ParquetWriter(file, MESSAGES.schema, use_dictionary=plain) as writer:
        held: list[pa.RecordBatch] = []
        for batch in batches(path):
            held.append(batch)
            if sum(one.num_rows for one in held) >= GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(held))
                held = []
        if held:
            writer.write_table(pa.Table.from_batches(held))


@contextmanager
def postgres(setting: Setting) -> Iterator[tuple[PostgresServer, dict[str, str]] | None]:
    """Yields a server and Spark's options for a table on it.

    Yields None if the server or the driver is not installed.

    If this process runs as root, the server runs as another user, who must be able to reach its
    directory.
    """
    server = PostgresServer("postgres-batch", batch=True)
    if server.name not in setting.peers or not JAR.exists():
        setting.note(
            "TABLE: skipping PostgreSQL: it or its driver (libpostgresql-jdbc-java) is missing"
        )
        yield None
        return
    directory = setting.directory / "postgres"
    directory.mkdir()
    with suppress(OSError):
        setting.directory.chmod(0o755)
    try:
        server.start(directory)
        yield (
            server,
            {
                "url": f"jdbc:postgresql://{server.address}/{USER}?reWriteBatchedInserts=true",
                "user": USER,
                "driver": "org.postgresql.Driver",
                "dbtable": "messages",
                "fetchsize": FETCH_ROWS,
                "batchsize": FETCH_ROWS,
            },
        )
    finally:
        server.stop()
