"""Scheduled snapshots: their times and their directories.

A file next to the store contains the time of the last snapshot. After a downtime, one snapshot
replaces the missed ones. A failed snapshot is tried again after a minute. The wait then doubles
each time, up to the period.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qmgr_config.model import SnapshotsConfig
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.context.context import Note

STATE_FILE = "snapshots.json"
RETRY_US = 60_000_000
BUSY_US = 5_000_000  # time to wait while another snapshot is being made
# Time before a request is repeated, because a failed turn loses the request.
ANSWER_MAX_US = 60_000_000
LOOK_MAX_S = 60.0  # maximum time between two checks, because the wall clock may be set


class SnapshotTimetable:
    """The times at which snapshots are due. Without a directory, no snapshot is taken.

    Invariant: ``_failures`` counts the failures since the last success.
    """

    def __init__(self, wanted: SnapshotsConfig, queue_manager: str, data_dir: Path) -> None:
        self._wanted = wanted
        self._queue_manager = queue_manager
        self._file = data_dir / STATE_FILE
        self._last = self._load()
        self._next_us = int(self._last.get("taken_us", 0)) + wanted.every_ms * 1000
        self._failures, self._why = 0, ""

    def _load(self) -> dict[str, Any]:
        try:
            last = json.loads(self._file.read_bytes())
            int(last["taken_us"])
        except (OSError, ValueError, KeyError, TypeError):
            # No snapshot was taken, or its time is unknown. In both cases, a snapshot is due.
            return {}
        return dict(last)

    @property
    def is_on(self) -> bool:
        """Whether scheduled snapshots are on."""
        return bool(self._wanted.directory)

    @property
    def keep(self) -> int:
        """The number of snapshots to keep."""
        return self._wanted.keep

    def wait_s(self, now_us: int) -> float:
        """Returns the time until the next check."""
        return min(max(self._next_us - now_us, 0) / 1_000_000 + 0.001, LOOK_MAX_S)

    def due(self, now_us: int) -> str:
        """Returns the path for the next snapshot if it is due, else "".

        Each due time is returned once.
        """
        if not self.is_on:
            return ""
        # If the clock was set back, the snapshot must not be delayed by the difference.
        self._next_us = min(self._next_us, now_us + self._wanted.every_ms * 1000)
        if now_us < self._next_us:
            return ""
        self._next_us = now_us + ANSWER_MAX_US
        moment = datetime.fromtimestamp(now_us / 1_000_000, UTC)
        name = f"{self._queue_manager}-{moment:%Y%m%dT%H%M%S}.{now_us // 1000 % 1000:03}Z"
        return f"{self._wanted.directory.rstrip('/')}/{name}"

    def begun(self, now_us: int) -> None:
        """Records that the snapshot is being written.

        Its result always arrives, however long that takes.
        """
        self._next_us = now_us + self._wanted.every_ms * 1000

    def answered(
        self,
        now_us: int,
        directory: str,
        result: dict[str, Any] | RequestError,
        after: dict[str, Any],
    ) -> list[Note]:
        """Records the result of a snapshot. Returns notes for operators.

        Args:
            after: The older snapshots that were removed afterwards, and the error of the removal or
                "".
        """
        if isinstance(result, RequestError):
            return self._failed_at(now_us, directory, result)
        notes = []
        if trouble := self._taken(now_us, directory, result):
            facts: dict[str, Any] = {"path": str(self._file), "why": trouble}
            notes.append(Note("warning", "last snapshot cannot be noted", facts))
        if trouble := after.get("trouble", ""):
            facts = {"directory": self._wanted.directory, "why": trouble}
            notes.append(Note("warning", "snapshots cannot be pruned", facts))
        facts = {"directory": directory, "bytes": result["data_bytes"]}
        facts |= {"messages": result["messages"], "removed": len(after.get("removed", ()))}
        return [Note("info", "snapshot taken", facts), *notes]

    def _taken(self, now_us: int, directory: str, manifest: dict[str, Any]) -> str:
        self._failures, self._why = 0, ""
        self._last = {
            "taken_us": manifest["wall_us"],
            "directory": directory,
            "messages": manifest["messages"],
            "data_bytes": manifest["data_bytes"],
        }
        self._next_us = max(manifest["wall_us"] + self._wanted.every_ms * 1000, now_us)
        temporary = self._file.with_name(f"{STATE_FILE}.new")
        try:
            temporary.write_text(json.dumps(self._last) + "\n")
            os.replace(temporary, self._file)
        except OSError as error:  # The disk may be full, and a restart would take another snapshot.
            return str(error.strerror)
        return ""

    def _failed_at(self, now_us: int, directory: str, error: RequestError) -> list[Note]:
        if error.code == ErrorCode.SNAPSHOT_RUNNING:
            self._next_us = now_us + BUSY_US
            return []
        self._failures, self._why = self._failures + 1, error.text
        wait_us = RETRY_US << min(self._failures - 1, 20)
        self._next_us = now_us + min(wait_us, self._wanted.every_ms * 1000)
        return [Note("error", "snapshot failed", {"directory": directory, "why": error.text})]

    def facts(self) -> dict[str, Any]:
        """Returns the state of the schedule. ``next_us`` is None if the schedule is off."""
        return {
            "directory": self._wanted.directory,
            "every_ms": self._wanted.every_ms,
            "keep": self._wanted.keep,
            "next_us": self._next_us if self.is_on else None,
            "last": self._last or None,
            "failures": self._failures,
            "why": self._why,
        }
