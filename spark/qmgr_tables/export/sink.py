"""The common parts of the export formats."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from qmgr_tables.export.failure import ExportRefused
from qmgr_tables.export.feed import Feed
from qmgr_tables.export.manifest import Progress


class Written(NamedTuple):
    """The written part of a feed."""

    queue: str  # "": all queues
    queue_manager: str
    rows: int
    bytes: int
    files: int


class Sizes(NamedTuple):
    """How files are cut. A file ends with the row group that exceeds its size."""

    file_bytes: int = 128 << 20
    group_bytes: int = 32 << 20  # of rows before compression
    group_rows: int = 1 << 20


class Sink(Protocol):
    """Writes rows once: rows and their position are stored together, or not at all."""

    def progress(self, key: str) -> Progress:
        """Returns how far the feed of that key was exported."""

    def write(self, feed: Feed, tables: Iterator[pa.Table]) -> None:
        """Writes the rows of *feed* after its progress."""

    def finish(self) -> list[Written]:
        """Makes everything durable; returns what was written."""

    @property
    def has_files(self) -> bool:
        """Whether the table has files, once it is finished."""

    def close(self) -> None:
        """Unlocks the target."""


def check_same(place: str, held: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises ExportRefused if *place* was created with other options than *wanted*."""
    for name in sorted({*held.get("options", {}), *wanted["options"]}):
        before, now = held.get("options", {}).get(name), wanted["options"].get(name)
        if before != now:
            raise ExportRefused(
                f"{place}: {name} is {_value_text(now)}, but it was created with "
                f"{_value_text(before)}; use the same, or export to another directory"
            )
    for key, value in wanted.items():
        if key != "options" and held.get(key) != value:
            raise ExportRefused(
                f"{place}: {key} is {_value_text(value)}, but its content has "
                f"{_value_text(held.get(key))}; "
                "export to another directory"
            )


def _value_text(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)
