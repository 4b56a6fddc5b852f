"""Limits the memory of replies that peers have not read, over all connections together.

Each connection has a share. While the total room is *tight*, a connection above its share is sent
no more data. If that does not help, peers that read nothing are cut off, the worst first. As a last
resort, the worst peers are cut off even if they read some data.
"""

from typing import TYPE_CHECKING

from qmgr_protocol import messages as m
from qmgr_protocol.errors import ErrorCode
from qmgrd.core.limits.unread_replies import SHARE_BYTES

if TYPE_CHECKING:
    from qmgrd.net.session import SocketSession

COUNTED_BYTES = 1024  # Replies shorter than this are counted only at the next check.
COUNT_MS = 20  # time between two counts while the room is tight
STALLED_LOOKS = 5  # number of consecutive checks without noticeable progress


class Unsent:
    """The written bytes that peers have not read.

    Invariant: ``_bytes`` is at least the number of unsent bytes at the last count plus the bytes
        written since then, except short replies.
    """

    def __init__(
        self,
        bytes_max: int,
        longest_bytes: int,
        patience_ms: int,
        sessions: "dict[int, SocketSession]",
    ) -> None:
        """Initializes the limits.

        Args:
            bytes_max: The limit for all connections together.
            longest_bytes: The size of the longest frame. The room is tight while a frame of this
                size does not fit.
            patience_ms: The time for which the room may stay tight while peers read a little.
        """
        self.is_room_short = False
        self._tight_bytes = max(bytes_max - longest_bytes, 0)
        self.bytes_max = bytes_max
        self._patience_ms = patience_ms
        self._sessions = sessions
        self._bytes = 0
        self._count_at = bytes_max // 2
        self._count_ms = 0  # time of the next count while the room is tight
        self._tight_ms = 0  # time since when the room is tight
        # Number of bytes that each session has read, and number of checks without progress.
        self._seen: dict[SocketSession, tuple[int, int]] = {}

    def wrote(self, size_bytes: int) -> None:
        """Counts written bytes."""
        self._bytes += size_bytes

    def of(self, connection: int) -> int:
        """Returns the bytes that the peer of *connection* has not read."""
        session = self._sessions.get(connection)
        return 0 if session is None else session.unsent_bytes()

    def room_bytes(self, now_ms: int) -> int:
        """Returns how many bytes may be written before peers read; 0 while the room is tight."""
        if self._bytes > self._count_at or (self.is_room_short and now_ms >= self._count_ms):
            self._count(now_ms)
        return 0 if self.is_room_short else self.bytes_max - self._bytes

    def _count(self, now_ms: int) -> None:
        self._bytes = sum(session.unsent_bytes() for session in self._sessions.values())
        step = self.bytes_max // 16
        self._count_at = max(self._bytes + step, self.bytes_max // 2)
        self._count_ms = now_ms + COUNT_MS
        if not self.is_room_short and self._bytes > self._tight_bytes:
            self.is_room_short, self._tight_ms = True, now_ms
            self._set_marks()
        elif self.is_room_short and self._bytes <= self._tight_bytes * 3 // 4:
            self.is_room_short = False
            self._set_marks()
            self._seen.clear()

    def _set_marks(self) -> None:
        for session in list(self._sessions.values()):
            session.set_marks(is_room_short=self.is_room_short)

    def tick(self, now_ms: int, *, is_ahead: bool = False) -> None:
        """Counts the unsent bytes. Cuts off the worst peer if the room stays tight.

        Args:
            is_ahead: Whether the limit of waiting requests is exceeded. If so, a peer that reads
                nothing is also cut off, because its requests would wait forever.
        """
        self._count(now_ms)
        if self.is_room_short or is_ahead:
            self._cut_off_worst(now_ms, is_ahead=is_ahead)

    def _cut_off_worst(self, now_ms: int, *, is_ahead: bool) -> None:
        is_urgent = self.is_room_short and now_ms - self._tight_ms >= self._patience_ms
        above = [s for s in self._sessions.values() if s.unsent_bytes() > SHARE_BYTES]
        seen = self._seen
        self._seen = {session: _progress(session, seen.get(session)) for session in above}
        for session in sorted(above, key=lambda s: s.unsent_bytes(), reverse=True):
            if self._bytes <= self._tight_bytes * 3 // 4 and not is_ahead:
                break
            if is_urgent or self._seen[session][1] >= STALLED_LOOKS:
                unsent_bytes = session.unsent_bytes()
                session.cut_off(_left_unread(unsent_bytes, self.bytes_max))
                self._bytes -= unsent_bytes
        self._count(now_ms)


def _progress(session: "SocketSession", seen: tuple[int, int] | None) -> tuple[int, int]:
    """Returns the bytes that *session* has read, and its consecutive checks without progress."""
    fetched = session.fetched_bytes()
    if seen is None:
        return fetched, 0
    return fetched, seen[1] + 1 if fetched - seen[0] < SHARE_BYTES else 0


def _left_unread(unsent_bytes: int, limit_bytes: int) -> m.Goaway:
    return m.Goaway(
        ErrorCode.CREDIT_EXCEEDED,
        f"the peer left {unsent_bytes} bytes of replies unread; "
        f"the limit of all connections together is {limit_bytes}",
    )
