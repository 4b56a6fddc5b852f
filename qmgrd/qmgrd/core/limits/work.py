"""Names pieces of the daemon's own work, so that work that keeps failing can be set aside.

begin_work(kind, key) ─▶ does it ─▶ raises: the turn fails, and its failure carries the name
                                          │ once: the core starts again from the store
                                          ▼ twice
                                    set aside (aside.py): no further turn does it
"""

from typing import NamedTuple

# The kinds of work. The comments describe the key of each kind.
KINDS = (
    "row",  # the key of a stored row that the daemon reads at the start
    "due",  # the key of a row of the schedule
    "message",  # the key of the entry of the message
    "job",  # the job number
    "queue",  # the queue id; the consumers of a queue that is set aside receive nothing
    "groups",  # the queue id of the groups
    "link",  # the link name
    "subscription",  # the subscription name
    "unused",  # the name of a queue or subscription
    "fan-out",  # the number of the first publication of a batch, and the queue id of a subscription
    "publication",  # the number of the publication
    "timer",  # the name of the function that the timer calls
    "events",  # no key
    "history",  # no key
    "audit",  # no key
)
FAILURES_MAX = 2  # the number of failures after which work is set aside
_KNOWN_MAX = 1_000

Key = bytes | str | int


class WorkId(NamedTuple):
    """A kind of work, and the key of its subject."""

    kind: str
    key: Key = 0

    @property
    def shown_key(self) -> str:
        """The key as text for users, or "" if the work has no key."""
        if isinstance(self.key, bytes):
            return self.key.hex()
        return str(self.key) if self.key else ""

    def __str__(self) -> str:
        """Returns the name of the work for users."""
        return f"{self.kind} {self.shown_key}".rstrip()


class Failures:
    """The turns that failed in this process, with the time and the work of each failure."""

    def __init__(self) -> None:
        self._counts: dict[WorkId, int] = {}
        self._recent: list[tuple[int, WorkId | None]] = []  # the time and the work of each failure

    def add(self, work: WorkId | None, now_ms: int) -> bool:
        """Counts a failed turn. Returns whether *work* must be set aside, if it is known.

        Work that is set aside cannot fail again, so its failures no longer count as recent.
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
        """Returns the number of turns that failed after *since_ms*. Forgets older failures."""
        self._recent = [one for one in self._recent if one[0] > since_ms]
        return len(self._recent)
