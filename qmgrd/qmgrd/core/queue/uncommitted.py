"""Counts the puts of open units of work on a queue."""

from collections.abc import Mapping


class Uncommitted:
    """The puts to a queue that wait for the commits of their units of work.

    Invariant: ``messages`` is the number of puts, and ``bytes`` is the size of their records.
    """

    __slots__ = ("arrivals", "bytes", "messages")

    def __init__(self) -> None:
        # Arrival numbers by key of the UID index, in order. A number is 0 if the commit assigns it.
        self.arrivals: dict[bytes, int] = {}
        self.messages = 0
        self.bytes = 0

    def add(self, arrivals: Mapping[bytes, int], size: int) -> None:
        """Adds puts with a total of *size* bytes.

        Args:
            arrivals: The arrival numbers of the puts, by key of the UID index.
            size: The total size of their records.
        """
        self.arrivals.update(arrivals)
        self.messages += len(arrivals)
        self.bytes += size

    def remove(self, index_key: bytes, size: int) -> None:
        """Removes a put of *size* bytes after it was appended or rolled back."""
        self.arrivals.pop(index_key, None)
        self.messages -= 1
        self.bytes -= size

    @property
    def lowest(self) -> int:
        """The lowest arrival number that is reserved for a put, or 0 if none is reserved."""
        return next(iter(self.arrivals.values()), 0)
