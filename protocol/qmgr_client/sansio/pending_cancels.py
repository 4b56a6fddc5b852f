"""Credits and cancels, which have no answer, and how many of them may be on their way.

The queue manager bounds how many of a connection's messages it buffers, and handles them in order.
So the answer to a settle proves that the messages before it were handled. If no settle follows the
oldest credit or cancel, the client sends an empty settle.

    credit  credit  settle 8  credit ... Settled(8) ──▶ the first two were handled
"""

from collections import deque

from qmgr_client.sansio.settles import Settles
from qmgr_protocol import messages as m


class PendingCancels:
    """The credits and cancels that the queue manager may not have handled yet.

    Invariant: ``_sent`` has, for each of them, how many settle frames were sent before it. These
    numbers never fall.
    """

    def __init__(self, settles: Settles) -> None:
        self._settles = settles
        self._waiting: deque[m.Cancel] = deque()
        self._sent: deque[int] = deque()

    def add(self, cancel: m.Cancel) -> None:
        """Queues a cancel until there is room for it."""
        self._waiting.append(cancel)

    def has_room(self, window: int) -> bool:
        """Returns whether one more may be sent."""
        answered = self._settles.frames_sent - self._settles.frames
        while self._sent and self._sent[0] < answered:
            self._sent.popleft()
        return len(self._sent) < window

    def wants_settle(self) -> bool:
        """Returns whether no settle in flight will prove that the oldest was handled."""
        return bool(self._sent) and self._sent[0] >= self._settles.frames_sent

    def note(self) -> None:
        """Counts one that is sent now."""
        self._sent.append(self._settles.frames_sent)

    def take(self) -> m.Cancel | None:
        """Returns the next cancel, which the caller sends."""
        return self._waiting.popleft() if self._waiting else None

    def lost(self) -> None:
        """Forgets all. They concerned the connection that is lost."""
        self._waiting.clear()
        self._sent.clear()
