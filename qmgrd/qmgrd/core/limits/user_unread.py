"""Limits the bytes that all connections of one user together have not read.

    written ──▶ unread_bytes ──── above the limit ───▶ full: all connections of the user are held
                     ▲                                               │
                     └── counted at the connections, every 20 ms ◀───┘

The number is increased with each write. It is decreased only when the connections are counted. They
are counted if the number has grown by much, so the cost for each byte is constant.
"""

from collections.abc import Callable, Collection

COUNT_MS = 20  # time between two counts of a full user


class UserUnread:
    """The unread bytes of one user.

    Invariant: ``unread_bytes`` is at least the unread bytes at the last count, plus the bytes
        written since then, except short replies. ``is_full`` is the result of the last count.
    """

    __slots__ = (
        "_count_at",
        "_count_ms",
        "connections",
        "is_full",
        "limit_bytes",
        "made_bytes",
        "unread_bytes",
    )

    def __init__(self, connections: Collection[int]) -> None:
        """Starts without a limit.

        Args:
            connections: The open connections of the user. The owner changes them.
        """
        self.connections = connections
        self.limit_bytes = 0  # 0 is unlimited
        self.unread_bytes = 0
        self.made_bytes = 0  # bytes that turns made and that have not left yet
        self.is_full = False
        self._count_at = 0
        self._count_ms = 0

    @property
    def must_count(self) -> bool:
        """Whether the connections must be counted before the next turn."""
        return self.unread_bytes > self._count_at

    @property
    def has_made_enough(self) -> bool:
        """Whether turns have made as many bytes for the user as the limit allows."""
        return self.unread_bytes + self.made_bytes >= self.limit_bytes

    def count(self, unsent_of: Callable[[int], int], now_ms: int) -> bool:
        """Counts the unread bytes of all connections, unless a full user was counted just before.

        Returns:
            Whether the user has read enough to continue after it was full.
        """
        was_full = self.is_full
        if was_full and now_ms < self._count_ms and self.limit_bytes:
            return False
        limit = self.limit_bytes
        self.unread_bytes = unread = sum(map(unsent_of, self.connections)) if limit else 0
        self.is_full = 0 < limit <= unread
        self._count_at = max(unread + limit // 16, limit // 2)
        self._count_ms = now_ms + COUNT_MS
        return was_full and not self.is_full
