"""The conditions of a query on some columns. The readers skip data that cannot match them.

None means that a part has no condition. The start of a range is inclusive, and the end is
exclusive.
"""

from typing import Any, NamedTuple

Names = frozenset[str]


class Filters(NamedTuple):
    """Conditions for rows, in addition to the options."""

    managers: Names | None = None
    snapshots: Names | None = None  # snapshot ids
    queues: Names | None = None
    states: Names | None = None
    since_us: int | None = None
    until_us: int | None = None
    since_arrival: int | None = None
    until_arrival: int | None = None

    def with_names(self, part: str, names: Names) -> "Filters":
        """Returns these filters with the additional condition that *part* is one of *names*."""
        known: Names | None = getattr(self, part)
        changed: dict[str, Any] = {part: names if known is None else known & names}
        return self._replace(**changed)

    def with_bounds(self, part: str, since: int | None, until: int | None) -> "Filters":
        """Returns these filters with additional bounds for *part*, which is "us" or "arrival"."""
        changed: dict[str, Any] = {
            f"since_{part}": later(getattr(self, f"since_{part}"), since),
            f"until_{part}": earlier(getattr(self, f"until_{part}"), until),
        }
        return self._replace(**changed)

    def allows(self, part: str, name: str) -> bool:
        """Returns whether *part* may be *name*."""
        known: Names | None = getattr(self, part)
        return known is None or name in known


def later(one: int | None, other: int | None) -> int | None:
    """Returns the later of two optional starts."""
    return max((x for x in (one, other) if x is not None), default=None)


def earlier(one: int | None, other: int | None) -> int | None:
    """Returns the earlier of two optional ends."""
    return min((x for x in (one, other) if x is not None), default=None)


def is_within(value: int | None, since: int | None, until: int | None) -> bool:
    """Returns whether *value* is within the bounds.

    An unknown value (None) is within the bounds only if both bounds are None.
    """
    if since is None and until is None:
        return True
    if value is None or (since is not None and value < since):
        return False
    return until is None or value < until
