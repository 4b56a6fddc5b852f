"""What the formats of an export have in common."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, Protocol

import pyarrow as pa

from qmgr_tables.export.failure import ExportRefused
from qmgr_tables.export.feed import Feed
from qmgr_tables.export.manifest import Progress


class Written(NamedTuple):
    """What was written of a feed."""

    queue: str  # "" of all
    queue_manager: str
    rows: int
    bytes: int
    files: int


class Sizes(NamedTuple):
    """How files are cut. A file ends with the row group that takes it beyond its size."""

    file_bytes: int = 128 << 20
    group_bytes: int = 32 << 20  # of rows before they are compressed
    group_rows: int = 1 << 20


class Sink(Protocol):
    """Takes rows once: what is written has its position kept with it, or is not there."""

    def progress(self, key: str) -> Progress:
        """Returns how far the feed of that key was exported."""

    def write(self, feed: Feed, tables: Iterator[pa.Table]) -> None:
        """Writes the rows of *feed* behind its progress."""

    def finish(self) -> list[Written]:
        """Have all of it durable; return what was written."""

    @property
    def has_files(self) -> bool:
        """Whether the table has files, once it is finished."""

    def close(self) -> None:
        """Leaves the place to others."""


def check_same(place: str, held: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raises ExportRefused where *place* was begun with other options than the *wanted* ones."""
    for name in sorted({*held.get("options", {}), *wanted["options"]}):
        before, now = held.get("options", {}).get(name), wanted["options"].get(name)
        if before != now:
            raise ExportRefused(
                f"{place}: {name} is {_said(now)}, but it was begun with {_said(before)}; "
                "say the same, or export to another directory"
            )
    for key, value in wanted.items():
        if key != "options" and held.get(key) != value:
            raise ExportRefused(
                f"{place}: {key} is {_said(value)}, but what it holds is {_said(held.get(key))}; "
                "export to another directory"
            )


def _said(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value))
    return "none" if value is None else str(value)
