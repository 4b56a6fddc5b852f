"""Limits the lines that strangers can write to the log: full lines first, then a summary."""

from dataclasses import dataclass
from typing import Any

import structlog

from qmgrd.core.context.context import Note

PERIOD_MS = 60_000
LINES_MAX = 10  # number of lines about one subject per period
SUBJECTS_MAX = 100  # above this limit, further subjects of an event share a counter
NOTES_MAX = 100  # number of lines about one note per period; most notes are caused by operators

log = structlog.get_logger()


@dataclass(slots=True)
class _Subject:
    level: str
    event: str
    facts: dict[str, Any]  # fields that all lines about the subject have in common
    lines: int = 0
    left_out: int = 0


class LogLimit:
    """The log lines by subject.

    Invariant: no subject is older than a period, and their number is limited.
    """

    def __init__(self, now_ms: int) -> None:
        self._subjects: dict[tuple[str, ...], _Subject] = {}
        self._since_ms = now_ms

    def write(
        self,
        level: str,
        event: str,
        subject: dict[str, Any],
        *,
        lines_max: int = LINES_MAX,
        **facts: Any,
    ) -> None:
        """Logs *event*, or only counts the line if *subject* was logged too often."""
        key = event, *map(str, subject.values())
        known = self._subjects.get(key)
        if known is None:
            if len(self._subjects) >= SUBJECTS_MAX:
                key, subject = (event,), {}
            known = self._subjects.setdefault(key, _Subject(level, event, subject))
        if known.lines < lines_max:
            known.lines += 1
            getattr(log, level)(event, **subject, **facts)
        else:
            known.left_out += 1

    def write_note(self, note: Note) -> None:
        """Logs *note*, or only counts it if it is limited and was logged too often."""
        if note.is_limited:
            self.write(note.level, note.event, {}, lines_max=NOTES_MAX, **note.facts)
        else:
            getattr(log, note.level)(note.event, **note.facts)

    def sum_up(self, now_ms: int) -> None:
        """Logs, once per period, the number of suppressed lines of each subject."""
        if now_ms - self._since_ms < PERIOD_MS:
            return
        for known in self._subjects.values():
            if known.left_out:
                facts = known.facts | {"more": known.left_out, "in_ms": now_ms - self._since_ms}
                getattr(log, known.level)(known.event, **facts)
        self._subjects.clear()
        self._since_ms = now_ms
