"""The interface that the export formats share."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from qmgr_tables.export.failure import ExportRefused
from qmgr_tables.export.feed import Feed
from qmgr_tables.export.manifest import Progress


class Written(NamedTuple):
    """The written part of a feed."""

    queue: str  # name of the queue; "" for all queues
    queue_manager: str
    rows: int
    bytes: int
    files: int


class Sizes(NamedTuple):
    """The maximum sizes of files. A file ends with the row group that exceeds its size."""

    file_bytes: int = 128 << 20
    group_bytes: int = 32 << 20  # size of the rows of a group before compression, in bytes
    group_rows: int = 1 << 20


class Sink(Protocol):
    """A destination that stores either both rows and their position or neither.

    Each row is therefore stored once.
    """

    def progress(self, key: str) -> Progress:
        """Returns the progress of the feed with *key*."""

    def write(self, feed: Feed, tables: Iterator[pa.Table]) -> None:
        """Writes the rows of *feed* after its progress."""

    def finish(self) -> list[Written]:
        """Makes all written data durable. Returns the written parts of the feeds."""

    @property
    def has_files(self) -> bool:
        """Returns whether the table has files, after finish()."""

    def close(self) -> None:
        """Unlocks the target."""


def check_same(place: str, held: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises ExportRefused if *place* was created with options that differ from *wanted*."""
    for name in sorted({*held.get("options", {}), *wanted["options"]}):
        before, now = held.get("options", {}).get(name), wanted["options"].get(name)
        if before != now:
            raise ExportRefused(
                f"{place}: {name} is {_value_text(now)}, but the export was created with "
                f"{_value_text(before)}; use the same value, or export to another directory"
            )
    for key, value in wanted.items():
        if key != "options" and held.get(key) != value:
            raise ExportRefused(
                f"{place}: {key} is {_value_text(value)}, but the existing content has "
                f"{_value_text(held.get(key))}; "
                "export to another directory"
            )


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)
