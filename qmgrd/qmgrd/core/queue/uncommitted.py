"""Puts of open units of work, as their queue counts them."""

from collections.abc import Mapping


class Uncommitted:
    """The puts to a queue that wait for the commits of their units.

    Invariant: ``messages`` and ``bytes`` are the number of puts and the size of their records.
    """

    __slots__ = ("arrivals", "bytes", "messages")

    def __init__(self) -> None:
        # Arrivals by key of the UID index, in order; 0 if the commit assigns them.
        self.arrivals: dict[bytes, int] = {}
        self.messages = 0
        self.bytes = 0

    def add(self, arrivals: Mapping[bytes, int], size: int) -> None:
        """Adds puts of *size* bytes in all: by key of the UID index, their arrivals."""
        self.arrivals.update(arrivals)
        self.messages += len(arrivals)
        self.bytes += size

    def remove(self, index_key: bytes, size: int) -> None:
        """Removes a put of *size* bytes, which is appended or given up."""
        self.arrivals.pop(index_key, None)
        self.messages -= 1
        self.bytes -= size

    @property
    def lowest(self) -> int:
        """The lowest arrival that is kept for a put; 0 if none is."""
        return next(iter(self.arrivals.values()), 0)
