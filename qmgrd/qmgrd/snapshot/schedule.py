"""Snapshots that the daemon takes by itself: when the next is due, and where it goes.

When the last one was taken is kept in a file beside the store, so that what was missed while the
daemon was down is made up for, once. One that fails is tried again after a minute, then after twice
as long each time, up to the period.
"""

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from qmgr_config.model import Snapshots
from qmgr_protocol.errors import ErrorCode, RequestError
from qmgrd.core.context.context import Note

STATE_FILE = "snapshots.json"
RETRY_US = 60_000_000
BUSY_US = 5_000_000  # Another snapshot is being made.
ANSWER_MAX_US = 60_000_000  # until it is asked again: a turn that failed forgets what it was asked
LOOK_MAX_S = 60.0  # The wall clock may be set.


class Schedule:
    """When a snapshot is to be taken. Without a directory it never is.

    Invariant: ``_failures`` counts those since the last one that was made.
    """

    def __init__(self, wanted: Snapshots, queue_manager: str, data_dir: Path) -> None:
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
            return {}  # None was taken, or nobody knows: then one is due.
        return dict(last)

    @property
    def is_on(self) -> bool:
        """Whether snapshots are taken at all."""
        return bool(self._wanted.directory)

    @property
    def keep(self) -> int:
        """How many of them stay."""
        return self._wanted.keep

    def wait_s(self, now_us: int) -> float:
        """Returns for how long nothing is due, at most."""
        return min(max(self._next_us - now_us, 0) / 1_000_000 + 0.001, LOOK_MAX_S)

    def due(self, now_us: int) -> str:
        """Returns where a snapshot is to be written to now, or nothing; it is told once."""
        if not self.is_on:
            return ""
        # A clock that was set back must not put it off for as long.
        self._next_us = min(self._next_us, now_us + self._wanted.every_ms * 1000)
        if now_us < self._next_us:
            return ""
        self._next_us = now_us + ANSWER_MAX_US
        moment = datetime.fromtimestamp(now_us / 1_000_000, UTC)
        name = f"{self._queue_manager}-{moment:%Y%m%dT%H%M%S}.{now_us // 1000 % 1000:03}Z"
        return f"{self._wanted.directory.rstrip('/')}/{name}"

    def begun(self, now_us: int) -> None:
        """Takes note that it is being written: it is answered, however long that takes."""
        self._next_us = now_us + self._wanted.every_ms * 1000

    def answered(
        self,
        now_us: int,
        directory: str,
        result: dict[str, Any] | RequestError,
        after: dict[str, Any],
    ) -> list[Note]:
        """Takes note of what became of a snapshot; return what operators are to be told.

        Args:
            after: which older ones were removed then, and what went wrong with that.
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
        except OSError as error:  # The disk may be full; a start would take another one.
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
        """Returns how it stands; next_us is None where none is taken."""
        return {
            "directory": self._wanted.directory,
            "every_ms": self._wanted.every_ms,
            "keep": self._wanted.keep,
            "next_us": self._next_us if self.is_on else None,
            "last": self._last or None,
            "failures": self._failures,
            "why": self._why,
        }
