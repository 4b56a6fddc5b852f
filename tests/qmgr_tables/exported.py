"""Exported rows, and stores with several snapshots."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from deltalake import DeltaTable, QueryBuilder

from qmgr_protocol import messages as m
from qmgr_tables import planning
from qmgr_tables.export.export import Exported, export
from qmgr_tables.export.sink import Sizes
from qmgr_tables.option_parser import parse
from qmgr_tables.tables.registry import TABLES
from tests.qmgrd.core.harness import Client, Manager
from tests.qmgrd.snapshot.shot import Camera, managed

SMALL = Sizes(file_bytes=20_000, group_bytes=30_000, group_rows=100)


def run(
    path: Path | str,
    to: Path | str,
    *,
    full: bool = False,
    format: str = "parquet",
    sizes: Sizes | None = None,
    **options: str,
) -> Exported:
    """Exports snapshots with the options of Spark."""
    given = {"path": str(path), **options}
    return export(parse(given), str(to), format=format, full=full, sizes=sizes)


def rows_read(path: Path | str, **options: str) -> list[dict[str, Any]]:
    """Returns the rows of a table from snapshots, ordered by queue and arrival."""
    parsed = parse({"path": str(path), **options})
    table = TABLES[parsed.table]
    shares = chain.from_iterable(planning.plan(table, parsed))
    found = [
        row
        for share in shares
        for batch in table.read(share, parsed, table.schema)
        for row in batch.to_pylist()
    ]
    return in_order(found)


def rows_of(table: Path) -> list[dict[str, Any]]:
    """Returns the rows of exported Parquet files, in the order of rows_read."""
    found = ds.dataset(table, partitioning="hive").to_table().to_pylist()
    return in_order([{k: v for k, v in row.items() if k not in ("q", "day")} for row in found])


def rows_in(table: Path, format: str) -> list[dict[str, Any]]:
    """Returns the rows of an exported table. deltalake itself reads Delta tables."""
    if format == "parquet":
        return rows_of(table)
    # The function does not use to_pyarrow_table, because the process may then abort at its end.
    lake = QueryBuilder().register("lake", DeltaTable(table))
    found = pa.table(lake.execute("SELECT * FROM lake"))
    schema = TABLES[table.name].schema
    return in_order(found.select(schema.names).cast(schema).to_pylist())


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Returns the rows in an order that depends only on their values."""
    return sorted(
        rows,
        key=lambda row: (
            row["snapshot_id"],
            str(row.get("queue")),
            row.get("arrival") or 0,
            str(row),
        ),
    )


def tree(directory: Path) -> dict[str, tuple[bytes, int]]:
    """Returns the content and the modification time of each file below *directory*."""
    return {
        path.relative_to(directory).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def contents(directory: Path) -> dict[str, bytes]:
    """Returns the content of each file below *directory*."""
    return {name: data for name, (data, _) in tree(directory).items()}


class Life:
    """A store that changes between its snapshots."""

    def __init__(self, manager: Manager, directory: Path) -> None:
        self.manager = manager
        self.app: Client = manager.connect()
        self._directory = directory
        self._camera = Camera(manager)
        self._count = 0

    def shot(self) -> Path:
        """Takes a snapshot, which gets the next number."""
        self._count += 1
        path = self._directory / f"{self._count}"
        self._camera.take(path)
        return path


@contextmanager
def life(directory: Path, *queues: str, name: str = "QM1") -> Iterator[Life]:
    """Yields a store with *queues*, whose snapshots are written below *directory*."""
    directory.mkdir(parents=True, exist_ok=True)
    with managed(directory / "store", name) as manager:
        found = Life(manager, directory)
        for queue in queues:
            found.app.ask(m.QueueCreate, queue)
        yield found
