"""What of a link is on its way: puts that the peer may not have taken yet, in their order."""

from collections import deque


class Flight:
    """First id, messages and bytes of each put; ``messages`` and ``bytes`` are of all."""

    __slots__ = ("_puts", "bytes", "messages")

    def __init__(self) -> None:
        self._puts: deque[tuple[int, int, int]] = deque()
        self.messages = self.bytes = 0

    def add(self, first_id: int, messages: int, bytes_: int) -> None:
        """Take note of a put that was sent."""
        self._puts.append((first_id, messages, bytes_))
        self.messages += messages
        self.bytes += bytes_

    def land_to(self, commit_id: int) -> None:
        """Count as taken what a commit covers."""
        while self._puts and sum(self._puts[0][:2]) <= commit_id + 1:
            self._land(1)

    def land_with(self, seq_id: int) -> None:
        """Count the put that has *seq_id*, and all before it, as taken: they keep their order."""
        for index, (first_id, count, _) in enumerate(self._puts):
            if first_id <= seq_id < first_id + count:
                self._land(index + 1)
                return

    def land_all(self) -> None:
        """Count all as taken, or lost."""
        self._land(len(self._puts))

    def _land(self, puts: int) -> None:
        for _ in range(puts):
            _, messages, bytes_ = self._puts.popleft()
            self.messages -= messages
            self.bytes -= bytes_
