"""Recovery after a failed turn: starts a new core from the store without work that failed twice."""

from collections.abc import Callable

import structlog

from qmgrd.core.context.context import Note
from qmgrd.core.layout.kv import Now
from qmgrd.core.limits.work import Failures, WorkId
from qmgrd.core.turn import TurnFailed, Turns

RECENT_MS = 60_000
# Maximum number of failed turns within RECENT_MS; above it, the process ends, and its supervisor
# decides.
RECOVERIES_MAX = 5

log = structlog.get_logger()


class Recovery:
    """Counts failed turns and creates new cores.

    Args:
        start: A function that creates a core from the store.
        now: A function that returns the time of a turn.
    """

    def __init__(self, start: Callable[[], Turns], now: Callable[[], Now]) -> None:
        self._start = start
        self._now = now
        self._failures = Failures()
        self._has_failed = False
        # The work that the next core sets aside, and the reason.
        self._poison: tuple[WorkId, str] | None = None

    def add(self, failed: TurnFailed, now_ms: int) -> bool:
        """Counts a failed turn. Returns whether too many turns failed recently."""
        self._has_failed = True
        is_poisoned = self._failures.add(failed.work, now_ms)
        self._poison = None
        if is_poisoned and failed.work is not None:
            self._poison = failed.work, failed.why
        return self._failures.since(now_ms - RECENT_MS) > RECOVERIES_MAX

    def start(self) -> Turns:
        """Returns a new core that has set aside the work that failed too often.

        Raises:
            Exception: The same bug or damage also makes the start fail.
        """
        turns = self._new()
        if self._poison is None:
            return turns
        work, why = self._poison
        try:
            outcome = turns.set_aside(work, why, self._now(), is_mark=False)
        except TurnFailed as failed:
            log.error(
                "setting aside failed, too; the work is skipped instead",
                work=str(work),
                exc_info=failed,
            )
            turns = self._new()
            outcome = turns.set_aside(work, why, self._now(), is_mark=True)
        log_all(outcome.notes)
        return turns

    def _new(self) -> Turns:
        turns = self._start()
        if self._has_failed:  # Each put is stored by itself, so a failure has a known connection.
            turns.broker.streams.puts.joins_from_ms = self._now().ms + RECENT_MS
        return turns


def log_all(notes: list[Note]) -> None:
    """Logs all notes, which come from a start or from setting work aside. Both are rare."""
    for note in notes:
        getattr(log, note.level)(note.event, **note.facts)
