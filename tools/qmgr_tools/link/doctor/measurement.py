"""Computes progress, rates and the time until a link is drained from two measurements."""

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
# The keys of a link's row that are copied to the figures.
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
    """The row of a link, and the row *passed_ms* earlier.

    The earlier row is None after only one measurement, or if the link is new.
    """

    row: Row
    before: Row | None = None
    passed_ms: int = 0

    @property
    def is_double(self) -> bool:
        """Whether there are two measurements."""
        return self.before is not None and self.passed_ms > 0

    def grown(self, key: str) -> int:
        """Returns the growth of a number of the row, or 0 if the number was reset."""
        return max(int(self.row.get(key) or 0) - int((self.before or {}).get(key) or 0), 0)

    def landed(self, number: int) -> int:
        """Returns the number of records that a path delivered between the measurements."""
        now, then = (_landed(row).get(number, 0) for row in (self.row, self.before or {}))
        return now if now < then else now - then

    @property
    def has_moved(self) -> bool:
        """Whether a message was committed, held or delivered between the measurements."""
        then = self.before or {}
        is_other = any(self.row.get(key) != then.get(key) for key in ("commit_id", "held"))
        return is_other or _landed(self.row) != _landed(then)

    def per_s(self, count: int) -> float | None:
        """Returns *count* per second, or None without a second measurement."""
        return round(count * 1000 / self.passed_ms, 1) if self.is_double else None

    def figures(self) -> Row:
        """Returns the progress of the link, for scripts."""
        waiting, size = int(self.row.get("waiting") or 0), int(self.row.get("waiting_bytes") or 0)
        gone, come = self.per_s(self.grown("commit_id")), self.per_s(self.grown("next_id"))
        before = self.before or {}
        # The daemon does not report the size of sent messages, so this is the mean size of pending
        # ones.
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
        """Returns the paths, each with its rate."""
        return [
            path | {"messages_per_s": self.per_s(self.landed(path.get("path", 0)))}
            for path in self.row.get("paths") or []
        ]


def _landed(row: Row) -> dict[int, int]:
    """Returns the number of delivered records by path number, because paths may change."""
    paths = row.get("paths") or []
    return {int(path.get("path") or 0): int(path.get("landed") or 0) for path in paths}
