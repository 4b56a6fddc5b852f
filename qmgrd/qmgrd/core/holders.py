"""How many hold each publication: it is stored once, and goes with the last of them.

What changes in a turn is written at its end (publications.py), so that a publication which many
acknowledge at once costs one row.
"""


class Holders:
    """What this turn changed. Each subscription that has a publication holds it, and its topic."""

    def __init__(self) -> None:
        self.changes: dict[int, int] = {}  # by arrival

    def hold(self, arrival: int, count: int = 1) -> None:
        """Count *count* who hold the publication of that *arrival* from now on."""
        self.changes[arrival] = self.changes.get(arrival, 0) + count

    def release(self, arrival: int) -> None:
        """Count one who holds it no more."""
        self.changes[arrival] = self.changes.get(arrival, 0) - 1
