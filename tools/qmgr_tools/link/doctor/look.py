"""Two looks at a link a moment apart: what moved, how fast, and when it is drained."""

from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
# Of a link's row, as it is told again among the figures.
TOLD = (
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
class Look:
    """A link now, and what it was *passed_ms* before; None where nobody looked, or it was not."""

    row: Row
    before: Row | None = None
    passed_ms: int = 0

    @property
    def is_double(self) -> bool:
        """Whether there are two looks, a moment apart."""
        return self.before is not None and self.passed_ms > 0

    def grown(self, key: str) -> int:
        """Return by how much a number of the row grew; 0 where it did not, or began anew."""
        return max(int(self.row.get(key) or 0) - int((self.before or {}).get(key) or 0), 0)

    def landed(self, number: int) -> int:
        """Return how many records landed over a path, as far as its connection stayed the same."""
        now, then = (_landed(row).get(number, 0) for row in (self.row, self.before or {}))
        return now if now < then else now - then

    @property
    def has_moved(self) -> bool:
        """Whether anything was committed, held or taken between the two looks."""
        then = self.before or {}
        is_other = any(self.row.get(key) != then.get(key) for key in ("commit_id", "held"))
        return is_other or _landed(self.row) != _landed(then)

    def per_s(self, count: int) -> float | None:
        """Return how often in a second that is; None without a second look."""
        return round(count * 1000 / self.passed_ms, 1) if self.is_double else None

    def figures(self) -> Row:
        """Return how the link gets on, for scripts."""
        waiting, size = int(self.row.get("waiting") or 0), int(self.row.get("waiting_bytes") or 0)
        gone, come = self.per_s(self.grown("commit_id")), self.per_s(self.grown("next_id"))
        before = self.before or {}
        # Sizes of what went are not told: they are taken to be as those of what waits, or waited.
        count = waiting + int(before.get("waiting") or 0)
        mean_bytes = (size + int(before.get("waiting_bytes") or 0)) / count if count else 0.0
        nets = None if gone is None or come is None else gone - come
        return {key: self.row.get(key) for key in TOLD} | {
            "messages_per_s": gone,
            "bytes_per_s": None if gone is None else round(gone * mean_bytes),
            "put_per_s": come,
            "drained_ms": round(waiting * 1000 / nets) if waiting and nets and nets > 0 else None,
        }

    def paths(self) -> list[Row]:
        """Return the paths, each with what lands over it in a second."""
        return [
            path | {"messages_per_s": self.per_s(self.landed(path.get("path", 0)))}
            for path in self.row.get("paths") or []
        ]


def _landed(row: Row) -> dict[int, int]:
    """Return what landed over each path: a list of them may have others the next time."""
    paths = row.get("paths") or []
    return {int(path.get("path") or 0): int(path.get("landed") or 0) for path in paths}
