"""The methods by which a message returns to its queue, and their effects."""

from typing import Any, NamedTuple

from qmgr_protocol import messages as m
from tests.qmgrd.core.machine.message import Note

ATTEMPTS_MAX = 10


class How(NamedTuple):
    """The method by which a message returns to its queue."""

    client: str
    is_delivered: bool = True
    is_failed: bool = True
    delay_ms: int = m.DELAY_OF_QUEUE
    code: int = 0
    reason: str = ""
    text: str = ""
    is_rejected: bool = False

    def wait_ms(self, bounds: dict[str, Any], failed: int) -> tuple[int, int]:
        """Returns the minimum and maximum delay of a message that failed *failed* times."""
        if self.delay_ms != m.DELAY_OF_QUEUE:
            return self.delay_ms, self.delay_ms
        if not self.is_failed or not bounds["retry_initial_ms"]:
            return 0, 0
        wait_ms = bounds["retry_initial_ms"]
        for _ in range(failed):
            wait_ms = min(wait_ms * bounds["retry_factor"], bounds["retry_max_ms"])
        wait_ms = min(wait_ms, bounds["retry_max_ms"])
        return int(wait_ms * (100 - bounds["retry_jitter_percent"]) / 100), int(wait_ms)

    def noted(self, note: Note, wall_us: int) -> Note:
        """Returns *note* with one more failure. A note has the first failure and the last few."""
        attempts = list(note.get("attempts", []))
        attempts.append([wall_us, self.code, self.reason, self.text, self.client])
        if len(attempts) > ATTEMPTS_MAX:
            del attempts[1]
        return {**note, "attempts": attempts}
