"""Delta: DIR/TABLE is a deltalake table. Tables of messages are partitioned by queue.

Each commit contains rows and, as application transactions, the exported position of each feed.
deltalake accepts a repeated transaction. Therefore, the sink reads the table's state before each
commit.
"""

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from qmgr_tables.export.failure import ExportFailed, ExportRefused
from qmgr_tables.export.feed import BY_QUEUE, Feed
from qmgr_tables.export.manifest import NOTHING, Progress
from qmgr_tables.export.order import row_bytes
from qmgr_tables.export.sink import Sizes, Written, check_same

INSTALL = "pip install 'qmgr-spark[delta]'"


class DeltaSink:
    """Appends to a Delta table, with the position of each feed in the same commit."""

    def __init__(self, to: str, schema: pa.Schema, header: dict[str, Any], sizes: Sizes) -> None:
        """Opens or creates the table below *to*, which may be a URL that deltalake supports.

        Raises:
            ExportRefused: deltalake is not installed, or the table was created with another
                *header*.
            ExportFailed: The table cannot be read.
        """
        try:
            import deltalake
        except ImportError as error:
            raise ExportRefused(
                f"format delta needs deltalake, which is not installed: run {INSTALL}"
            ) from error
        self._lake: Any = deltalake
        self.path = f"{to.removesuffix('/')}/{header['table']}"
        self._schema, self._header, self._sizes = schema, header, sizes
        self._held: list[pa.Table] = []
        self._held_bytes = 0
        self._known: dict[str, int] = {}  # positions of the rows in the table, by feed
        # feeds with the positions of the rows in memory
        self._ends: dict[str, tuple[Feed, int]] = {}
        self._rows: dict[tuple[str, str], int] = {}
        try:
            found = deltalake.DeltaTable.is_deltatable(self.path)
            self._table: Any = deltalake.DeltaTable(self.path) if found else None
        except (deltalake.exceptions.DeltaError, OSError) as error:
            raise self._failed(error) from error
        self._check_header()
        self._files_before = set(self._files())

    def progress(self, key: str) -> Progress:
        """Returns the progress of the feed with *key*."""
        if key not in self._known:
            self._known[key] = self._held_by_table(key)
        return Progress(self._ends[key][1] if key in self._ends else self._known[key])

    def write(self, feed: Feed, tables: Iterator[pa.Table]) -> None:
        """Writes the rows of *feed* in one commit, or in several if the feed has positions.

        The sink holds the rows of small feeds and commits several feeds together.
        """
        if not feed.position:
            self._flush()
            self._ends = {feed.key: (feed, feed.last)}
            self._commit(self._counted(feed, tables))
            return
        for table in tables:
            if table.num_rows:
                self._held.append(table)
                self._ends[feed.key] = feed, table.column(feed.position)[-1].as_py()
                self._count(feed, table.num_rows)
                self._held_bytes += int(row_bytes(table).sum())
                if self._held_bytes >= self._sizes.file_bytes:
                    self._flush()
        if self.progress(feed.key).last < feed.last:  # None of the remaining rows are selected.
            self._ends[feed.key] = feed, feed.last

    def finish(self) -> list[Written]:
        """Commits the held rows. Returns the written files and bytes by queue."""
        self._flush()
        managers = {manager for _, manager in self._rows}
        found: dict[str, list[int]] = {}
        for path, (queue, size) in self._files().items():
            if path not in self._files_before:
                found.setdefault(queue, []).append(size)
        rows: dict[str, int] = {}
        for (queue, _), count in self._rows.items():
            rows[queue] = rows.get(queue, 0) + count
        manager = managers.pop() if len(managers) == 1 else ""
        return [
            Written(queue, manager, count, sum(found.get(queue, [])), len(found.get(queue, [])))
            for queue, count in rows.items()
        ]

    @property
    def has_files(self) -> bool:
        """Returns whether the table has files, after finish()."""
        return bool(self._files())

    def close(self) -> None:
        """Does nothing, because the sink holds no resource."""

    def _flush(self) -> None:
        """Commits the held rows with the last position of each feed."""
        if not self._ends:
            return
        self._commit(iter(self._held))
        self._held, self._held_bytes = [], 0

    def _commit(self, tables: Iterator[pa.Table]) -> None:
        """Appends *tables* and the positions, unless another process has changed the table."""
        lake, ends = self._lake, self._ends
        transactions = [lake.Transaction(self._app(key), last) for key, (_, last) in ends.items()]
        batches = (batch for table in tables for batch in table.to_batches())
        try:
            if self._table is not None:
                self._table.update_incremental()
            for key in ends:
                if self._held_by_table(key) != self._known[key]:
                    raise ExportRefused(
                        f"{self.path}: another export writes to this table; wait until "
                        f"it ends, then run the export again"
                    )
            lake.write_deltalake(
                self.path if self._table is None else self._table,
                pa.RecordBatchReader.from_batches(self._schema, batches),
                mode="append",
                partition_by=["queue"] if self._header["table"] in BY_QUEUE else None,
                description=json.dumps(self._header) if self._table is None else None,
                target_file_size=self._sizes.file_bytes,
                writer_properties=lake.WriterProperties(compression="ZSTD"),
                commit_properties=lake.CommitProperties(
                    app_transactions=transactions, custom_metadata=self._commit_metadata(ends)
                ),
            )
            self._table = lake.DeltaTable(self.path)
        except (lake.exceptions.DeltaError, OSError) as error:
            raise self._failed(error) from error
        for key, (feed, last) in ends.items():
            self._known[key] = last
            feed.taken(last)
        self._ends = {}

    def _commit_metadata(self, ends: dict[str, tuple[Feed, int]]) -> dict[str, str]:
        """Returns the entry of the commit in the history of the table."""
        ids = sorted({feed.snapshot.id for feed, _ in ends.values()} - {""})
        return {
            "qmgr.table": self._header["table"],
            "qmgr.version": str(self._header["version"]),
            "qmgr.snapshot_ids": json.dumps(ids),
        }

    def _check_header(self) -> None:
        if self._table is None:
            return
        try:
            held = json.loads(self._table.metadata().description or "")
            check_same(self.path, held, self._header)
        except (ValueError, AttributeError) as error:
            raise ExportRefused(
                f"{self.path}: qmctl did not create this Delta table; choose another directory"
            ) from error

    def _held_by_table(self, key: str) -> int:
        if self._table is None:
            return NOTHING
        version: int | None = self._table.transaction_version(self._app(key))
        return NOTHING if version is None else version

    def _app(self, key: str) -> str:
        return f"qmgr/{self._header['table']}/{key}"

    def _files(self) -> dict[str, tuple[str, int]]:
        """Returns the files of the table: path to (queue, size)."""
        if self._table is None:
            return {}
        rows = pa.table(self._table.get_add_actions(flatten=True)).to_pylist()
        return {row["path"]: (row.get("partition.queue") or "", row["size_bytes"]) for row in rows}

    def _counted(self, feed: Feed, tables: Iterator[pa.Table]) -> Iterator[pa.Table]:
        self._count(feed, 0)
        for table in tables:
            self._count(feed, table.num_rows)
            yield table

    def _count(self, feed: Feed, rows: int) -> None:
        key = feed.queue, feed.snapshot.queue_manager
        self._rows[key] = self._rows.get(key, 0) + rows

    def _failed(self, error: Exception) -> ExportFailed:
        why = " ".join(str(error).split())
        return ExportFailed(
            f"{self.path}: {why}; fix the cause and run the export again: it continues"
        )
