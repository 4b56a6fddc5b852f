"""Two measurements of a link a moment apart: progress, rates, and time until it is drained."""

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
# Keys of a link's row that are repeated in the figures.
ROW_KEYS = (
    "waiting",
    "waiting_bytes",
    "in_flight",
    "oldest_ms",
    "commit_id",
    "held",
    "next_id",
    "transferred",
    "resent",
    "connections",
    "connections_up",
    "down_ms",
    "redial_ms",
    "blocked_ms",
    "retry_ms",
)


@dataclass(frozen=True, slots=True)
class Measurement:
    """A link now, and *passed_ms* before; None if there is one measurement or the link is new."""

    row: Row
    before: Row | None = None
    passed_ms: int = 0

    @property
    def is_double(self) -> bool:
        """Whether there are two measurements."""
        return self.before is not None and self.passed_ms > 0

    def grown(self, key: str) -> int:
        """Return the growth of a number of the row; 0 if it did not grow, or was reset."""
        return max(int(self.row.get(key) or 0) - int((self.before or {}).get(key) or 0), 0)

    def landed(self, number: int) -> int:
        """Return how many records a path delivered over the same connection."""
        now, then = (_landed(row).get(number, 0) for row in (self.row, self.before or {}))
        return now if now < then else now - then

    @property
    def has_moved(self) -> bool:
        """Whether anything was committed, held or delivered between the measurements."""
        then = self.before or {}
        is_other = any(self.row.get(key) != then.get(key) for key in ("commit_id", "held"))
        return is_other or _landed(self.row) != _landed(then)

    def per_s(self, count: int) -> float | None:
        """Return *count* per second; None without a second measurement."""
        return round(count * 1000 / self.passed_ms, 1) if self.is_double else None

    def figures(self) -> Row:
        """Return the progress of the link, for scripts."""
        waiting, size = int(self.row.get("waiting") or 0), int(self.row.get("waiting_bytes") or 0)
        gone, come = self.per_s(self.grown("commit_id")), self.per_s(self.grown("next_id"))
        before = self.before or {}
        # The daemon does not report the size of sent messages: assume that of pending ones.
        count = waiting + int(before.get("waiting") or 0)
        mean_bytes = (size + int(before.get("waiting_bytes") or 0)) / count if count else 0.0
        nets = None if gone is None or come is None else gone - come
        return {key: self.row.get(key) for key in ROW_KEYS} | {
            "messages_per_s": gone,
            "bytes_per_s": None if gone is None else round(gone * mean_bytes),
            "put_per_s": come,
            "drained_ms": round(waiting * 1000 / nets) if waiting and nets and nets > 0 else None,
        }

    def paths(self) -> list[Row]:
        """Return the paths, each with its rate."""
        return [
            path | {"messages_per_s": self.per_s(self.landed(path.get("path", 0)))}
            for path in self.row.get("paths") or []
        ]


def _landed(row: Row) -> dict[int, int]:
    """Return the records that each path delivered, by number: the paths may change."""
    paths = row.get("paths") or []
    return {int(path.get("path") or 0): int(path.get("landed") or 0) for path in paths}
