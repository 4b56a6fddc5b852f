"""Parquet: DIR/TABLE/q=QUEUE/day=DATE/STEM-FIRST-LAST.parquet, and DIR/TABLE/_manifest.

The files have all columns. Readers can skip directories by `q` and `day` (the day of the snapshot).
If `q` were called `queue`, pyarrow would reject the duplicate name, and Spark would convert names
such as 007 to numbers.
"""

import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from qmgr_tables.export.failure import ExportRefused
from qmgr_tables.export.feed import Feed
from qmgr_tables.export.manifest import Manifest, Progress, line
from qmgr_tables.export.order import row_groups
from qmgr_tables.export.sink import Sizes, Written, check_same
from qmgr_tables.export.target import PARTIAL, Draft, Target

# STEM ends with the first digits of the store's id, because other programs also partition by day.
_OURS = re.compile(r"(q=[^/]+/)?day=\d{4}-\d\d-\d\d/([^/]+-)?[0-9a-f]{1,8}(-\d+)+\.parquet")
UNBOUND = 2**63 - 1


class ParquetSink:
    """Writes Parquet files. Each complete file has a line in the manifest."""

    def __init__(
        self, target: Target, schema: pa.Schema, header: dict[str, Any], sizes: Sizes
    ) -> None:
        """Opens *target* and removes the incomplete files of a killed run.

        Raises:
            ExportRefused: The export was started with another *header*, or the manifest does not
                match the files.
            ExportFailed: The manifest is damaged.
            OSError: The target cannot be written.
        """
        self._target = target
        self._schema = schema
        self._header = header
        self._sizes = sizes
        self._written: dict[tuple[str, str], Written] = {}
        data = target.manifest()
        self._manifest = Manifest(f"{target.path}/_manifest", data)
        if self._manifest.header:
            check_same(target.path, self._manifest.header, header)
        if self._manifest.whole_bytes < len(data):
            target.truncate(self._manifest.whole_bytes)
        self._remove_left()
        if not self._manifest.header:
            target.append(line(header))
        self._options = _options(schema)

    def _remove_left(self) -> None:
        """Removes the files of a killed run: partial files, and a file that has no line."""
        files = list(self._target.files())
        left = [
            name for name in files if _OURS.fullmatch(name) and name not in self._manifest.files
        ]
        if len(left) > bool(self._manifest.header):
            raise ExportRefused(
                f"{self._target.path}: _manifest does not list {len(left)} exported files, such as "
                f"{left[0]}; restore _manifest, or export to a new directory"
            )
        for name in [name for name in files if name.startswith(PARTIAL)] + left:
            self._target.remove(name)

    def progress(self, key: str) -> Progress:
        """Returns the progress of the feed with *key*."""
        return self._manifest.progress(key)

    def write(self, feed: Feed, tables: Iterator[pa.Table]) -> None:
        """Writes the rows of *feed* to one file after another."""
        groups = row_groups(tables, self._sizes.group_bytes, self._sizes.group_rows)
        group = next(groups, None)
        if group is None and not feed.position:
            group = self._schema.empty_table()
        while group is not None:
            with self._target.draft() as draft:
                group = self._file(feed, draft, group, groups)
        if self.progress(feed.key).last < feed.last:  # None of the remaining rows are selected.
            self._append({"key": feed.key, "last": feed.last})
            feed.taken(feed.last)

    def finish(self) -> list[Written]:
        """Returns the written parts of the feeds."""
        return list(self._written.values())

    @property
    def has_files(self) -> bool:
        """Returns whether the directory has files."""
        return bool(self._manifest.files)

    def close(self) -> None:
        """Unlocks the target."""
        self._target.close()

    def _file(
        self, feed: Feed, draft: Draft, group: pa.Table, groups: Iterator[pa.Table]
    ) -> pa.Table | None:
        """Writes a file that begins with *group*. Returns the first group of the next file."""
        first, rows = _position(feed, group, 0), 0
        following: pa.Table | None = group
        # A feed without positions is one file. The feed is therefore complete or absent.
        size_max = self._sizes.file_bytes if feed.position else UNBOUND
        with pq.ParquetWriter(
            draft.stream,
            self._schema.with_metadata(self._metadata(feed)),
            **self._options,
            sorting_columns=[pq.SortingColumn(self._schema.get_field_index(feed.position))]
            if feed.position
            else None,
        ) as writer:
            while following is not None and (
                not rows
                or draft.stream.tell() < size_max
                or _position(feed, following, 0) == _position(feed, group, -1)
            ):
                group = following
                writer.write_table(group, row_group_size=max(group.num_rows, 1))
                rows += group.num_rows
                following = next(groups, None)
        size, last = draft.stream.tell(), _position(feed, group, -1)
        name = _name(feed, first, last)
        draft.publish(name)
        self._append(
            {
                "key": feed.key,
                "first": first,
                "last": last,
                "file": name,
                "rows": rows,
                "bytes": size,
                "last_id": _id(feed, group),
                "queue": feed.queue,
                "queue_manager": feed.snapshot.queue_manager,
                "snapshot_id": feed.snapshot.id or None,
            }
        )
        feed.taken(last)
        self._count(feed, rows, size)
        return following

    def _append(self, entry: dict[str, Any]) -> None:
        self._target.append(line(entry))
        self._manifest.add(entry)

    def _count(self, feed: Feed, rows: int, size: int) -> None:
        key = feed.queue, feed.snapshot.queue_manager
        before = self._written.get(key, Written(*key, 0, 0, 0))
        self._written[key] = Written(
            *key, before.rows + rows, before.bytes + size, before.files + 1
        )

    def _metadata(self, feed: Feed) -> dict[str, str]:
        metadata = {"table": self._header["table"], "version": str(self._header["version"])}
        metadata |= {"snapshot_ids": json.dumps(list(filter(None, [feed.snapshot.id])))}
        return {f"qmgr.{key}": value for key, value in metadata.items()}


def _name(feed: Feed, first: int, last: int) -> str:
    day = datetime.fromtimestamp(feed.snapshot.wall_us // 1_000_000, UTC).date().isoformat()
    queue = f"q={quote(feed.queue, safe='@')}/" if feed.queue else ""
    places = f"-{first}-{last}" if feed.position else ""
    return f"{queue}day={day}/{feed.stem}{places}.parquet"


def _position(feed: Feed, table: pa.Table, at: int) -> int:
    """Returns the position of the row *at* of *table*."""
    if not feed.position:
        return feed.last
    position: int = table.column(feed.position)[at].as_py()
    return position


def _id(feed: Feed, table: pa.Table) -> str | None:
    if not feed.queue:
        return None
    found: str | None = table.column("message_id")[-1].as_py()
    return found


def _options(schema: pa.Schema) -> dict[str, Any]:
    """Returns the options of the writer. Columns of bodies have no dictionary and no bounds."""
    held = io.BytesIO()
    pq.write_table(schema.empty_table(), held)
    described = pq.ParquetFile(held).schema
    leaves = [described.column(at).path for at in range(len(schema.names) and len(described))]
    bodies = {field.name for field in schema if pa.types.is_binary(field.type)}
    plain = [leaf for leaf in leaves if leaf not in bodies]
    return {"compression": "zstd", "use_dictionary": plain, "write_statistics": plain}
