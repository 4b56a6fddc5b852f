"""The file `_manifest` next to exported files: their content, and the positions already read.

Each line is a JSON object:

    {"format": 1, "table": ..., "version": 1, "full": false, "options": {...}}     the first line
    {"key": ..., "first": 1, "last": 99, "file": ..., "rows": 99, "bytes": ..., "last_id": ...,
    "queue": ..., "queue_manager": ..., "snapshot_id": ...}                       a file
    {"key": ..., "last": 99}                                   rows read up to this position

A line is written once its file is on disk. A file without a line is ignored.
"""

import json
from typing import Any, NamedTuple

from qmgr_tables.export.failure import ExportFailed

FILE = "_manifest"
FORMAT = 1
NOTHING = -1  # position before all rows


class Progress(NamedTuple):
    """The progress of a feed."""

    last: int = NOTHING
    last_id: str | None = None  # id of the message at that position


class Manifest:
    """The content of a directory of exported files."""

    def __init__(self, path: str, data: bytes) -> None:
        """Reads *data*. Its last line may be incomplete.

        Raises:
            ExportFailed: Another line is damaged, or the format is newer.
        """
        self.whole_bytes = data.rfind(b"\n") + 1
        lines = data[: self.whole_bytes].splitlines()
        self.header: dict[str, Any] = {}
        self.files: set[str] = set()
        self._progress: dict[str, Progress] = {}
        for number, line in enumerate(lines, 1):
            try:
                entry = json.loads(line)
                if number > 1:
                    self.add(entry)
                    continue
                self.header = entry
                known = entry["format"] == FORMAT
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise ExportFailed(
                    f"{path}: line {number} is damaged; restore the file, or export to a new "
                    "directory"
                ) from error
            if not known:
                raise ExportFailed(
                    f"{path}: format {entry['format']}, but this qmctl supports format {FORMAT}; "
                    "use the version that wrote it, or export to a new directory"
                )

    def add(self, entry: dict[str, Any]) -> None:
        """Records the content of a line."""
        key, last = str(entry["key"]), int(entry["last"])
        before = self._progress.get(key, Progress())
        last_id = entry.get("last_id") if last > before.last else before.last_id
        self._progress[key] = Progress(max(last, before.last), last_id)
        if "file" in entry:
            self.files.add(str(entry["file"]))

    def progress(self, key: str) -> Progress:
        """Returns the progress of the feed with *key*."""
        return self._progress.get(key, Progress())


def line(entry: dict[str, Any]) -> bytes:
    """Returns *entry* as a line of JSON."""
    return json.dumps(entry, ensure_ascii=False).encode() + b"\n"
