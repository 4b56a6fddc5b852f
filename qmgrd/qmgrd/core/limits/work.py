"""The name of a piece of the daemon's own work, so that work that keeps failing can be set aside.

begin_work(kind, key) ─▶ does it ─▶ raises: the turn fails, and its failure carries the name
                                          │ once: the core starts again from the store
                                          ▼ twice
                                    set aside (aside.py): no further turn does it
"""

from typing import NamedTuple

KINDS = (
    "row",  # key: of a stored row that a start reads
    "due",  # key: of a row of the schedule
    "message",  # key: of its entry
    "job",  # key: its number
    "queue",  # key: its id; its consumers receive nothing
    "groups",  # key: the id of their queue
    "link",  # key: its name
    "subscription",  # key: its name
    "unused",  # key: the name of a queue or subscription
    "fan-out",  # key: the first publication of a batch, and the queue id of a subscription
    "publication",  # key: its number
    "timer",  # key: the function that it calls
    "events",  # no key
    "history",  # no key
)
FAILURES_MAX = 2  # of the same work, then it is set aside
_KNOWN_MAX = 1_000

Key = bytes | str | int


class WorkId(NamedTuple):
    """A kind of work, and the key of its subject."""

    kind: str
    key: Key = 0

    @property
    def shown_key(self) -> str:
        """The key for people; nothing if the kind has none."""
        if isinstance(self.key, bytes):
            return self.key.hex()
        return str(self.key) if self.key else ""

    def __str__(self) -> str:
        """Returns the name for people."""
        return f"{self.kind} {self.shown_key}".rstrip()


class Failures:
    """The turns that failed in this process, with their work and times."""

    def __init__(self) -> None:
        self._counts: dict[WorkId, int] = {}
        self._recent: list[tuple[int, WorkId | None]] = []  # when, and at which work

    def add(self, work: WorkId | None, now_ms: int) -> bool:
        """Counts a turn that failed at *work*, if it has a name; returns whether to set it aside.

        Work that is set aside does not fail again: its failures no longer count as recent.
        """
        self._recent.append((now_ms, work))
        if work is None:
            return False
        count = self._counts.pop(work, 0) + 1
        if count >= FAILURES_MAX:
            self._recent = [one for one in self._recent if one[1] != work]
            return True
        self._counts[work] = count
        if len(self._counts) > _KNOWN_MAX:
            del self._counts[next(iter(self._counts))]
        return False

    def since(self, since_ms: int) -> int:
        """Returns how many turns failed after *since_ms*; older ones are forgotten."""
        self._recent = [one for one in self._recent if one[0] > since_ms]
        return len(self._recent)
