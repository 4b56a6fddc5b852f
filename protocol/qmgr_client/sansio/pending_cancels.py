"""Credits and cancels: these messages have no answer, and their number in transit is limited.

The queue manager limits the number of messages that it buffers for a connection, and handles these
messages in order. The answer to a settle therefore proves that the messages before the settle were
handled. If no settle follows the oldest credit or cancel, the client sends an empty settle.

    credit  credit  settle 8  credit ... Settled(8) ──▶ the first two were handled
"""

from collections import deque

from qmgr_client.sansio.settles import Settles
from qmgr_protocol import messages as m


class PendingCancels:
    """The credits and cancels that the queue manager may not have handled yet.

    Invariant: for each credit or cancel, ``_sent`` has the number of settle frames that were sent
    before it. These numbers never decrease.
    """

    def __init__(self, settles: Settles) -> None:
        self._settles = settles
        self._waiting: deque[m.Cancel] = deque()
        self._sent: deque[int] = deque()

    def add(self, cancel: m.Cancel) -> None:
        """Queues a cancel until the window has room for it."""
        self._waiting.append(cancel)

    def has_room(self, window: int) -> bool:
        """Returns whether the window has room for another credit or cancel."""
        answered = self._settles.frames_sent - self._settles.frames
        while self._sent and self._sent[0] < answered:
            self._sent.popleft()
        return len(self._sent) < window

    def wants_settle(self) -> bool:
        """Returns whether to send a settle, whose answer proves that the oldest was handled."""
        return bool(self._sent) and self._sent[0] >= self._settles.frames_sent

    def note(self) -> None:
        """Counts a credit or cancel that is sent now."""
        self._sent.append(self._settles.frames_sent)

    def take(self) -> m.Cancel | None:
        """Returns the next cancel to send, or None."""
        return self._waiting.popleft() if self._waiting else None

    def lost(self) -> None:
        """Forgets all credits and cancels, because their connection is lost."""
        self._waiting.clear()
        self._sent.clear()
