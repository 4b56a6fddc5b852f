"""Credits and cancels: they have no answer, yet the queue manager bounds how many may wait there.

It takes a connection's messages in their order. So a settle that is answered tells that all before
it were taken. Where no settle is on its way behind the oldest of ours, an empty one is sent.

    credit  credit  settle 8  credit ... Settled(8) ──▶ the first two were taken
"""

from collections import deque

from qmgr_client.sansio.settles import Settles
from qmgr_protocol import messages as m


class Unanswered:
    """What has no answer and may not have been taken yet.

    Invariant: ``_sent`` has, for each, how many settle frames went before it; it never falls.
    """

    def __init__(self, settles: Settles) -> None:
        self._settles = settles
        self._waiting: deque[m.Cancel] = deque()
        self._sent: deque[int] = deque()

    def add(self, cancel: m.Cancel) -> None:
        """Take in a cancel, to be sent when there is room."""
        self._waiting.append(cancel)

    def has_room(self, window: int) -> bool:
        """Return whether one more may be sent."""
        answered = self._settles.frames_sent - self._settles.frames
        while self._sent and self._sent[0] < answered:
            self._sent.popleft()
        return len(self._sent) < window

    def wants_settle(self) -> bool:
        """Return whether nothing on its way will tell that the oldest was taken."""
        return bool(self._sent) and self._sent[0] >= self._settles.frames_sent

    def note(self) -> None:
        """Count one that is sent now."""
        self._sent.append(self._settles.frames_sent)

    def take(self) -> m.Cancel | None:
        """Return the next cancel."""
        return self._waiting.popleft() if self._waiting else None

    def lost(self) -> None:
        """Forget all: it concerned the connection that is gone."""
        self._waiting.clear()
        self._sent.clear()
