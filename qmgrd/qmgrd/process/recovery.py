"""After a turn that failed: a new core from the store, without the work that failed twice."""

from collections.abc import Callable

import structlog

from qmgrd.core.context.context import Note
from qmgrd.core.layout.kv import Now
from qmgrd.core.limits.work import Failures, Work
from qmgrd.core.turn import TurnFailed, Turns

RECENT_MS = 60_000
RECOVERIES_MAX = 5  # within RECENT_MS; then the process ends and its supervisor decides

log = structlog.get_logger()


class Recovery:
    """Counts the turns that failed.

    Args:
        start: makes a new core from the store.
        now: returns the time of a turn.
    """

    def __init__(self, start: Callable[[], Turns], now: Callable[[], Now]) -> None:
        self._start = start
        self._now = now
        self._failures = Failures()
        self._poison: tuple[Work, str] | None = None  # to be set aside by the next core, and why

    def add(self, failed: TurnFailed, now_ms: int) -> bool:
        """Counts a turn that failed; return whether so many did of late that nothing helps."""
        is_poisoned = self._failures.add(failed.work, now_ms)
        self._poison = None
        if is_poisoned and failed.work is not None:
            self._poison = failed.work, failed.why
        return self._failures.since(now_ms - RECENT_MS) > RECOVERIES_MAX

    def start(self) -> Turns:
        """Returns a new core, which has set aside what failed too often.

        Raises:
            Exception: the bug, or damage, meets the start as well.
        """
        turns = self._start()
        if self._poison is None:
            return turns
        work, why = self._poison
        try:
            outcome = turns.set_aside(work, why, self._now(), is_mark=False)
        except TurnFailed as failed:
            log.error(
                "setting aside failed, too; the work is passed over instead",
                work=str(work),
                exc_info=failed,
            )
            turns = self._start()
            outcome = turns.set_aside(work, why, self._now(), is_mark=True)
        log_all(outcome.notes)
        return turns


def log_all(notes: list[Note]) -> None:
    """Logs what a start or setting aside reports: neither happens often."""
    for note in notes:
        getattr(log, note.level)(note.event, **note.facts)
